"""What a taskset's own rewards say of an answer, without a box and without another model."""

import inspect
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.configs.agent import WireAgentConfig

from coevolve.core.errors import UserError
from coevolve.core.rollout import Outcome

FAILURES = {
    "unscored": "the taskset's own scoring broke on the answer",
    "wrong": "less than the full reward",
}


def check_usable(identity: str, taskset: Any) -> None:
    """Refuse tasksets whose tasks need more than a prompt and an answer."""
    kind = type(taskset).task_type()
    needs = ""
    if vf.environment_class(identity) is not vf.SingleAgentEnv:
        needs = "an environment of its own"
    elif kind.NEEDS_CONTAINER:
        needs = "a container"
    elif kind.toolsets(taskset.config.task) or taskset.toolsets(taskset.config):
        needs = "tools"
    elif taskset.config.task.judges:
        needs = "a model that judges"
    elif any(requires_runtime(hook) for hook in kind_hooks(kind)):
        needs = "a box to score in"
    if needs:
        raise UserError(f"the taskset '{identity}' needs {needs}; only prompt and answer are taken")


def kind_hooks(kind: Any) -> list[Any]:
    members = (getattr(kind, name) for name in dir(kind))
    return [member for member in members if getattr(member, "reward", False) is True]


def requires_runtime(hook: Any) -> bool:
    found = inspect.signature(hook).parameters.get("runtime")
    return found is not None and found.default is inspect.Parameter.empty


def full_reward(row: Any) -> float:
    """Each reward goes up to 1, times its weight."""
    weights = [float(getattr(hook, "_vf_weight", 1.0)) for hook in row.hooks("reward")]
    return sum(weight for weight in weights if weight > 0) or 1.0


async def scored(row: Any, messages: list[dict[str, str]], text: str, full: float) -> Outcome:
    """The verdict: all of the reward, or a failure."""
    trace = trace_of(row, messages, text)
    reason = FAILURES["wrong"]
    try:
        await row.score(trace)
    except vf.TaskError as error:  # raised by rewards that trust what they are given
        reason = f"{error!s:.200}"
        trace.rewards.clear()
    rewards = {name: float(reward.value) for name, reward in trace.rewards.items() if reward}
    total = sum(rewards.values())
    valid = total >= full - 1e-9
    failure = "wrong" if rewards else "unscored"
    return Outcome(
        valid=valid,
        optimal=valid,
        reward=total,
        components=rewards,
        failure=None if valid else failure,
        details={} if valid else {"reason": reason},
    )


def trace_of(row: Any, messages: list[dict[str, str]], text: str) -> Any:
    """The trace of a rollout in which this was said."""
    said = [*messages, {"role": "assistant", "content": text}]
    nodes = [
        {
            "parent": place - 1 if place else None,
            "message": message,
            "sampled": place == len(messages),
        }
        for place, message in enumerate(said)
    ]
    return vf.Trace(
        task=vf.TraceTask(type=type(row).__name__, data=row.data, key=row.key, hash=row.hash),
        agent=vf.AgentInfo(config=WireAgentConfig()),
        nodes=[vf.MessageNode.model_validate(node) for node in nodes],
        is_completed=True,
        ok=True,
    )
