"""How numbers are written on a page, and where the marks of small charts go."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from coevolve.evaluation.statistics import Rate


def percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"


def points(value: float) -> str:
    """A change of a rate, in percentage points."""
    return f"{100 * value:+.1f}"


def interval(rate: Rate) -> str:
    return f"[{100 * rate.low:.1f}, {100 * rate.high:.1f}]"


def number(value: float | None, digits: int = 4) -> str:
    return "–" if value is None else f"{value + 0.0:.{digits}g}"  # no minus zero


def count(value: float) -> str:
    return f"{value:,.0f}"


def amount(value: float, name: str, digits: int = 4) -> str:
    """Of a budget: money has fractions, everything else is counted."""
    return number(value, digits) if name == "money" else count(value)


def duration(seconds: float) -> str:
    """Seconds below two minutes, then minutes, then hours."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def moment(time: str) -> str:
    """A recorded time, to the minute."""
    return time[:16].replace("T", " ") + " UTC" if time else "–"


def shade(pair: tuple[int, int]) -> str:
    """The class of a table cell by its rate, in steps of a tenth."""
    valid, n = pair
    return f"shade-{round(10 * valid / n)}" if n else "shade-none"


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
    """Rates by round, in pixels."""

    width: int
    height: int
    left: int
    bottom: int
    grid: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    series: dict[str, list[Dot]]


def rate_chart(facts: Any) -> RateChart | None:
    """Gate and dev rates over the rounds, the base policy first; what was not kept is hollow."""
    found: list[tuple[str, int, Rate, bool]] = []
    if facts.headline.base:
        found.append(("gate", 0, facts.headline.base, False))
    for one in facts.rounds:
        reverted = one.verdict.keep is False
        found += [
            (name, one.number + 1, rate, reverted)
            for name, rate in (("gate", one.gate), ("dev", one.dev))
            if rate
        ]
    if not found:
        return None
    least, most = (
        min(rate.low for _, _, rate, _ in found),
        max(rate.high for _, _, rate, _ in found),
    )
    step = 0.05 if most - least <= 0.3 else 0.1 if most - least <= 0.6 else 0.2
    low, high = step * int(least / step), min(1.0, (int(20 * most) + 1) / 20)
    rounds = len(facts.rounds) + 1
    names = ["base", *(str(one.number) for one in facts.rounds)]
    left, right, top, bottom, gap = 44, 14, 10, 210, max(34, 260 // max(1, rounds - 1))
    width = left + right + gap * max(1, rounds - 1) + 30

    def height_of(value: float) -> float:
        return bottom - (bottom - top) * (value - low) / (high - low)

    series: dict[str, list[Dot]] = {"gate": [], "dev": []}
    for name, place, rate, hollow in found:
        x = left + 15 + place * gap + (4 if name == "dev" else -4)
        label = names[place] if names[place] == "base" else f"{facts.word} {names[place]}"
        y = height_of(rate.value)
        series[name].append(
            Dot(x, y, height_of(rate.high), height_of(rate.low), rate, hollow, f"{label}, {name}")
        )
    lines = [low + index * step for index in range(int((high - low) / step + 1.001))]
    grid = [(height_of(value), f"{100 * value:.0f} %") for value in lines]
    ticks = [(left + 15.0 + place * gap, name) for place, name in enumerate(names)]
    return RateChart(width, bottom + 26, left, bottom, grid, ticks, series)


def strip(pairs: Sequence[tuple[str, Rate]]) -> RateChart:
    """Rates side by side with their intervals; where there are many, not each has its name."""
    left, top, bottom = 44, 8, 96
    gap = max(14, min(34, 900 // max(1, len(pairs))))
    high = min(1.0, (int(10 * max(rate.high for _, rate in pairs)) + 1) / 10)

    def height_of(value: float) -> float:
        return bottom - (bottom - top) * value / high

    dots = [
        Dot(left + 15 + index * gap, height_of(rate.value), height_of(rate.high),
            height_of(rate.low), rate, False, f"version {label}")
        for index, (label, rate) in enumerate(pairs)
    ]  # fmt: skip
    every = max(1, -(-30 // gap))
    ticks = [(dot.x, pairs[i][0]) for i, dot in enumerate(dots) if i % every == 0]
    grid = [(height_of(high * part), f"{100 * high * part:.0f} %") for part in (0.0, 0.5, 1.0)]
    width = left + 30 + gap * max(1, len(pairs) - 1)
    return RateChart(width, bottom + 22, left, bottom, grid, ticks, {"all": dots})


def label(value: object) -> str:
    """The value of a task's label; yes and no as words."""
    return {"True": "yes", "False": "no"}.get(str(value), str(value))


def labels(bucket: Mapping[str, object]) -> str:
    """All labels of a task."""
    return ", ".join(f"{name} {label(value)}" for name, value in bucket.items())


def slug(text: str) -> str:
    """A word that can be part of a class."""
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in text)[:40]


FILTERS: dict[str, Callable[..., Any]] = {
    "percent": percent,
    "points": points,
    "interval": interval,
    "number": number,
    "count": count,
    "amount": amount,
    "duration": duration,
    "moment": moment,
    "shade": shade,
    "polyline": polyline,
    "places": places,
    "rate_chart": rate_chart,
    "label": label,
    "slug": slug,
    "strip": strip,
}
