"""Training step by step over all rounds, as columns of numbers for a chart."""

import math
from typing import NamedTuple

from coevolve.dashboard.record import Record, read_steps

MOST_POINTS = 2_000
"""More steps than this are averaged, several to a point."""


class Curve(NamedTuple):
    """One panel."""

    key: str
    title: str
    unit: str
    """percent, number or rate."""
    values: list[float | None]
    of: str
    """What each point is a mean of, with n."""


class Curves(NamedTuple):
    """All panels over the same steps."""

    steps: list[float]
    """Counted over all rounds, from 1; the middle where several steps are one point."""
    bounds: list[tuple[float, int]]
    """Where each round begins, and its number."""
    curves: tuple[Curve, ...]
    total: int
    stride: int
    """Steps per point."""


def curves_of(record: Record) -> Curves:
    """The metrics of every step that was written down."""
    lines: list[dict[str, float]] = []
    bounds = []
    for number in record.rounds:
        found = read_steps(record, number)
        if found:
            bounds.append((len(lines) + 0.5, number))
            lines += with_speed(found)
        elif record.phase(number, "train"):
            record.trouble(f"round {number} has no steps.jsonl: its training curves are missing")
    stride = max(1, -(-len(lines) // MOST_POINTS))
    parts = [lines[first : first + stride] for first in range(0, len(lines), stride)]
    steps = [index * stride + (len(part) + 1) / 2 for index, part in enumerate(parts)]
    recipe = record.experiment.recipe if record.experiment else None
    rollouts = f"{recipe.tasks * recipe.group} rollouts per step" if recipe else "n not known"
    groups = f"{recipe.tasks} groups per step" if recipe else "n not known"
    panels = (
        ("reward", "reward", "number", rollouts),
        ("valid", "valid", "percent", rollouts),
        ("dead", "dead groups", "percent", groups),
        ("entropy", "entropy, nats per token", "number", rollouts),
        ("speed", "tokens/s, read and drawn", "rate", rollouts),
    )
    curves = tuple(
        Curve(key, title, unit, [mean(part, key) for part in parts], of)
        for key, title, unit, of in panels
        if any(key in line for line in lines)
    )
    return Curves(steps, bounds, curves, len(lines), stride)


def with_speed(lines: list[dict[str, float]]) -> list[dict[str, float]]:
    """Each line with its tokens per second; the count of tokens runs on through a stage."""
    found, before = [], 0.0
    for line in lines:
        drawn = line.get("tokens", 0.0) - before
        before = line.get("tokens", before)
        timed = line.get("seconds", 0.0) > 0 and drawn > 0
        found.append({**line, "speed": drawn / line["seconds"]} if timed else line)
    return found


def mean(lines: list[dict[str, float]], key: str) -> float | None:
    values = [line[key] for line in lines if math.isfinite(line.get(key, math.nan))]
    return round(sum(values) / len(values), 6) if values else None
