"""The knobs of software engineering tasks."""

from coevolve.domains.knobs import Knob, KnobSpace
from coevolve.domains.swe.faults import KINDS
from coevolve.domains.swe.issue import LEVELS
from coevolve.domains.swe.repository import SIZES

MOST_FAULTS = 3
MOST_HINTS = len(LEVELS) - 1
MOST_TURNS = 40


def make_knobs() -> tuple[Knob, ...]:
    shares = [
        Knob(
            f"{kind}.share", 0, 1, 1 / len(KINDS), "share of tasks",
            f"share of tasks whose first fault is of the kind '{kind}'",
            group="faults", label=("fault", kind),
        )
        for kind in KINDS
    ]  # fmt: skip
    shares += [
        Knob(
            f"{size}.share", 0, 1, 1 / len(SIZES), "share of tasks",
            f"share of tasks in {size} repositories", group="sizes", label=("size", size),
            harder={"small": -1, "medium": 0, "large": 1}[size],
        )
        for size in SIZES
    ]  # fmt: skip
    return (
        *shares,
        Knob(
            "faults.mean", 1, MOST_FAULTS, 1.4, "faults", "mean number of faults in a task",
            harder=1,
        ),
        Knob(
            "spread.share", 0, 1, 0.5, "share of faults",
            "share of further faults that are in another file than the first", harder=1,
        ),
        Knob(
            "hint.mean", 0, MOST_HINTS, 2, "levels",
            f"mean level of the issue, which gives away {', then '.join(LEVELS)}", harder=-1,
        ),
        Knob(
            "turns.limit", 4, MOST_TURNS, 20, "turns", "most turns in an episode", integer=True,
            harder=-1,
        ),
        Knob(
            "history.share", 0, 1, 0, "share of tasks",
            "share of tasks whose repository has the mending commit in its history", harder=-1,
        ),
    )  # fmt: skip


SPACE = KnobSpace(make_knobs())
