"""The library of skills: those that come with the program, and over them those of a folder.

A file holds one table per skill, named after it; a skill of the folder replaces the built-in one of
its name. What is kept goes into a file of its own. Invariant: files are replaced whole, and a trial
is counted once however often it is told.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from coevolve.core.errors import UserError
from coevolve.core.files import replace_file
from coevolve.core.names import did_you_mean, lookup
from coevolve.engineers.registry import ENGINEERS
from coevolve.engineers.situation import Situation
from coevolve.evaluation.statistics import wilson
from coevolve.harness.check import read_tables
from coevolve.harness.skill import SIGNS, Skill
from coevolve.harness.template import Ask
from coevolve.harness.trigger import trigger
from coevolve.store.files import alone

BUILT_IN = Path(__file__).parent / "skills"


class SkillLibrary:
    """Skills by name, in a folder that need not exist yet."""

    def __init__(self, folder: Path | None = None, built_in: bool = True) -> None:
        self.folder = folder
        shipped = read_folder(BUILT_IN) if built_in else {}
        self.skills = shipped | (read_folder(folder) if folder else {})

    def get(self, name: str) -> Skill:
        return lookup("skill", name, self.skills)

    def matching(self, domain: str, situation: Situation) -> list[Skill]:
        """Skills to follow here, best first; those without a trigger of their own come last."""
        chosen = [
            skill
            for skill in self.skills.values()
            if skill.offered(domain) and skill.applies(situation.values)
        ]
        critical = {alarm.diagnostic for alarm in situation.alarms if alarm.level == "critical"}
        return sorted(chosen, key=lambda skill: preference(skill, domain, critical))

    def warning(self, domain: str, situation: Situation) -> list[Skill]:
        """Skills that say what not to do here."""
        return [
            skill
            for skill in self.skills.values()
            if skill.warns(domain) and skill.applies(situation.values)
        ]

    def put(self, skill: Skill) -> Skill:
        """Keep a skill as it is now, in place of the one of its name."""
        self.skills[skill.name] = skill
        if self.folder is not None:
            with writable(self.folder):
                replace_file(self.folder / f"{skill.name}.toml", as_toml([skill]))
        return skill

    def absorb(self, skill: Skill, foreign: bool = False) -> Skill:
        """Keep a skill with all its trials and those known here, also if others write meanwhile.

        Of a `foreign` one that is known here the trials alone are taken, and they wait.
        """
        unite = taken_in if foreign else united
        if self.folder is None:
            return self.put(unite(self.skills.get(skill.name), skill))
        with writable(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with alone(self.folder):
            file = self.folder / f"{skill.name}.toml"
            written = read_file(file).get(skill.name) if file.is_file() else None
            return self.put(unite(written or self.skills.get(skill.name), skill))

    def copied(self, folder: Path) -> Self:
        """The library as it is now, in another folder; what is there already stays.

        A run that works on its own copy is not disturbed by what others learn meanwhile.
        """
        shipped = read_folder(BUILT_IN)
        for name, skill in self.skills.items():
            file = folder / f"{name}.toml"
            if skill != shipped.get(name) and not file.exists():
                replace_file(file, as_toml([skill]))
        return type(self)(folder)

    def in_memory(self) -> Self:
        """The same skills, without a folder: what is put here is written nowhere."""
        library = type(self)(built_in=False)
        library.skills = dict(self.skills)
        return library


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Say which folder it is that cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write skills to {folder}: {error.strerror}") from None


def preference(skill: Skill, domain: str, critical: Collection[str] = ()) -> tuple[Any, ...]:
    """What skills are sorted by: signs, record, diagnostics that are critical, layer, rank.

    The record is the lower Wilson bound of what held, here or, before it was tried here, anywhere;
    between equal bounds the upper one, so that what is untried comes before what failed.
    """
    at_home = skill.held(domain) + skill.failed(domain)
    where = domain if at_home else ""
    held = skill.held(where)
    rate = wilson(held, held + skill.failed(where))
    urgent = not trigger(skill.trigger).diagnostics.isdisjoint(critical)
    return (
        not skill.trigger, -rate.low, -rate.high, not urgent, SIGNS.index(skill.layer),
        skill.rank, skill.name,
    )  # fmt: skip


def united(known: Skill | None, skill: Skill) -> Skill:
    """A skill with the trials of both."""
    for trial in known.evidence if known else ():
        if trial.key not in {one.key for one in skill.evidence}:
            skill = skill.tried(trial)
    return skill


def taken_in(known: Skill | None, skill: Skill) -> Skill:
    """A skill from elsewhere beside what is known here, whose words and trials stand."""
    waiting = skill.from_elsewhere()
    return united(waiting, known) if known else waiting


def read_folder(folder: Path) -> dict[str, Skill]:
    """All skills of the files in a folder; a file that is named after a skill has the last word."""
    found: dict[str, Skill] = {}
    own: dict[str, Skill] = {}
    for file in sorted(folder.glob("*.toml")):
        for name, skill in read_file(file).items():
            if name == file.stem:
                own[name] = skill
            elif name in found:
                raise UserError(f"{file}: '{name}' is in another file of {folder} too; rename one")
            else:
                found[name] = skill
    return found | own


def read_file(file: Path) -> dict[str, Skill]:
    """One table per skill, named after it."""
    found = {skill.name: skill for skill in read_tables(Skill, file)}
    for name, skill in found.items():
        if isinstance(skill.template, Ask) and skill.template.name not in ENGINEERS:
            wrong = skill.template.name
            hint = did_you_mean(wrong, list(ENGINEERS))
            raise UserError(f"{file}, [{name}]: no engineer is called '{wrong}'{hint}")
    return found


def as_toml(skills: Iterable[Skill]) -> bytes:
    """Skills as the text of a file: what has its default is left out."""
    import tomli_w

    tables = {}
    for skill in skills:
        values = skill.model_dump(mode="json", exclude_defaults=True, exclude={"name"})
        # A template keeps the kind that tells it from others; TOML has no word for what is unknown.
        values["template"] = skill.template.model_dump(mode="json", exclude_none=True)
        if skill.evidence:
            trials = [one.model_dump(mode="json", exclude_none=True) for one in skill.evidence]
            values["evidence"] = trials
        tables[skill.name] = values
    return tomli_w.dumps(tables).encode()
