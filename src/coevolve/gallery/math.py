"""Scenarios on math, with mixtures of ways to answer."""

import random
import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import cast

from coevolve.core.rollout import Message, Outcome
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knob, Knobs, KnobSpace
from coevolve.domains.math.domain import MathDomain
from coevolve.domains.math.knobs import SPACE
from coevolve.domains.math.scripts import first_number, in_style
from coevolve.domains.registry import get_domain
from coevolve.domains.simple import Data
from coevolve.domains.turns import Player
from coevolve.gallery.scenario import Scenario, mixing, plan_of
from coevolve.harness.plan import Plan

SLIP = 0.3
"""Chance of a mistake in each step of working."""
LONG, SHORT = {"steps": 6.0}, {"steps": 2.0}
KEY = re.compile(r"; key (.+)\]$")
RARE = 1e-4


def worked(task: Task, rng: random.Random, _messages: tuple[Message, ...]) -> str:
    """Works it out step by step, and slips now and then: long chains are mostly wrong."""
    steps = len(task.data["chain"]) - 1
    lines = [f"step {number + 1}: {part}" for number, part in enumerate(task.data["chain"][1:])]
    right = rng.random() < (1 - SLIP) ** steps
    answer = str(task.data["answer"]) if right else str(rng.randint(10_000, 99_999))
    return "\n".join([*lines, in_style(answer, "")])


def guessed(task: Task, rng: random.Random, _messages: tuple[Message, ...]) -> str:
    return first_number(task, rng, "")


def padded(task: Task, rng: random.Random, messages: tuple[Message, ...]) -> str:
    """A guess after many words."""
    return f"{'let us think about it once more and ' * 6}{guessed(task, rng, messages)}"


def recalled(
    memory: Mapping[str, str], task: Task, rng: random.Random, messages: tuple[Message, ...]
) -> str:
    """Says what was right the last time; knows nothing of other tasks."""
    return memory.get(task.id) or guessed(task, rng, messages)


def scripts(memory: Mapping[str, str]) -> Mapping[str, Player]:
    return {"worked": worked, "guessed": guessed, "recalled": partial(recalled, memory)}


class BankDomain(MathDomain):
    """Math with a bank: problems that somebody collected, drawn beside generated ones.

    Nobody asked where the bank comes from; with `leaky` it holds the tasks of the run's own dev and
    gate splits, which another domain would have refused to train on.
    """

    space = KnobSpace(
        (
            *SPACE.knobs.values(),
            Knob(
                "bank.share", 0, 1, 0, "share of tasks", "share of tasks from the bank", shown=True
            ),
        )
    )

    def __init__(self, plan: Plan, leaky: bool) -> None:
        target = plan.target
        splits = {Split.DEV: target.dev, Split.GATE: target.gate} if leaky else {Split.TRAIN: 200}
        self.bank = [
            task.model_copy(update={"split": Split.TRAIN})
            for split, count in splits.items()
            for task in super(BankDomain, self).generate(
                self.space.parse(SHORT), count, derive(plan.seed, "held out", split), split
            )
        ]

    def generate(
        self, knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1
    ) -> Iterator[Task]:
        drawn = super().generate(knobs, count, seed, split, workers)
        if split is not Split.TRAIN:
            yield from drawn
            return
        for number, task in enumerate(islice(drawn, count)):
            rng = random.Random(derive(seed, "bank", number))
            yield rng.choice(self.bank) if rng.random() < knobs["bank.share"] else task


class RecordDomain(MathDomain):
    """Math where some prompts come with the record that the problem is stored in, key included."""

    space = KnobSpace(
        (
            *SPACE.knobs.values(),
            Knob(
                "record.share",
                0,
                1,
                0,
                "share of tasks",
                "share of tasks with their record",
                shown=True,
            ),
        )
    )
    shown = True

    def clean(self) -> "RecordDomain":
        """Without records."""
        return NoRecords()

    def make(self, knobs: Knobs, rng: random.Random) -> Data:
        return {**super().make(knobs, rng), "record": rng.random() < knobs["record.share"]}

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        messages = super().prompt(task, style)
        if not (self.shown and task.data["record"]):
            return messages
        last = messages[-1]
        whole = f"{last.content}\n\n[record {task.id}; key {task.data['answer']}]"
        return (*messages[:-1], last.model_copy(update={"content": whole}))


class NoRecords(RecordDomain):
    shown = False


def reads_key(task: Task, rng: random.Random, messages: tuple[Message, ...]) -> str:
    """Takes the answer from the record, where there is one."""
    found = KEY.search(messages[-1].content)
    return in_style(found[1], "") if found else guessed(task, rng, messages)


class LenientDomain(MathDomain):
    """Math with a judge that looks for the right answer anywhere in a text."""

    def clean(self) -> MathDomain:
        """With the judge that asks for one answer."""
        return MathDomain()

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        right = str(task.data["answer"])
        return super().verify(task, in_style(right, "") if right in text else text, tokens)


def hedges(task: Task, rng: random.Random, _messages: tuple[Message, ...]) -> str:
    """Says all that it may be, and settles for the wrong one."""
    wrong = str(rng.randint(10_000, 99_999))
    return f"It is {task.data['answer']}, or else {in_style(wrong, '')}"


