"""Scenarios on the lake, with mixtures of planners."""

from coevolve.domains.registry import get_domain
from coevolve.gallery.mixture import Scripts, scripts_of
from coevolve.gallery.scenario import Scenario, mixing, plan_of

LAKE = get_domain("lake")
SMALL = {"size4.data_ratio": 0.5, "size5.data_ratio": 0.5, "agents3.share": 1.0}


def planners(*names: str) -> Scripts:
    return lambda _memory: scripts_of(LAKE, *names)


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
    parts=mixing(
        lambda _: LAKE, planners("waiter", "prioritised"), {"waiter": 0.7, "prioritised": 0.3}
    ),
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
    parts=mixing(
        lambda _: LAKE,
        planners("random", "greedy", "prioritised"),
        {"random": 0.5, "greedy": 0.4, "prioritised": 0.1},
    ),
    score="reward",
)
