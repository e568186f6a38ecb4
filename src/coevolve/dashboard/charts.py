"""Where the marks of small charts go, in pixels."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from coevolve.evaluation.statistics import Rate

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
    """A rate with its interval in a chart."""

    x: float
    y: float
    top: float
    bottom: float
    rate: Rate
    hollow: bool
    label: str


class RateChart(NamedTuple):
    """Rates by version."""

    width: int
    height: int
    left: int
    bottom: int
    grid: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    series: dict[str, list[Dot]]


def heights(low: float, high: float, top: float, bottom: float) -> Callable[[float], float]:
    """Where a value is between the top and the bottom of a chart."""
    return lambda value: bottom - (bottom - top) * (value - low) / (high - low)


def rate_chart(facts: "Facts") -> RateChart | None:
    """Gate and dev rates by version, the first policy first; what was not kept is hollow."""
    found: list[tuple[str, int, Rate, bool]] = []
    if facts.headline.base:
        found.append(("gate", 0, facts.headline.base, False))
    for one in facts.versions:
        hollow = one.judged is not None and not one.version.valid
        rates = {"gate": one.gate, "dev": one.dev}
        found += [(name, one.number + 1, rate, hollow) for name, rate in rates.items() if rate]
    if not found:
        return None
    least, most = min(one[2].low for one in found), max(one[2].high for one in found)
    step = 0.05 if most - least <= 0.3 else 0.1 if most - least <= 0.6 else 0.2
    low, high = step * int(least / step), min(1.0, (int(20 * most) + 1) / 20)
    names = ["first", *(str(one.number) for one in facts.versions)]
    many = max(1, len(names) - 1)
    left, right, top, bottom, gap = 44, 14, 10, 210, max(34, 260 // many)
    y = heights(low, high, top, bottom)
    series: dict[str, list[Dot]] = {"gate": [], "dev": []}
    for name, place, rate, hollow in found:
        x = left + 15 + place * gap + (4 if name == "dev" else -4)
        label = f"version {names[place]}" if place else "first policy"
        series[name].append(
            Dot(x, y(rate.value), y(rate.high), y(rate.low), rate, hollow, f"{label}, {name}")
        )
    lines = [low + index * step for index in range(int((high - low) / step + 1.001))]
    grid = [(y(value), f"{100 * value:.0f} %") for value in lines]
    ticks = [(left + 15.0 + place * gap, name) for place, name in enumerate(names)]
    width = left + right + gap * many + 30
    return RateChart(width, bottom + 26, left, bottom, grid, ticks, series)


def strip(pairs: Sequence[tuple[str, Rate]]) -> RateChart:
    """Rates side by side with their intervals; where there are many, not each has its name."""
    left, top, bottom = 44, 8, 96
    gap = max(14, min(34, 900 // max(1, len(pairs))))
    high = min(1.0, (int(10 * max(rate.high for _, rate in pairs)) + 1) / 10)
    y = heights(0.0, high, top, bottom)
    dots = [
        Dot(left + 15 + index * gap, y(rate.value), y(rate.high), y(rate.low), rate, False,
            f"version {label}")
        for index, (label, rate) in enumerate(pairs)
    ]  # fmt: skip
    every = max(1, -(-30 // gap))
    ticks = [(dot.x, pairs[i][0]) for i, dot in enumerate(dots) if i % every == 0]
    grid = [(y(high * part), f"{100 * high * part:.0f} %") for part in (0.0, 0.5, 1.0)]
    width = left + 30 + gap * max(1, len(pairs) - 1)
    return RateChart(width, bottom + 22, left, bottom, grid, ticks, {"all": dots})


FILTERS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (polyline, places, rate_chart, strip)
}
