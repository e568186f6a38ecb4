"""A domain of your own: questions about words, each with one right answer.

`coevolve new-domain NAME` copies this file. Change what is asked, then run `coevolve check NAME`.
"""

import random

from coevolve.domains.knobs import Knob, Knobs, KnobSpace
from coevolve.domains.simple import Data, SimpleDomain

# Knobs are numbers. Each says what it moves; `harder` lets rules raise it when tasks are solved,
# `shown` lets them set it to what the target's tasks show.
# A choice among kinds is a group of shares, each with the label that its tasks carry.
SPACE = KnobSpace(
    (
        Knob("length", 4, 40, 12, "letters", "mean length of the words", harder=1, shown=True),
        Knob(
            "sort.share", 0, 1, 0.5, "share of tasks", "share of tasks that ask for an order",
            group="kinds", label=("kind", "sort"),
        ),
        Knob(
            "reverse.share", 0, 1, 0.5, "share of tasks", "share of tasks that ask for a reversal",
            group="kinds", label=("kind", "reverse"),
        ),
    )
)  # fmt: skip


class TemplateDomain(SimpleDomain):
    """What is not here is inherited: splits, prompts, verdicts, loading (`SimpleDomain`)."""

    name = "template"
    summary = "sorting letters and spelling words backwards"
    space = SPACE
    buckets = ("kind",)
    """Labels that results are shown by; each is a key of the data."""

    def make(self, knobs: Knobs, rng: random.Random) -> Data:
        """One task as plain JSON values. Draw from `rng` alone: same seed, same tasks.

        What stands under the name of a knob (`length`) is the statistic that the knob moves.
        """
        kind = "sort" if rng.random() < knobs["sort.share"] else "reverse"
        length = int(knobs["length"] + rng.random())
        word = "".join(rng.choice("aeioulnrst") for _ in range(length))
        return {"kind": kind, "length": length, "word": word}

    def question(self, data: Data) -> str:
        """What a policy is asked. It also decides the split, so it must tell tasks apart."""
        if data["kind"] == "sort":
            return f"Put the letters of '{data['word']}' in alphabetical order."
        return f"Spell '{data['word']}' backwards."

    def answer(self, data: Data) -> str:
        """The right answer. Where several are right, override `right(data, answer)` too."""
        letters = sorted(data["word"]) if data["kind"] == "sort" else reversed(data["word"])
        return "".join(letters)
