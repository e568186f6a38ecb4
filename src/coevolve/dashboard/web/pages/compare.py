"""Arms side by side, with paired intervals over seeds; and any runs or versions."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coevolve.core.errors import UserError
from coevolve.dashboard.apart import curves_beside, results_apart, settings_apart
from coevolve.dashboard.curves import MOST_LINES
from coevolve.dashboard.web.folders import RunFolder, mark
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.evaluation.arms import ArmResult, Row, table, unequal
from coevolve.evaluation.seeds import Change
from coevolve.harness.comparison import UNTRAINED
from coevolve.store.jobs import JOB, RESULT, result_of

BESIDE = "@"
"""Between a run and one of its versions: RUN@3."""


def show(site: Site, address: Address) -> Page:
    """All comparisons, the table of one, or some runs."""
    found = site.folders.comparisons()
    if not address.rest:
        chosen = tuple(dict.fromkeys(address.chosen))
        if len(chosen) > 1:
            return beside(site, chosen)
        listed = [{"name": name, **progress(folder)} for name, folder in found.items()]
        runs = {"runs": list(site.folders.runs()), "chosen": chosen}
        values = {"comparisons": listed, "folder": str(site.folders.root), **runs}
        return Page("web/comparisons.html", "Comparisons", values)
    if address.rest not in found:
        raise Missing(f"there is no comparison {address.rest:.100}")
    folder = found[address.rest]
    files = tuple(mark(file) for file in sorted(folder.glob(f"*/*/{RESULT}")))
    stamp = (mark(folder / "comparison.json"), files)
    name = address.rest
    values = site.cache.get(("compare", name), stamp, lambda: compared(name, folder))
    return Page("web/compare.html", f"Compare: {name}", {"name": name, **values})


def beside(site: Site, chosen: tuple[str, ...]) -> Page:
    """Runs, or single versions: curves on top of each other, and the runs' answers; of two runs
    also what sets them apart."""
    if len(chosen) > MOST_LINES:
        raise UserError(f"{len(chosen)} are too many to tell apart; take at most {MOST_LINES}")
    known = site.folders.runs()
    parts = [part_of(known, name) for name in chosen]
    names = list(dict.fromkeys(name for name, _ in parts))
    records = {name: site.record(known[name]) for name in names}
    for name, version in parts:
        if version is not None and version >= len(records[name].lineage.nodes):
            raise Missing(f"run {name} has no version {version}")
    pair = [records[name] for name, version in parts if version is None]

    def made() -> dict[str, Any]:
        two = len(pair) == len(parts) == 2
        lines = [(shown, records[name], version)
                 for shown, (name, version) in zip(chosen, parts, strict=True)]  # fmt: skip
        return {
            "results": results_apart(*pair) if two else {},
            "settings": settings_apart(*(one.lineage for one in pair)) if two else None,
            "curves": curves_beside(lines),
        }

    stamp = tuple(site.folders.stamp(known[name]) for name in names)
    values = site.cache.get(("beside", *chosen), stamp, made)
    sides = [site.summary(known[name]) for name in names]
    shown = {"sides": sides, "runs": list(known), "chosen": chosen, "most": MOST_LINES}
    return Page("web/beside.html", f"Compare: {listed(list(chosen))}", {**shown, **values})


def part_of(known: Mapping[str, RunFolder], name: str) -> tuple[str, int | None]:
    """A run, or one version of it, by what an address calls it."""
    if name in known:
        return name, None
    run, _, version = name.rpartition(BESIDE)
    if run not in known or not re.fullmatch(r"\d{1,6}", version):
        raise Missing(f"there is no run {name:.200} in this folder")
    return run, int(version)


def progress(folder: Path) -> dict[str, Any]:
    jobs, done = list(folder.glob(f"*/*/{JOB}")), list(folder.glob(f"*/*/{RESULT}"))
    arms = sorted({job.parents[1].name for job in jobs})
    return {"arms": arms, "jobs": len(jobs), "done": len(done)}


def compared(name: str, folder: Path) -> dict[str, Any]:
    """Rows with their intervals, from the results of the arms themselves."""
    results: list[ArmResult] = []
    problems = []
    for file in sorted(folder.glob(f"*/*/{RESULT}")):
        try:
            result = result_of(file.parent, ArmResult)
        except UserError as error:
            problems.append(str(error))
            continue
        results += [result] if result else []
    arms = [result.job.arm for result in results if result.job.arm != UNTRAINED]
    recorded = recorded_of(folder)
    reference = str(recorded.get("reference") or (arms[0] if arms else UNTRAINED))
    equal = str(recorded.get("comparison", {}).get("equal", "rollouts"))
    try:
        rows = table(results, reference)
    except UserError as error:
        problems.append(str(error))
        rows = []
    changes = [row.valid_change for row in rows if row.valid_change]
    return {
        "rows": rows,
        "reference": reference,
        "better": better(rows, reference),
        "unequal": unequal(rows, equal),
        "scale": scale(changes),
        "problems": problems,
        "by_seed": by_seed(name, rows),
        **progress(folder),
    }


def by_seed(name: str, rows: list[Row]) -> dict[int, list[str]]:
    """The runs of each seed, as many as can be told apart on top of each other."""
    found: dict[int, list[str]] = {}
    for row in rows:
        for seed in row.seeds if row.arm != UNTRAINED else ():
            found.setdefault(seed, []).append(f"{name}/{row.arm}/seed-{seed}")
    return {seed: runs[:MOST_LINES] for seed, runs in sorted(found.items()) if len(runs) > 1}


def better(rows: list[Row], reference: str) -> str:
    """The answer in a sentence: who did better or worse than the reference, beyond chance."""
    changes = {row.arm: row.valid_change for row in rows if row.arm not in (reference, UNTRAINED)}
    known = {arm: one for arm, one in changes.items() if one}
    if not known:
        return ""
    up = [arm for arm, one in known.items() if one.low > 0]
    down = [arm for arm, one in known.items() if one.high < 0]
    parts = [f"{listed(up)} did better than {reference} beyond chance"] if up else []
    parts += [f"{listed(down)} did worse"] if down and up else []
    parts += [f"{listed(down)} did worse than {reference} beyond chance"] if down and not up else []
    return "; ".join(parts) or f"no arm did better or worse than {reference} beyond chance"


def listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def recorded_of(folder: Path) -> dict[str, Any]:
    """What the comparison has recorded of itself."""
    try:
        found = json.loads((folder / "comparison.json").read_bytes())
    except (OSError, ValueError):
        return {}
    whole = isinstance(found, dict) and isinstance(found.get("comparison", {}), dict)
    return found if whole else {}


def scale(changes: list[Change]) -> tuple[float, float]:
    """The least and the greatest change of a chart, with zero inside."""
    low = min([0.0, *(one.low for one in changes)])
    high = max([0.0, *(one.high for one in changes)])
    room = 0.05 * (high - low) or 0.05
    return low - room, high + room
