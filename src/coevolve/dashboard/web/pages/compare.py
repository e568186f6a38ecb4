"""Arms side by side, with paired intervals over seeds; and any two runs."""

import json
from pathlib import Path
from typing import Any

from coevolve.core.errors import UserError
from coevolve.dashboard.apart import curves_beside, results_apart, settings_apart
from coevolve.dashboard.web.folders import mark
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.evaluation.arms import ArmResult, table
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
    reference = reference_of(folder) or (arms[0] if arms else UNTRAINED)
    try:
        rows = table(results, reference)
    except UserError as error:
        problems.append(str(error))
        rows = []
    changes = [row.valid_change for row in rows if row.valid_change]
    return {
        "rows": rows,
        "reference": reference,
        "scale": scale(changes),
        "problems": problems,
        "runs": {row.arm: [f"{row.arm}/seed-{seed}" for seed in row.seeds] for row in rows},
        **progress(folder),
    }


def reference_of(folder: Path) -> str:
    try:
        return str(json.loads((folder / "comparison.json").read_bytes())["reference"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def scale(changes: list[Change]) -> tuple[float, float]:
    """The least and the greatest change of a chart, with zero inside."""
    low = min([0.0, *(one.low for one in changes)])
    high = max([0.0, *(one.high for one in changes)])
    room = 0.05 * (high - low) or 0.05
    return low - room, high + room
