"""Scenarios on math, with mixtures of ways to answer."""

import random
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import cast

from coevolve.core.rollout import Message
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knob, Knobs, KnobSpace
from coevolve.domains.math.domain import MathDomain
from coevolve.domains.math.knobs import SPACE
from coevolve.domains.math.scripts import first_number, in_style
from coevolve.domains.registry import get_domain
from coevolve.domains.turns import Player
from coevolve.gallery.scenario import Scenario, mixing, plan_of
from coevolve.harness.plan import Plan

SLIP = 0.3
"""Chance of a mistake in each step of working."""
LONG, SHORT = {"steps": 6.0}, {"steps": 2.0}


def worked(task: Task, rng: random.Random, _messages: tuple[Message, ...]) -> str:
    """Works it out step by step, and slips now and then: long chains are mostly wrong."""
    steps = len(task.data["chain"]) - 1
    lines = [f"step {number + 1}: {part}" for number, part in enumerate(task.data["chain"][1:])]
    right = rng.random() < (1 - SLIP) ** steps
    answer = str(task.data["answer"]) if right else str(rng.randint(10_000, 99_999))
    return "\n".join([*lines, in_style(answer, "")])


def guessed(task: Task, rng: random.Random, _messages: tuple[Message, ...]) -> str:
    return first_number(task, rng, "")


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
            Knob("bank.share", 0, 1, 0, "share of tasks", "share of tasks from the bank"),
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
