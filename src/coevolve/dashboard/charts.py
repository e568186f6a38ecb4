"""Where the marks of small charts go, in pixels."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from coevolve.evaluation.statistics import Rate
from coevolve.store.layout import BASE

if TYPE_CHECKING:
    from coevolve.dashboard.facts import Facts


def polyline(values: Sequence[float], low: float, high: float, width: float, height: float) -> str:
    """A line through values at even distances."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places(values, low, high, width, height))


def places(
    values: Sequence[float], low: float, high: float, width: float, height: float
) -> list[tuple[float, float]]:
    """The pixel of each value, with a margin of 4."""
    step = (width - 8) / max(1, len(values) - 1)
    span = (high - low) or 1.0
    return [
        (4 + index * step, height - 4 - (height - 8) * (value - low) / span)
        for index, value in enumerate(values)
    ]


class Dot(NamedTuple):
    """A rate in a chart."""

    x: float
    rate: Rate
    label: str
    version: int
    """-1: the first policy."""
    hollow: bool = False


class RateChart(NamedTuple):
    """Rates by version."""

    width: int
    height: int
    left: int
    bottom: int
    y: Callable[[float], float]
    """Where a rate is between the top and the bottom."""
    grid: list[float]
    """Rates with a line."""
    ticks: list[tuple[float, str]]
    series: dict[str, list[Dot]]


def heights(low: float, high: float, top: float, bottom: float) -> Callable[[float], float]:
    """Where a value is between the top and the bottom of a chart."""
    return lambda value: bottom - (bottom - top) * (value - low) / (high - low)


def rate_chart(facts: "Facts") -> RateChart | None:
    """Gate and dev rates by version, the first policy first; what was not kept is hollow."""
    left, right, top, bottom = 44, 14, 10, 210
    names = ["first", *(str(one.number) for one in facts.versions)]
    many = max(1, len(names) - 1)
    gap = max(34, 260 // many)
    places = [left + 15.0 + place * gap for place in range(len(names))]
    series: dict[str, list[Dot]] = {"gate": [], "dev": []}
    if facts.headline.base:
        series["gate"].append(Dot(places[0] - 4, facts.headline.base, "first policy, gate", BASE))
    for x, one in zip(places[1:], facts.versions, strict=True):
        hollow = one.judged is not None and not one.version.valid
        for name, rate, place in (("gate", one.gate, x - 4), ("dev", one.dev, x + 4)):
            if rate:
                label = f"version {one.number}, {name}"
                series[name].append(Dot(place, rate, label, one.number, hollow))
    rates = [dot.rate for dots in series.values() for dot in dots]
    if not rates:
        return None
    least, most = min(rate.low for rate in rates), max(rate.high for rate in rates)
    step = 0.05 if most - least <= 0.3 else 0.1 if most - least <= 0.6 else 0.2
    low, high = step * int(least / step), min(1.0, (int(20 * most) + 1) / 20)
    grid = [low + index * step for index in range(int((high - low) / step + 1.001))]
    return RateChart(
        left + right + gap * many + 30, bottom + 26, left, bottom,
        heights(low, high, top, bottom), grid, list(zip(places, names, strict=True)), series,
    )  # fmt: skip


def strip(pairs: Sequence[tuple[str, Rate]]) -> RateChart:
    """Rates side by side with their intervals; where there are many, not each has its name."""
    left, top, bottom = 44, 8, 96
    gap = max(14, min(34, 900 // max(1, len(pairs))))
    high = min(1.0, (int(10 * max(rate.high for _, rate in pairs)) + 1) / 10)
    dots = [
        Dot(left + 15 + index * gap, rate, f"version {name}", int(name))
        for index, (name, rate) in enumerate(pairs)
    ]
    every = max(1, -(-30 // gap))
    ticks = [(dot.x, name) for dot, (name, _) in zip(dots, pairs, strict=True)][::every]
    return RateChart(
        left + 30 + gap * max(1, len(pairs) - 1), bottom + 22, left, bottom,
        heights(0.0, high, top, bottom), [0.0, high / 2, high], ticks, {"all": dots},
    )  # fmt: skip


FILTERS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (polyline, places, rate_chart, strip)
}
