"""Runs side by side: what they were planned with, what they ended with, and what sets their results
apart.

Invariant: results are only subtracted where both runs were measured on the same gate tasks.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from coevolve.core.rollout import Rollout
from coevolve.dashboard.curves import Curves, Lines, laid, panels_of, steps_of
from coevolve.dashboard.record import Record, read_rollouts
from coevolve.evaluation.difference import Difference, by_task, paired
from coevolve.harness.patch import flat as harness_facts
from coevolve.harness.plan import RATES
from coevolve.harness.plan import flat as plan_facts
from coevolve.store.lineage import Lineage

NAMES = ("name", "folder")
"""Settings that set every two runs apart."""


class Setting(NamedTuple):
    """Something that is not the same in both."""

    part: str
    """plan, harness or gate."""
    name: str
    one: Any
    other: Any

    @property
    def is_knob(self) -> bool:
        return self.name.startswith(("knobs.", "target.knobs.", "small.knobs."))


def settings_apart(one: Lineage, other: Lineage) -> list[Setting]:
    """All that differs."""
    sides = [sides_of(lineage) for lineage in (one, other)]
    return [
        Setting(part, name, sides[0][part].get(name), sides[1][part].get(name))
        for part in sides[0]
        for name in dict.fromkeys([*sides[0][part], *sides[1][part]])
        if sides[0][part].get(name) != sides[1][part].get(name)
    ]


def sides_of(lineage: Lineage) -> dict[str, dict[str, Any]]:
    """A run in numbers and words, by part."""
    plan = spread(plan_facts(lineage.plan.model_dump(mode="json")))
    best = ends_with(lineage)
    node = None if best is None else lineage.nodes[best]
    gate = node.gate.scores if node and node.gate else None
    results: dict[str, Any] = {
        "versions": len(lineage.nodes),
        "kept": sum(version.valid for version in lineage.versions),
        "ends with version": best,
    }
    for name, scores in (("first policy", lineage.base), ("what it ends with", gate)):
        for metric, rate in (scores.rates if scores else {}).items():
            results[f"{name}, {metric}"] = round(rate, 4)
    return {
        "plan": {name: value for name, value in plan.items() if name not in NAMES},
        "harness": spread(harness_facts(lineage.harness(best))),
        "gate": results,
    }


def spread(values: dict[str, Any]) -> dict[str, Any]:
    """Tables of knobs, one by one."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= {f"{name}.{key}": one for key, one in value.items()}
        else:
            found[name] = value
    return found


def ends_with(lineage: Lineage) -> int | None:
    """The version that a run ends with, as it stands; None: the first policy."""
    return lineage.best.version if lineage.best else None


def results_apart(one: Record, other: Record) -> dict[str, Difference]:
    """From what one run ends with to what the other does, by metric; empty where they were not
    measured on the same gate tasks."""
    before, after = last_of(one), last_of(other)
    if not before or {one.task_id for one in before} != {one.task_id for one in after}:
        return {}
    return {name: paired(by_task(before, name), by_task(after, name)) for name in RATES}


def last_of(record: Record) -> list[Rollout]:
    """The gate rollouts of what a run ends with, in the order of their tasks."""
    best = ends_with(record.lineage)
    place = record.paths.base_gate if best is None else record.paths.version(best) / "gate"
    return sorted(read_rollouts(record, place), key=lambda rollout: rollout.task_id)


def curves_beside(chosen: Sequence[tuple[str, Record, int | None]]) -> Curves:
    """One line for each run: the training of all versions on the way to the one that it ends with,
    or of the newest where none was kept; where a version is named, its own training alone."""
    lines = []
    for name, record, version in chosen:
        way = way_to(record.lineage) if version is None else [version]
        steps = [line for number in way for line in steps_of(record, number)]
        if steps:
            lines.append(Lines(name, way[-1], steps))
    panels = tuple(panel._replace(of="") for panel in panels_of(chosen[0][1]))
    return laid(lines, panels, again=True)


def way_to(lineage: Lineage) -> list[int]:
    """The versions whose training led to the last one: where every version begins again, its own
    alone."""
    best = ends_with(lineage)
    at = len(lineage.nodes) - 1 if best is None else best
    way: list[int] = []
    while at >= 0 and at not in way:
        way.insert(0, at)
        parent = lineage.versions[at].parent
        at = -1 if parent is None or lineage.plan.start_from == "base" else parent
    return way
