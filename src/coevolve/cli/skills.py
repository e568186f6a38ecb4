"""`coevolve skills`: patch patterns with their record: look at them, hand them on, take them in."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevolve.core.errors import UserError

if TYPE_CHECKING:
    from coevolve.engineers.library import SkillLibrary
    from coevolve.harness.skill import Skill

app = typer.Typer(
    no_args_is_help=True,
    help="""Manage skills: when to change what, and where that held or failed.

Built-in skills come with the program. Files in a folder add more, or replace them.

Example: coevolve skills list --domain lake
""",
)

Folder = Annotated[
    Path, typer.Option("--folder", "-f", help="Folder of the skills that runs share.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]
SHARED = Path("runs/skills")


@app.command("list")
def list_skills(
    domain: Annotated[str, typer.Option(help="Only skills for this domain.")] = "",
    factor: Annotated[str, typer.Option(help="Only skills that change this factor.")] = "",
    folder: Folder = SHARED,
    as_json: AsJson = False,
) -> None:
    """List all skills with their record, the best first.

    coevolve skills list;  coevolve skills list --domain math --factor reward
    """
    from coevolve.core.names import lookup
    from coevolve.domains.registry import get_domain
    from coevolve.engineers.library import preference
    from coevolve.harness.patch import FACTORS

    if domain:
        get_domain(domain)  # unknown: says so, with the nearest name
    if factor:
        lookup("factor", factor, FACTORS)
    found = [
        skill
        for skill in sorted(opened(folder).skills.values(), key=lambda one: preference(one, domain))
        if factor in ("", skill.factor)
        and (not domain or skill.offered(domain) or skill.warns(domain))
    ]
    if as_json:
        print(json.dumps([with_record(skill) for skill in found]))
        return
    from rich import box

    from coevolve.cli.show import begin_table, out

    short = ("skill", "factor", "record")
    table = begin_table(*short, "held in", "what it does", whole=short, box=box.SIMPLE_HEAD)
    table.caption = f"{len(found)} skills; record: versions kept, and trained but not kept"
    for skill in found:
        warns = skill.negative or bool(domain and skill.warns(domain))
        waits = "quarantined: " if skill.quarantined else ""
        table.add_row(
            skill.name, skill.factor, f"{skill.held()} / {skill.failed()}",
            ", ".join(skill.held_in), waits + ("not: " if warns else "") + skill.summary,
        )  # fmt: skip
    out.print(table)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A name from `coevolve skills list`.")],
    folder: Folder = SHARED,
    as_json: AsJson = False,
) -> None:
    """Show one skill with all its trials.

    coevolve skills show finer_reward
    """
    from coevolve.engineers.library import as_toml

    skill = opened(folder).get(name)
    print(json.dumps(with_record(skill)) if as_json else as_toml([skill]).decode().rstrip())


@app.command("export")
def export_skills(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of skills. Default: all that have a record.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
    folder: Folder = SHARED,
    as_json: AsJson = False,
) -> None:
    """Write skills as one TOML file, to import elsewhere.

    coevolve skills export -o ours.toml;  coevolve skills export finer_reward
    """
    from coevolve.core.files import writing
    from coevolve.engineers.library import as_toml

    library = opened(folder)
    chosen = [library.get(name) for name in names or ()]
    if not names:
        chosen = [skill for skill in library.skills.values() if skill.evidence or skill.learned]
    if not chosen:
        raise UserError(f"no skill in {folder} has a record yet; name those to export")
    text = (
        json.dumps([with_record(skill) for skill in chosen])
        if as_json
        else as_toml(chosen).decode()
    )
    with writing(output) as file:
        file.write(text if text.endswith("\n") else text + "\n")


@app.command("import")
def import_skills(
    files: Annotated[list[Path], typer.Argument(help="TOML files from `coevolve skills export`.")],
    folder: Folder = SHARED,
    as_json: AsJson = False,
) -> None:
    """Import skills. If a skill is already known, only its trials are added.

    No engineer sees them until `coevolve skills accept`, or until they have held here.

    coevolve skills import ours.toml
    """
    from coevolve.cli.show import out
    from coevolve.engineers.library import read_file

    read = [skill for file in files for skill in read_file(file).values()]
    library = opened(folder)
    before = dict(library.skills)
    for skill in read:  # all of them before any is written
        known = before.get(skill.name, skill)
        if (known.factor, known.template) != (skill.factor, skill.template):
            raise UserError(
                f"'{skill.name}' is another skill here; rename one of them, or see "
                f"`coevolve skills show {skill.name}`"
            )
    tell_unknown(read)
    lines: list[dict[str, Any]] = []
    for skill in read:
        known_trials = len(before[skill.name].evidence) if skill.name in before else 0
        taken = library.absorb(skill, foreign=True)
        lines.append({
            "skill": skill.name, "new": skill.name not in before,
            "trials": len(taken.evidence) - known_trials, "quarantined": taken.quarantined,
        })  # fmt: skip
    if as_json:
        print(json.dumps(lines))
        return
    for line in lines:
        what = "new" if line["new"] else "known"
        out.print(f"{line['skill']}: {what}, {line['trials']} trials more", highlight=False)
    out.print("They wait: look at them (`skills show NAME`), then `skills accept NAME`.")


@app.command()
def accept(
    names: Annotated[list[str], typer.Argument(help="Names of imported skills.")],
    folder: Folder = SHARED,
    as_json: AsJson = False,
) -> None:
    """Let engineers use imported skills, and let their trials count.

    coevolve skills accept finer_reward
    """
    from coevolve.cli.show import out

    library = opened(folder)
    chosen = [library.get(name) for name in names]
    for skill in chosen:
        if skill == skill.accepted():
            raise UserError(f"nothing of '{skill.name}' waits; it was not imported, or is accepted")
    found = [library.put(skill.accepted()) for skill in chosen]
    if as_json:
        print(json.dumps([with_record(skill) for skill in found]))
        return
    for skill in found:
        out.print(f"{skill.name}: accepted, {len(skill.evidence)} trials", highlight=False)


def tell_unknown(skills: list["Skill"]) -> None:
    """Say which triggers look at what no built-in diagnostic is called: perhaps a slip."""
    from coevolve.cli.show import PLAIN, notes
    from coevolve.core.names import did_you_mean
    from coevolve.diagnostics.suite import load_suite
    from coevolve.harness.trigger import trigger

    known = load_suite().diagnostics
    for skill in skills:
        for name in sorted(trigger(skill.trigger).diagnostics - known.keys()):
            hint = did_you_mean(name, list(known))
            line = f"{skill.name}: no built-in diagnostic is called '{name}'{hint}"
            notes.print(line, **PLAIN)


def opened(folder: Path) -> "SkillLibrary":
    """The library over a folder, which need not exist."""
    from coevolve.engineers.library import SkillLibrary

    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder; skills are kept as files in one")
    return SkillLibrary(folder)


def with_record(skill: "Skill") -> dict[str, Any]:
    """A skill with what follows from its record."""
    return {
        **skill.model_dump(mode="json"),
        "quarantined": skill.quarantined,
        "held": skill.held(),
        "failed": skill.failed(),
        "held_in": list(skill.held_in),
    }
