"""How many held-out tasks are solved by the answer to a train task that looks alike.

Splits never share a task; that says nothing of tasks that are nearly the same. Invariant: an answer
counts only if the domain's own verifier takes it, and copying blindly is measured beside it.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from coevolve.core.errors import UserError
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.check import counts_of
from coevolve.domains.knobs import Knobs
from coevolve.domains.turns import is_game
from coevolve.evaluation.statistics import Rate, wilson

MOST = 0.02
"""Share of held-out tasks that copying may solve, beyond those that it solves blindly."""
ALIKE = 0.8
"""Share of the words of two prompts that must be the same."""
TRIED = 8
"""Train tasks whose answers are tried: those that look most alike."""
RARE = 200
"""Prompts with a word: one that stands in more of them finds nobody."""
HELD_OUT, TRAIN = 2, 10
"""How many times the conformance suite's counts are looked at."""
WORD = re.compile(r"\w+|[^\w\s]")


class Leak(NamedTuple):
    """What copying solves of one split."""

    split: Split
    copied: Rate
    """Tasks that an answer to a train task that looks alike solves."""
    blind: Rate
    """Tasks that as many answers to any train tasks solve."""
    alike: int
    """Tasks that have a train task that looks alike."""
    train: int
    """Train tasks that answers were copied from."""
    pair: tuple[str, ...] = ()
    """What is asked by a task and by one that looks alike and solves it, if there are such."""

    @property
    def excess(self) -> float:
        return max(self.copied.value - self.blind.value, 0.0)


def leakage(
    domain: Domain, knobs: Knobs | None = None, seed: int = 0, workers: int = 1,
    most: int | None = None, most_train: int | None = None,
) -> Iterator[Leak]:  # fmt: skip
    """The gate's and the test's, for tasks made from these knobs or the default ones; of at most so
    many held-out and train tasks, where verdicts or tasks take long."""
    counts, knobs = counts_of(domain), knobs or domain.space.defaults()
    looked = TRAIN * counts.many
    count = min(looked, most_train or looked)
    train = list(domain.generate(knobs, count, derive(seed, "copied"), Split.TRAIN, workers))
    if is_game(domain, train):
        raise UserError(f"no single answer wins in '{domain.name}', so none can be copied")
    near = look_alikes(domain, train)
    held_out = HELD_OUT * counts.split
    count = min(held_out, most or held_out)
    for split in (Split.GATE, Split.TEST):
        asked = list(domain.generate(knobs, count, derive(seed, "held out"), split, workers))
        yield copied(domain, split, asked, train, near)


def copied(
    domain: Domain,
    split: Split,
    asked: Sequence[Task],
    train: Sequence[Task],
    near: Callable[[Task], Sequence[Task]],
) -> Leak:
    solved = blind = alike = 0
    pair: tuple[str, ...] = ()
    for task in asked:
        found = near(task)
        alike += bool(found)
        if twin := next((other for other in found if solves(domain, task, other)), None):
            solved += 1
            pair = pair or tuple(domain.prompt(one)[-1].content for one in (task, twin))
        rng = random.Random(derive(0, "blind", task.id))
        others = rng.sample(train, min(len(found), len(train)))
        blind += any(solves(domain, task, other) for other in others)
    n = len(asked)
    return Leak(split, wilson(solved, n), wilson(blind, n), alike, len(train), pair)


def solves(domain: Domain, task: Task, other: Task) -> bool:
    """Whether the answer to one task is one to another."""
    return domain.verify(task, domain.oracle(other)).valid


def look_alikes(domain: Domain, train: Sequence[Task]) -> Callable[[Task], Sequence[Task]]:
    """What finds the train tasks that look like a task: by a domain's own `looks`, where it says
    what tasks look like, else by the words of their prompts."""
    looks: Callable[[Task], str] | None = getattr(domain, "looks", None)
    if looks is None:
        return by_words(domain, train)
    known: dict[str, list[Task]] = defaultdict(list)
    for task in train:
        known[looks(task)].append(task)
    return lambda task: known[looks(task)][:TRIED] if looks(task) in known else ()


def by_words(domain: Domain, train: Sequence[Task]) -> Callable[[Task], Sequence[Task]]:
    """Train tasks with nearly the same prompt: the same words, up to a few."""

    def words(task: Task) -> Counter[str]:
        said = " ".join(message.content for message in domain.prompt(task))
        return Counter(WORD.findall(said.lower()))

    known = [words(task) for task in train]
    having: dict[tuple[str, int], list[int]] = defaultdict(list)
    for place, one in enumerate(known):
        for word in one.items():
            having[word].append(place)

    def near(task: Task) -> Sequence[Task]:
        own = words(task)
        lists = sorted((having[word] for word in own.items() if word in having), key=len)
        rare = [one for one in lists if len(one) <= RARE]
        rare = rare or [one[:RARE] for one in lists[:1]]
        shared = Counter(place for places in rare for place in places).most_common(4 * RARE)
        scores = [(same(own, known[place]), -place) for place, _ in shared]
        best = sorted((one for one in scores if one[0] >= ALIKE), reverse=True)[:TRIED]
        return [train[-place] for _, place in best]

    return near


def same(one: Counter[str], other: Counter[str]) -> float:
    """The share of words that two texts have in common."""
    return (one & other).total() / max((one | other).total(), 1)
