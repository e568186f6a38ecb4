"""The knobs of programming tasks."""

from coevolve.domains.code.topics import TOPICS
from coevolve.domains.knobs import Knob, KnobSpace, alike, shares

FORMS = ("function", "stdin")
MOST_STEPS = 3

SPACE = KnobSpace(
    (
        *shares("topic", alike(TOPICS), "about {}"),
        *shares("form", alike(FORMS), "in the form '{}'"),
        Knob(
            "input.size", 4, 64, 12, "elements",
            "mean length of ordinary hidden inputs, in characters", integer=True,
        ),
        Knob(
            "large.share", 0, 1, 0.2, "share of tasks",
            "share of tasks with hidden tests so large that only a fast algorithm passes", harder=1,
            shown=True,
        ),
        Knob(
            "tests.count", 4, 24, 8, "tests", "mean number of hidden tests", integer=True,
            shown=True,
        ),
        Knob(
            "edge.share", 0, 0.6, 0.25, "share of tests",
            "mean share of hidden tests that are edge cases, of those not large",
            harder=1, shown=True,
        ),
        Knob(
            "examples.count", 0, 4, 2, "examples", "mean number of examples that are shown",
            integer=True, harder=-1, shown=True,
        ),
        Knob(
            "steps.mean", 0, MOST_STEPS, 1, "steps",
            "mean number of extra steps before and after the core of a task", harder=1, shown=True,
        ),
    )
)  # fmt: skip
