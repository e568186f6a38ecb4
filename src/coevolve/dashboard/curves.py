"""Training step by step, as columns of numbers for charts.

Where training goes on from version to version, their lines are laid end to end; where every version
begins again with the first policy, or several grow from one, on top of each other. Invariant: no
point is a mean over several versions.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from coevolve.dashboard.record import Record, read_steps

MOST_POINTS = 2_000
"""More steps than this are averaged, several to a point."""
MOST_LINES = 6
"""Versions that are laid on top of each other."""
Steps = list[dict[str, float]]


class Panel(NamedTuple):
    """One metric."""

    key: str
    title: str
    unit: str
    """percent, number or rate."""
    of: str
    """What each point is a mean of, with n."""
    first: bool = False
    """Whether it is shown at once; others are unfolded."""


class Curve(NamedTuple):
    """One version."""

    name: str
    version: int
    steps: list[float]
    """Where its points are; the middle where several steps are one point."""
    values: dict[str, list[float | None]]
    """By panel."""


class Lines(NamedTuple):
    """What a version wrote down of its training."""

    name: str
    version: int
    steps: Steps


class Curves(NamedTuple):
    """All panels over the same steps."""

    panels: tuple[Panel, ...]
    curves: tuple[Curve, ...]
    again: bool
    """Whether every version begins again, so that they share their steps."""
    total: int
    stride: int
    """Steps per point."""
    left_out: int
    """Versions that are not drawn."""

    def as_json(self) -> dict[str, object]:
        """What the script draws."""
        return {
            "again": self.again,
            "units": {panel.key: panel.unit for panel in self.panels},
            "curves": [curve._asdict() for curve in self.curves],
        }


def curves_of(record: Record) -> Curves:
    """The metrics of every step that was written down."""
    lineage = record.lineage
    found: dict[int, Steps] = {}
    for node in lineage.nodes:
        if steps := steps_of(record, node.number):
            found[node.number] = steps
        elif node.train:
            record.trouble(
                f"version {node.number} has no steps.jsonl: its training curves are missing"
            )
    again = lineage.plan.start_from == "base" or branches(record)
    shown = chosen(record, list(found)) if again else list(found)
    lines = [Lines(f"version {number}", number, found[number]) for number in shown]
    return laid(lines, panels_of(record), again)._replace(left_out=len(found) - len(shown))


def steps_of(record: Record, number: int) -> Steps:
    return with_speed(read_steps(record, number))


def laid(lines: Sequence[Lines], known: tuple[Panel, ...], again: bool) -> Curves:
    """Lines end to end, or on top of each other; only the panels that they have values for."""
    total = sum(len(one.steps) for one in lines)
    stride = max(1, -(-total // MOST_POINTS))
    there = {key for one in lines for step in one.steps for key in step}
    panels = tuple(panel for panel in known if panel.key in there)
    curves, first = [], 0
    for one in lines:
        curves.append(curve(one, first, stride, panels))
        first += 0 if again else len(one.steps)
    return Curves(panels, tuple(curves), again, total, stride, 0)


def branches(record: Record) -> bool:
    """Whether several versions that were kept grew from the same one: no line goes through all."""
    kept = [one for one in record.lineage.versions if one.valid and not one.control]
    return len({one.parent for one in kept}) < len(kept)


def chosen(record: Record, numbers: list[int]) -> list[int]:
    """Of many versions the first, those that were kept last, and the newest."""
    versions = record.lineage.versions
    kept = [number for number in numbers if versions[number].valid]
    wanted = dict.fromkeys([*numbers[:1], *numbers[-1:], *reversed(kept), *reversed(numbers)])
    return sorted(list(wanted)[:MOST_LINES])


def curve(lines: Lines, first: int, stride: int, panels: tuple[Panel, ...]) -> Curve:
    """The points of one version, whose steps are counted from `first`."""
    parts = [lines.steps[at : at + stride] for at in range(0, len(lines.steps), stride)]
    steps = [first + index * stride + (len(part) + 1) / 2 for index, part in enumerate(parts)]
    values = {panel.key: [mean(part, panel.key) for part in parts] for panel in panels}
    return Curve(lines.name, lines.version, steps, values)


def panels_of(record: Record) -> tuple[Panel, ...]:
    recipe = record.lineage.plan.recipe
    rollouts = f"{recipe.tasks * recipe.group} rollouts per step" if record.plan else "n not known"
    groups = f"{recipe.tasks} groups per step" if record.plan else "n not known"
    return (
        Panel("reward", "reward", "number", rollouts, first=True),
        Panel("valid", "valid", "percent", rollouts, first=True),
        Panel("dead", "dead groups", "percent", groups, first=True),
        Panel("live", "live groups that are learned from", "percent", groups),
        Panel("rollouts", "rollouts, with those drawn again", "number", ""),
        Panel("optimal", "optimal", "percent", rollouts),
        Panel("length", "tokens of an answer", "number", rollouts),
        Panel("cut", "cut off at the limit", "percent", rollouts),
        Panel("entropy", "entropy, nats per token", "number", rollouts),
        Panel("reward_std", "spread of rewards", "number", rollouts),
        Panel("loss", "loss", "number", rollouts),
        Panel("grad_norm", "length of the gradient", "number", rollouts),
        Panel("clipped", "tokens whose update was clipped", "percent", rollouts),
        Panel("kl", "divergence from the start, nats per token", "number", rollouts),
        Panel("learning_rate", "learning rate", "number", ""),
        Panel("speed", "tokens/s, read and drawn", "rate", rollouts),
    )


def with_speed(lines: Steps) -> Steps:
    """Each line with its tokens per second; the count of tokens runs on through a stage."""
    found, before = [], 0.0
    for line in lines:
        drawn = line.get("tokens", 0.0) - before
        before = line.get("tokens", before)
        timed = line.get("seconds", 0.0) > 0 and drawn > 0
        found.append({**line, "speed": drawn / line["seconds"]} if timed else line)
    return found


def mean(lines: Steps, key: str) -> float | None:
    values = [line[key] for line in lines if math.isfinite(line.get(key, math.nan))]
    return round(sum(values) / len(values), 6) if values else None
