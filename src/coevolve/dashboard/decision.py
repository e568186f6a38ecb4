"""What a run asks a person: the proposals side by side, and what becomes of each.

Invariant: a proposal is shown as the run would use it, projected and kept within reach.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from coevolve.core.errors import CoevolveError
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.dashboard.boards import Picture, drawn
from coevolve.dashboard.effect import foretold
from coevolve.dashboard.knobs import harness_before
from coevolve.dashboard.numbers import labels
from coevolve.dashboard.proposals import expected, in_words, projection, sentence
from coevolve.dashboard.record import Record
from coevolve.dashboard.text import Line, written
from coevolve.dashboard.versions import KnobChange, diffs_of, knob_changes
from coevolve.engineering.describe import described
from coevolve.engineers.view import reach_of
from coevolve.harness.backtest import Backtest
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch, flat, patched
from coevolve.store.approval import Question
from coevolve.store.lineage import Generation

SAMPLES = 4
"""Tasks that are drawn of an environment."""


class Option(NamedTuple):
    """A proposal that is decided on."""

    author: str
    changed: str
    why: str
    """In the words of who proposed it."""
    expected: str
    """What it is to move."""
    foretold: str
    """By its backtest; empty before that."""
    backtest: Backtest | None
    taken: bool
    """Whether it goes on if a person approves."""
    refused: str
    """Why it does not."""
    knobs: tuple[KnobChange, ...]
    diffs: tuple[tuple[str, tuple[Line, ...]], ...]
    harness: Harness
    """With the patch in it."""


class Decision(NamedTuple):
    """An open question with everything that it is about."""

    question: Question
    parent: int | None
    """The version that proposals are patches of."""
    harness: Harness
    """As it is now."""
    options: tuple[Option, ...]
    refused: tuple[str, ...]
    """Why other proposals cannot be tried."""
    about: str
    """The page of the change that it is part of."""


def decision_of(record: Record, question: Question) -> Decision:
    """The proposals of the generation that a question is about; of a version there are none."""
    kind, _, place = question.place.partition("/")
    number, known = int(place) if place.isdecimal() else 0, record.lineage.generations
    proposed = kind == "generations" and number < len(known)
    generation = known[number] if proposed else None
    about = f"generation-{number}" if proposed else str(number)
    parent = generation.diagnose.parent if generation and generation.diagnose else None
    before = harness_before(record.lineage, parent) or Harness()
    options = tuple(options_of(record, question, generation, before)) if generation else ()
    words = question.question.get("refused", ())
    refused = tuple(map(written, words)) if isinstance(words, Sequence) else ()
    return Decision(question, parent, before, options, refused, about)


def options_of(
    record: Record, question: Question, generation: Generation, before: Harness
) -> Iterator[Option]:
    """What was proposed last, or, where a backtest is asked about, what was tried."""
    reach = reach_of(record.lineage, generation.diagnose.parent if generation.diagnose else None)
    if question.gate == "backtest":
        for tried in generation.tests.tried if generation.tests else ():
            own = harness_before(record.lineage, tried.parent) if tried.parent else before
            found = option_of(record, tried.patch, tried.author, own or before, reach)
            if found:
                words = foretold(tried.patch, tried.backtest)
                yield found._replace(
                    foretold=written(words), backtest=tried.backtest, taken=not tried.refused,
                    refused=written(tried.refused),
                )  # fmt: skip
    elif question.gate == "design" and generation.proposed:
        asked = question.question.get("proposals")
        names = set(asked.values()) if isinstance(asked, Mapping) else set[str]()
        for author, listed in generation.proposed[-1].proposals.items():
            for one in listed:
                if one.patch is None:
                    continue
                own = harness_before(record.lineage, one.parent) if one.parent else before
                found = option_of(record, one.patch, author, own or before, reach)
                if found and is_asked(record, found, one.patch, before, names):
                    yield found._replace(taken=True)


def option_of(
    record: Record, patch: Patch, author: str, before: Harness, reach: float
) -> Option | None:
    """A patch with what it comes to; None if it comes to nothing that can be used."""
    both = projection(record, patch, before, reach)
    own = patch.model_copy(update={"value": dict(both[1])}) if both else patch
    try:
        after = patched(before, own)
    except CoevolveError:
        return None
    return Option(
        written(author), sentence(record, own, before), in_words(patch.hypothesis),
        expected(patch), "", None, False, "", knob_changes(record.domain, before, after),
        diffs_of(before, after), after,
    )  # fmt: skip


def is_asked(
    record: Record, option: Option, patch: Patch, before: Harness, asked: set[str]
) -> bool:
    """Whether a question names a proposal: others were refused before anybody was asked."""
    if record.domain is None:
        return True
    incumbent = record.domain.space.project(before.knobs)
    own = patch.model_copy(update={"value": flat(option.harness)[patch.factor]})
    return set(described([("", own)], incumbent).values()) <= asked


def samples_of(record: Record, harness: Harness) -> list[tuple[str, Picture]]:
    """A few tasks that a harness trains on, with their labels; a problem where it makes none."""
    domain = record.domain
    if domain is None:
        return []
    seed = derive(record.lineage.plan.seed, "samples")
    try:
        knobs = domain.space.parse(harness.knobs)
        tasks = list(domain.generate(knobs, SAMPLES, seed, Split.TRAIN))
    except CoevolveError as error:
        return [("", Picture("", written(f"no tasks can be made: {error}")))]
    return [(written(labels(task.bucket)), drawn(domain, task, None)) for task in tasks]
