"""How numbers, times and names are written on a page."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from coevolve.core.names import several
from coevolve.diagnostics.suite import load_suite
from coevolve.evaluation.difference import POINTS, Difference, shift
from coevolve.evaluation.statistics import Rate
from coevolve.harness.plan import RATES

SHARES = (
    "alive", "better", "blurred", "data_left", "dead_", "flat.", "groups_kept", "live_expected",
    "paid_alike", "revived_", "rollouts_kept", "steps_expected", "successes_cut", "tokens_kept",
    "truncated", "violations_", "would_fit",
)  # fmt: skip
"""What the names of a backtest's numbers begin with where they are shares."""


def percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"


def points(value: float, metric: str = "valid") -> str:
    """A change of a rate in percentage points, of another metric as it is; without the unit."""
    return shift(value, metric).removesuffix(POINTS)


def interval(rate: Rate) -> str:
    return f"[{100 * rate.low:.1f}, {100 * rate.high:.1f}]"


def rate_words(rate: Rate | None) -> str:
    """For a line of text; empty where there is none."""
    return f"{percent(rate.value)} valid {interval(rate)}, n {rate.n}" if rate else ""


def both_words(rates: Sequence[tuple[str, Rate | None]]) -> str:
    """Several rates of the same attempts, by name; empty where there are none."""
    known = [(name, rate) for name, rate in rates if rate]
    words = ", ".join(f"{percent(rate.value)} {name} {interval(rate)}" for name, rate in known)
    return f"{words}, n {known[0][1].n}" if known else ""


def chance(p: float) -> str:
    """A p-value."""
    return f"{p:.2g}" if p >= 0.001 else "< 0.001"


def place_words(place: str | None) -> str:
    """Where something was recorded, for people: versions/03 is version 3."""
    kind, _, number = (place or "").partition("/")
    return f"{kind.removesuffix('s')} {int(number)}" if number.isdecimal() else kind


def number(value: float | None, digits: int = 4) -> str:
    return "–" if value is None else f"{value + 0.0:.{digits}g}"  # no minus zero


@cache
def shares() -> frozenset[str]:
    """Metrics that are shares: those of the score, and diagnostics of the program."""
    known = load_suite().diagnostics
    return frozenset(name for name, one in known.items() if one.share) | {*RATES}


def reading(value: float | None, name: str, digits: int = 4) -> str:
    """The value of a metric or a diagnostic: of a share in percent."""
    return percent(value) if value is not None and name in shares() else number(value, digits)


def setting(value: float, unit: str, digits: int = 4) -> str:
    """The value of a knob: of a share in percent."""
    return f"{100 * value:.3g} %" if unit.startswith("share") else number(value, digits)


def wished(text: str, unit: str) -> str:
    """What was asked of a knob, which may be no number."""
    try:
        return setting(float(text), unit)
    except ValueError:
        return text


def slope(change: float, name: str) -> str:
    """How a metric or a diagnostic moves from version to version."""
    return shift(change, "valid") if name in shares() else f"{change:+.2g}"


def measure(value: float, name: str) -> str:
    """A number of a backtest: of a share in percent."""
    return percent(value) if name.startswith(SHARES) else number(value)


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
    one.__name__: one
    for one in (percent, points, interval, chance, number, reading, setting, wished, slope,
                measure, count, several, amount, duration, moment, shade, label, labels, slug)
} | {"place": place_words, "told": Difference.told}  # fmt: skip
