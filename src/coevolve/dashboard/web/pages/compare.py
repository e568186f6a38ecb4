"""Arms side by side, with paired intervals over seeds; and any two runs."""

import json
from pathlib import Path
from typing import Any

from coevolve.core.errors import UserError
from coevolve.dashboard.apart import curves_beside, results_apart, settings_apart
from coevolve.dashboard.web.folders import mark
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.evaluation.arms import ArmResult, Row, table, unequal
from coevolve.evaluation.seeds import Change
from coevolve.harness.comparison import UNTRAINED
from coevolve.store.jobs import JOB, RESULT, result_of


def show(site: Site, address: Address) -> Page:
    """All comparisons, the table of one, or two runs."""
    found = site.folders.comparisons()
    if not address.rest:
        chosen = tuple(address.query.get(name, "") for name in ("one", "other"))
        if all(chosen):
            return two(site, *chosen)
        listed = [{"name": name, **progress(folder)} for name, folder in found.items()]
        runs = {"runs": list(site.folders.runs()), "chosen": chosen}
        values = {"comparisons": listed, "folder": str(site.folders.root), **runs}
        return Page("web/comparisons.html", "Comparisons", values)
    if address.rest not in found:
        raise Missing(f"there is no comparison {address.rest:.100}")
    folder = found[address.rest]
    files = tuple(mark(file) for file in sorted(folder.glob(f"*/*/{RESULT}")))
    stamp = (mark(folder / "comparison.json"), files)
    values = site.cache.get(("compare", address.rest), stamp, lambda: compared(folder))
    return Page("web/compare.html", f"Compare: {address.rest}", {"name": address.rest, **values})


def two(site: Site, *names: str) -> Page:
    """Two runs: their answers, curves on top of each other, and what sets them apart."""
    known = site.folders.runs()
    for name in names:
        if name not in known:
            raise Missing(f"there is no run {name:.200} in this folder")
    runs = [known[name] for name in names]
    records = [site.record(run) for run in runs]
    stamp = tuple(site.folders.stamp(run) for run in runs)
    values = site.cache.get(
        ("two", *names),
        stamp,
        lambda: {
            "results": results_apart(*records),
            "settings": settings_apart(*(record.lineage for record in records)),
            "curves": curves_beside(*zip(names, records, strict=True)),
        },
    )
    shown = {"sides": [site.summary(run) for run in runs], "runs": list(known), "chosen": names}
    return Page("web/two.html", f"Compare: {names[0]} and {names[1]}", {**shown, **values})


def progress(folder: Path) -> dict[str, Any]:
    jobs, done = list(folder.glob(f"*/*/{JOB}")), list(folder.glob(f"*/*/{RESULT}"))
    arms = sorted({job.parents[1].name for job in jobs})
    return {"arms": arms, "jobs": len(jobs), "done": len(done)}


def compared(folder: Path) -> dict[str, Any]:
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
        "runs": {row.arm: [f"{row.arm}/seed-{seed}" for seed in row.seeds] for row in rows},
        **progress(folder),
    }


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
