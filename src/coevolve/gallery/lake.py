"""Scenarios on the lake: mixtures of planners, and the pocket policy trained for real, by GRPO."""

from typing import Any

from coevolve.domains.registry import get_domain
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
