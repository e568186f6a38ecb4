"""Scenarios on the lake: mixtures of planners, and the pocket policy trained for real, by GRPO."""

import random
from typing import Any

from coevolve.core.rollout import Message
from coevolve.core.task import Task
from coevolve.domains.registry import get_domain
from coevolve.domains.turns import Player
from coevolve.gallery.scenario import TREE, Scenario, mixing, plan_of, training

LAKE = get_domain("lake")
SMALL = {"size4.data_ratio": 0.5, "size5.data_ratio": 0.5, "agents3.share": 1.0}


DISCRETE = Scenario(
    name="dead_groups",
    fault=True,
    what="a reward of 0 or 1 pays more and tells valid plans no longer apart: groups die",
    patch={
        "factor": "reward",
        "value": "valid",
        "hypothesis": "If the reward is simply whether a plan is valid, then answers improve, "
        "because nothing else distracts from it.",
    },
    plan=plan_of("lake", knobs=SMALL, target=SMALL),
    parts=mixing(lambda _: LAKE, {"waiter": 0.7, "prioritised": 0.3}),
    score="reward",
)
BONUS = Scenario(
    name="bonus_for_all",
    fault=True,
    what="a bonus that everybody earns raises the reward and is normalised away",
    patch={
        "factor": "reward",
        "value": "reward + 0.2 * (tokens < 2000)",
        "hypothesis": "If answers within the limit earn a bonus, then answers improve, because "
        "the policy is encouraged to be concise.",
    },
    plan=plan_of("lake", knobs=SMALL, target=SMALL),
    parts=mixing(lambda _: LAKE, {"random": 0.5, "greedy": 0.4, "prioritised": 0.1}),
    score="reward",
)


def only(size: int) -> Player:
    """A planner that can do one size, and nothing else."""

    def play(task: Task, rng: random.Random, _messages: tuple[Message, ...]) -> str:
        name = "oracle" if task.bucket["size"] == size else "random"
        return LAKE.scripts[name](task, rng, "")

    return play


SOME = {"small": only(4), "large": only(5)}
TWO = {"size4.data_ratio": 0.5, "size5.data_ratio": 0.5, "agents2.share": 1.0}
HARD = {"size10.data_ratio": 1.0, "size10.hole_ratio": 0.3, "agents8.share": 1.0}
MOSTLY_LARGE = {**TWO, "size4.data_ratio": 0.3, "size5.data_ratio": 0.7}
FORGETTING = Scenario(
    name="forgetting",
    fault=True,
    what="training on large boards alone gains there what it unlearns on small ones, and more",
    patch={
        "factor": "knobs",
        "value": {**TWO, "size4.data_ratio": 0.0, "size5.data_ratio": 1.0},
        "hypothesis": "If all boards are large, then answers improve, because most of those that "
        "count are.",
    },
    plan=plan_of(
        "lake", knobs={**TWO, "size4.data_ratio": 1.0, "size5.data_ratio": 0.0},
        target=MOSTLY_LARGE, gate=200, recipe={"learning_rate": 1.0},
    ),
    parts=mixing(lambda _: LAKE, {"small": 0.7, "large": 0.3}, lambda _: SOME),
)  # fmt: skip
LUCKY = Scenario(
    name="luck",
    fault=True,
    what="a patch that does nothing, measured on few tasks",
    patch={
        "factor": "recipe.temperature",
        "value": 2.0,
        "hypothesis": "If rollouts are drawn hotter, then answers improve, because they "
        "differ more.",
    },
    plan=plan_of("lake", knobs=TWO, target=TWO, gate=40, seed=1),
    parts=mixing(lambda _: LAKE, {"small": 0.5, "large": 0.5}, lambda _: SOME),
)
SMALLER = Scenario(
    name="smaller_boards",
    fault=False,
    what="boards on which some plans are valid, in place of ones where none is",
    patch={
        "factor": "knobs",
        "value": {**HARD, **TWO, "size10.data_ratio": 0.0, "agents8.share": 0.0},
        "hypothesis": "If boards are smaller, then answers improve, because some plans are valid "
        "and there is something to learn from.",
    },
    plan=plan_of("lake", knobs=HARD, target=TWO, recipe={"learning_rate": 1.0, "steps": 16}),
    parts=mixing(lambda _: LAKE, {"random": 0.6, "greedy": 0.4}),
)


def pocket(**recipe: Any) -> dict[str, Any]:
    """A short training of the pocket policy; the rest is as in `coevolve evolve`."""
    return {
        **TREE, "domain": "lake", "policy": "pocket",
        "recipe": {"steps": 6, "tasks": 8, "group": 8, "max_tokens": 64, **recipe},
        "target": {"dev": 60, "gate": 300, "temperature": 1.0, "max_tokens": 64},
    }  # fmt: skip


BREVITY = Scenario(
    name="brevity_reward",
    fault=True,
    what="pay for short answers is earned by plans that stop short of the goal",
    patch={
        "factor": "reward",
        "value": "reward + 0.4 * max(0, 40 - tokens)",
        "hypothesis": "If short answers are paid for, then plans improve, because they take no "
        "detours.",
    },
    plan=pocket(learning_rate=1e-4),
    parts=training,
    score="reward",
)
CALMER = Scenario(
    name="learning_rate",
    fault=False,
    what="a learning rate that no longer wrecks the policy",
    patch={
        "factor": "recipe.learning_rate",
        "value": 2e-5,
        "hypothesis": "If the learning rate is lower, then more plans are valid, because steps "
        "this large unlearn what the policy could do.",
    },
    plan={**pocket(learning_rate=5e-4), "gate": {"twins": 4}},
    parts=training,
)
