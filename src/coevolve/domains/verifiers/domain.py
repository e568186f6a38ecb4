"""Tasksets of verifiers as domains: `verifiers:ID?field=value`, judged by their own rewards.

Invariant: a task is its place in the taskset and the hash of what stands there, so that a taskset
that has changed cannot be mistaken for the one that a task came from.
"""

import asyncio
import inspect
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from coevolve.core.errors import DomainError, KnobError, UserError
from coevolve.core.rollout import Message, Outcome
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task, reason
from coevolve.domains.check import Counts
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.domains.registry import read_options
from coevolve.domains.simple import Data, SimpleDomain, verdict

try:
    import verifiers.v1 as vf
    from verifiers.v1.configs.agent import WireAgentConfig
except ImportError as error:
    raise UserError(
        f"tasksets of verifiers need it ({error.name}): pip install 'coevolve[verifiers]', in an "
        "environment without openenv, whose requirements clash with its own"
    ) from None

FAILURES = {
    "unscored": "the taskset's own scoring broke on the answer",
    "wrong": "less than the full reward",
}
MOST = 20_000
"""Tasks that are read of a taskset, which may be endless."""
FORMS = ("{}", "\\boxed{{{}}}", "<answer>{}</answer>", "#### {}", "The answer is {}.")
"""How an answer may have to be written; which of them is right shows in what it earns."""


class TasksetDomain(SimpleDomain):
    """Implements the `Domain` protocol for a taskset of single turns."""

    space = KnobSpace(())
    failures = FAILURES

    def __init__(self, text: str) -> None:
        self.text, self.name = text, f"verifiers:{text}"
        identity, _, query = text.partition("?")
        fields = read_options(query)
        try:
            config = vf.taskset_config_type(identity).model_validate({"id": identity, **fields})
            taskset = vf.load_taskset(config)
        except (ValueError, ImportError, AttributeError, TypeError) as error:
            why = reason(error) if isinstance(error, ValueError) else f"{error!s:.300}"
            raise UserError(f"cannot open the taskset '{text}': {why}") from None
        check_usable(identity, taskset)
        self.summary = f"verifiers: {identity}"
        self.rows = list(islice(taskset, MOST))
        if not self.rows:
            raise UserError(f"the taskset '{text}' has no tasks")
        self.full_reward = full_reward(self.rows[0])
        self.components = {
            hook.__name__: "a reward of the taskset" for hook in self.rows[0].hooks("reward")
        }
        self.places: dict[Split, list[int]] = {split: [] for split in Split}
        for index in range(len(self.rows)):
            self.places[self.as_task(self.data_at(index)).split].append(index)
        few = min(len(places) for places in self.places.values())
        self.counts = Counts(*(max(2, min(n, few // 4)) for n in Counts()))

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return TasksetDomain, (self.text,)

    def data_at(self, index: int) -> Data:
        row = self.rows[index]
        messages = [message.model_dump() for message in messages_of(row.data)]
        return {"index": index, "hash": row.hash, "messages": messages}

    def generate(
        self, knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1
    ) -> Iterator[Task]:
        """Tasks of the split, drawn with replacement: a taskset has only so many."""
        places = self.places[split]
        if count and not places:
            raise KnobError(f"none of the {len(self.rows)} tasks of '{self.text}' is in '{split}'")
        for number in range(count):
            drawn = derive(seed, split.value, number)
            yield self.as_task(self.data_at(places[drawn % len(places)]), drawn)

    def complete(self, data: Data) -> Data:
        index = data.get("index")
        if not isinstance(index, int) or not 0 <= index < len(self.rows):
            raise UserError(f"a task of {self.name} needs an index below {len(self.rows)}")
        found = self.data_at(index)
        if data.get("hash", found["hash"]) != found["hash"]:
            raise UserError(f"task {index} of '{self.text}' has changed since")
        return found

    def content(self, data: Data) -> str:
        return "\n".join(message["content"] for message in data["messages"])

    def question(self, data: Data) -> str:
        return self.content(data)

    def answer(self, data: Data) -> str:
        return ""  # in whatever form the taskset keeps it; `oracle` finds out

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        self.style(style)
        return tuple(Message.model_validate(message) for message in task.data["messages"])

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        row = self.rows[task.data["index"]]
        return asyncio.run(scored(row, task.data["messages"], text, self.full_reward))

    def oracle(self, task: Task, style: str = "") -> str:
        """The row's own answer, in the form that earns the full reward."""
        answer = getattr(self.rows[task.data["index"]].data, "answer", None)
        for form in FORMS if answer is not None else ():
            if self.verify(task, form.format(answer)).valid:
                return form.format(answer)
        raise DomainError(f"'{self.text}' has no `answer` that earns {self.full_reward:g}")

    def solve(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"answer": self.oracle(self.load(data))}


def messages_of(data: Any) -> list[Message]:
    """A row's prompt."""
    system = [Message(role="system", content=data.system_prompt)] if data.system_prompt else []
    if isinstance(data.prompt, str):
        return [*system, Message(role="user", content=data.prompt)]
    return system + [
        Message(role=message.role, content=str(message.content)) for message in data.prompt or []
    ]


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
    elif any(requires_runtime(getattr(kind, name)) for name in dir(kind)):
        needs = "a box to score in"
    if needs:
        raise UserError(f"the taskset '{identity}' needs {needs}; only prompt and answer are taken")


def requires_runtime(member: Any) -> bool:
    """Whether a member of a kind of task is a reward that must be told where it runs."""
    if getattr(member, "reward", False) is not True:
        return False
    found = inspect.signature(member).parameters.get("runtime")
    return found is not None and found.default is inspect.Parameter.empty


def full_reward(row: Any) -> float:
    """Each reward goes up to 1, times its weight."""
    weights = [float(getattr(hook, "_vf_weight", 1.0)) for hook in row.hooks("reward")]
    return sum(weight for weight in weights if weight > 0) or 1.0


async def scored(row: Any, messages: list[dict[str, str]], text: str, full: float) -> Outcome:
    """The verdict on a rollout in which this was said: all of the reward, or a failure."""
    said = [*messages, {"role": "assistant", "content": text}]
    trace = vf.Trace(
        task=vf.TraceTask(type=type(row).__name__, data=row.data, key=row.key, hash=row.hash),
        agent=vf.AgentInfo(config=WireAgentConfig()),
        nodes=[
            vf.MessageNode(
                parent=place - 1 if place else None, message=message, sampled=message is said[-1]
            )
            for place, message in enumerate(said)
        ],
        is_completed=True,
        ok=True,
    )
    why = FAILURES["wrong"]
    try:
        await row.score(trace)
    except vf.TaskError as error:  # raised by rewards that trust what they are given
        why = f"{error!s:.200}"
        trace.rewards.clear()
    rewards = {name: float(reward.value) for name, reward in trace.rewards.items() if reward}
    total = sum(rewards.values())
    valid = total >= full - 1e-9
    failure = "wrong" if rewards else "unscored"
    return verdict(None if valid else failure, why, rewards, total)


def members() -> list[str]:
    raise UserError("every installed taskset is a domain; write verifiers:ID or verifiers:ID?x=1")
