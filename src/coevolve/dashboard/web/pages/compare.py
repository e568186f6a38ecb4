"""Arms side by side, with paired intervals over seeds."""

import json
from pathlib import Path
from typing import Any

from coevolve.core.errors import UserError
from coevolve.dashboard.web.folders import mark
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.evaluation.arms import ArmResult, table
from coevolve.evaluation.seeds import Change
from coevolve.harness.comparison import UNTRAINED
from coevolve.store.jobs import JOB, RESULT, result_of


def show(site: Site, address: Address) -> Page:
    """All comparisons, or the table of one."""
    found = site.folders.comparisons()
    if not address.rest:
        listed = [{"name": name, **progress(folder)} for name, folder in found.items()]
        values = {"comparisons": listed, "folder": str(site.folders.root)}
        return Page("web/comparisons.html", "Comparisons", values)
    if address.rest not in found:
        raise Missing(f"there is no comparison {address.rest:.100}")
    folder = found[address.rest]
    files = tuple(mark(file) for file in sorted(folder.glob(f"*/*/{RESULT}")))
    stamp = (mark(folder / "comparison.json"), files)
    values = site.cache.get(("compare", address.rest), stamp, lambda: compared(folder))
    return Page("web/compare.html", f"Compare: {address.rest}", {"name": address.rest, **values})


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
