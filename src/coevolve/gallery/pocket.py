"""Scenarios on the lake in which the pocket policy is trained for real, by GRPO."""

from typing import Any

from coevolve.gallery.scenario import Scenario, training


def plan(**recipe: Any) -> dict[str, Any]:
    """A short training; the rest is as in `coevolve evolve`."""
    return {
        "domain": "lake", "policy": "pocket", "versions": 2, "start_from": "base",
        "accept": "better", "factors": ("all",), "learn": True, "engineers": ("gallery",),
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
    plan=plan(learning_rate=1e-4),
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
    plan=plan(learning_rate=2e-4),
    parts=training,
)
