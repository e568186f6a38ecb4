"""The knobs of software engineering tasks."""

from coevolve.domains.knobs import Knob, KnobSpace, alike, shares
from coevolve.domains.swe.faults import KINDS
from coevolve.domains.swe.prompt import LEVELS
from coevolve.domains.swe.repository import SIZES
from coevolve.domains.swe.work import CALLS, SHOWN

MOST_FAULTS = 3
MOST_HINTS = len(LEVELS) - 1
MOST_TURNS = 100

SPACE = KnobSpace(
    (
        *shares("fault", alike(KINDS), "whose first fault is of the kind '{}'"),
        *shares(
            "size", alike(SIZES), "in {} repositories", harder={"small": -1, "large": 1},
        ),
        Knob(
            "faults.mean", 1, MOST_FAULTS, 1.4, "faults", "mean number of faults in a task",
            harder=1, shown=True,
        ),
        Knob(
            "spread.share", 0, 1, 0.5, "share of faults",
            "share of further faults that are in another file than the first", harder=1, shown=True,
        ),
        Knob(
            "hint.mean", 0, MOST_HINTS, 2, "levels",
            f"mean level of the issue, which gives away {', then '.join(LEVELS)}",
            harder=-1, shown=True,
        ),
        Knob(
            "turns.limit", 4, MOST_TURNS, 20, "turns", "most turns in an episode", integer=True,
            harder=-1,
        ),
        Knob(
            "calls.limit", 4, CALLS, CALLS, "calls", "most tool calls in an episode", integer=True,
            harder=-1,
        ),
        Knob(
            "shown.limit", 500, 20_000, SHOWN, "characters",
            "most characters of a tool's answer that are shown", integer=True, harder=-1,
        ),
        Knob(
            "history.share", 0, 1, 0, "share of tasks",
            "share of tasks whose repository has the mending commit in its history",
            harder=-1, shown=True,
        ),
    )
)  # fmt: skip