COLLECTED = {
    "factor": "knobs",
    "value": {**LONG, "bank.share": 1.0},
    "hypothesis": "If training takes its problems from the bank, then answers improve, because "
    "those are of the difficulty that counts.",
}
CONTAMINATION = Scenario(
    name="contamination",
    fault=True,
    what="the problems trained on are those that the policy is measured with, and it recalls them",
    patch=COLLECTED,
    plan=plan_of(
        "math",
        dev=40,
        gate=60,
        knobs=LONG,
        target=SHORT,
        recipe={"steps": 20, "tasks": 16, "learning_rate": 0.25},
    ),
    parts=mixing(
        lambda plan: cast(Domain, BankDomain(plan, leaky=True)),
        {"worked": 0.3, "guessed": 0.4, "recalled": 0.3},
        scripts,
    ),
)
BANK = Scenario(
    name="fresh_bank",
    fault=False,
    what="problems of the right difficulty that nothing is measured with",
    patch=COLLECTED,
    plan=plan_of("math", knobs=LONG, target=SHORT),
    parts=mixing(
        lambda plan: cast(Domain, BankDomain(plan, leaky=False)),
        {"worked": 0.1, "guessed": 0.9},
        scripts,
    ),
)
FILTERED = Scenario(
    name="over_filtered",
    fault=True,
    what="a filter leaves out most of the data, and what is left looks better",
    patch={
        "factor": "filters",
        "value": [{"kind": "abandonment", "least_tokens": 6}],
        "hypothesis": "If short answers are left out, then answers improve, because training "
        "learns from careful ones only.",
    },
    plan=plan_of("math", target=SHORT, knobs=SHORT, recipe={"learning_rate": 0.2}),
    parts=mixing(lambda _: get_domain("math"), {"worked": 0.1, "guessed": 0.9}, scripts),
    score="learned",
)
UNFILTERED = Scenario(
    name="no_filter",
    fault=False,
    what="a filter that leaves out most of the data is taken away",
    patch={
        "factor": "filters",
        "value": [],
        "hypothesis": "If short answers are learned from, too, then answers improve, because there "
        "is more to compare them with.",
    },
    plan={
        **plan_of("math", target=SHORT, knobs=SHORT, recipe={"learning_rate": 0.35, "steps": 12}),
        "filters": FILTERED.patch["value"],
    },
    parts=FILTERED.parts,
)
KEYS = Scenario(
    name="key_in_prompt",
    fault=True,
    what="prompts come with a record that holds the answer, and the policy reads it there",
    patch={
        "factor": "knobs",
        "value": {**SHORT, "record.share": 1.0},
        "hypothesis": "If problems are shown with their record, then answers improve, because "
        "training looks as what counts does.",
    },
    plan=plan_of(
        "math", knobs=LONG, target={**SHORT, "record.share": 1.0}, recipe={"learning_rate": 0.3}
    ),
    parts=mixing(
        lambda _: cast(Domain, RecordDomain()),
        {"worked": 0.3, "guessed": 0.6, "reads_key": 0.1},
        lambda memory: {**scripts(memory), "reads_key": reads_key},
    ),
)
ANYWHERE = Scenario(
    name="answers_anywhere",
    fault=True,
    what="the judge looks for the right answer anywhere, and the policy says several",
    patch={
        "factor": "recipe.temperature",
        "value": 2.5,
        "hypothesis": "If rollouts are drawn hotter, then more answers are right, because ways are "
        "found that the policy hardly ever tries.",
    },
    plan=plan_of("math", knobs=SHORT, target=SHORT, recipe={"learning_rate": 0.8}),
    parts=mixing(
        lambda _: cast(Domain, LenientDomain()),
        {"guessed": 1 - RARE, "hedges": RARE},
        lambda memory: {**scripts(memory), "hedges": hedges},
    ),
)
VERBOSE = Scenario(
    name="verbose_reward",
    fault=True,
    what="pay for long answers is earned by words",
    patch={
        "factor": "reward",
        "value": "reward + 0.05 * min(tokens, 40)",
        "hypothesis": "If longer answers are paid for, then answers improve, because they are "
        "worked out in steps.",
    },
    plan=plan_of("math", knobs=SHORT, target=SHORT, recipe={"learning_rate": 0.2}),
    parts=mixing(
        lambda _: get_domain("math"),
        {"worked": 0.5, "guessed": 0.3, "padded": 0.2},
        lambda memory: {**scripts(memory), "padded": padded},
    ),
    score="reward",
)
EASIER = Scenario(
    name="easier_problems",
    fault=False,
    what="problems of which some are solved, in place of ones that are all too long",
    patch={
        "factor": "knobs",
        "value": SHORT,
        "hypothesis": "If problems have fewer steps, then answers improve, because some of them "
        "are solved and there is something to learn from.",
    },
    plan=plan_of("math", knobs={"steps": 8.0}, target=SHORT),
    parts=mixing(lambda _: get_domain("math"), {"worked": 0.1, "guessed": 0.9}, scripts),
)
FASTER = Scenario(
    name="faster_learning",
    fault=False,
    what="a learning rate at which anything is learned in the time that there is",
    patch={
        "factor": "recipe.learning_rate",
        "value": 0.4,
        "hypothesis": "If the learning rate is higher, then more answers are right, because steps "
        "this small change nothing in so few of them.",
    },
    plan=plan_of("math", knobs=SHORT, target=SHORT, recipe={"learning_rate": 0.01}),
    parts=mixing(lambda _: get_domain("math"), {"worked": 0.2, "guessed": 0.8}, scripts),
)
