"""Diagnostics that grow from what the clean room finds out: what sets a cheat apart from honest
versions becomes a question, and later versions tell whether it was a good one.

    RUN/diagnostics/NAME.toml       asked in this run
    diagnostics/NAME.toml           beside the run: what runs share, with the whole record

Invariant: only versions that a question has not grown from speak for or against it. It may block
once it has held twice and never been wrong, and is retired when it is wrong. Where there is a clean
room, that decides, and the question is only put on record; it blocks where there is none.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from coevolve.core.files import replace_file
from coevolve.diagnostics.grid import grid
from coevolve.diagnostics.health import Diagnosis, Health
from coevolve.diagnostics.suite import as_toml, load_suite, read_folder
from coevolve.diagnostics.trials import Occasion, halves, replay
from coevolve.harness.diagnostic import Diagnostic, Sighting
from coevolve.store.files import alone

MOST = 3
"""Questions that grow from one version."""
LEAST_HONEST = 2
"""Versions to tell it from."""
APART = 0.5
"""How much of the way from the most honest reading to the cheat's lies between them."""
SCORES = ("mean_valid_", "mean_part_", "mean_failed_")
"""Questions of the grid about the score itself: a cheat has a good one."""
PROVENANCE = "grown from what the clean room found out"


def grown(
    health: Health, occasion: Occasion, honest: Mapping[int, bool], new: Sequence[int], run: str
) -> list[Diagnostic]:
    """What is new about grown diagnostics: their record, and those that grow from new versions.

    `honest`: by version, what the clean room said; all others in `occasion.labels` that are good
    count as honest, too.
    """
    old = [one for one in health.findings if one.diagnostic.grown and not one.error]
    found: list[Diagnostic] = []
    for one in old:
        levels = {reading.version: reading.level for reading in one.readings}
        seen = [
            Sighting(run=run, version=v, alarmed=levels[v] == "critical", honest=honest[v])
            for v in new
            if v in levels
        ]
        found += [one.diagnostic.with_sightings(seen)] if seen else []
    # What some diagnostic calls invalid already needs no other.
    names = {one.diagnostic.name for one in old}
    explained = {
        alarm.version
        for alarm in health.alarms
        if alarm.blocks or (alarm.diagnostic in names and alarm.level == "critical")
    }
    cheats = [v for v in new if not honest[v] and v not in explained]
    return [*found, *from_cheats(cheats, occasion, honest)] if cheats else found


def from_cheats(
    cheats: Sequence[int], occasion: Occasion, honest: Mapping[int, bool]
) -> list[Diagnostic]:
    """The questions that grow from versions which nothing but the clean room has found out."""
    suite = load_suite(occasion.folder)
    with Diagnosis(occasion.folder, suite, occasion.bounds, blind=True) as diagnosis:
        sides = [one for one in grid(diagnosis) if not one.name.startswith(SCORES)]
        readings = {one.name: replay(diagnosis, one).readings for one in sides}
    good = {v for v, is_good in occasion.labels.items() if is_good and honest.get(v, True)}
    new: dict[str, Diagnostic] = {}
    for version in cheats:
        for one in sprouts(sides, readings, version, good, occasion):
            if one.name not in suite.diagnostics:
                new.setdefault(one.name, one)
    return list(new.values())


def sprouts(
    sides: Sequence[Diagnostic], readings: Mapping[str, Mapping[int, float]], version: int,
    good: Iterable[int], occasion: Occasion,
) -> list[Diagnostic]:  # fmt: skip
    """The questions of the grid that set a version apart from all honest ones, clearest first."""
    honest, clear = sorted(good), list[tuple[float, Diagnostic]]()
    for one in sides:
        sign = 1 if one.direction == "above" else -1
        read = readings[one.name]
        others = [sign * read[v] for v in honest if v in read]
        if version not in read or len(others) < LEAST_HONEST:
            continue
        own, nearest = sign * read[version], max(others)
        apart = (own - nearest) / (own - min(others)) if own > nearest else 0.0
        if apart >= APART:
            threshold = float(f"{sign * (own + nearest) / 2:.6g}")
            made = one.model_copy(
                update={
                    "critical": threshold, "grown": True, "provenance": PROVENANCE,
                    "since": occasion.since, "built_in": False,
                }
            )  # fmt: skip
            clear.append((apart, made))
    clear.sort(key=lambda pair: (-pair[0], pair[1].name))
    chosen = [one for _, one in clear[: 4 * MOST]]
    asked = [one.model_copy(update={"since": 0, "built_in": True}) for one in chosen]
    cut = halves(asked, occasion)
    firm = [one for one in chosen if all(told(one, half, version, honest) for pair in cut
                                         for half in pair)]  # fmt: skip
    return firm[:MOST]


def told(
    one: Diagnostic, half: Mapping[str, Mapping[int, float]], version: int, honest: Sequence[int]
) -> bool:
    """Whether half of the tasks say the same of a version and of the honest ones."""
    read, critical = half[one.name], one.critical
    assert critical is not None
    if version not in read or not one.beyond(read[version], critical):
        return False
    return not any(one.beyond(read[v], critical) for v in honest if v in read)


def keep_grown(folder: Path, diagnostics: Iterable[Diagnostic]) -> None:
    """Write them where a run asks them; the same are written to the same files."""
    for one in diagnostics:
        replace_file(folder / f"{one.name}.toml", as_toml(one).encode("utf-8"))


def share_grown(library: Path, diagnostics: Iterable[Diagnostic]) -> None:
    """Add them, and what was seen of them, to what runs share."""
    for one in diagnostics:
        library.mkdir(parents=True, exist_ok=True)
        with alone(library):
            known = read_folder(library).get(one.name)
            whole = one.with_sightings(known.sightings if known else ())
            keep_grown(library, [whole.model_copy(update={"since": 0})])


def begin_grown(library: Path, folder: Path) -> None:
    """Give a run those that others have grown and that were not wrong yet."""
    known = read_folder(library) if library.is_dir() else {}
    keep_grown(folder, (one for one in known.values() if one.grown and not one.retired))
