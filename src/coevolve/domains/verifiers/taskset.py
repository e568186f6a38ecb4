"""A domain as a taskset and an environment of verifiers, under the id `coevolve-taskset`.

Invariant: every verdict is the domain's. It is made once for a trace and kept in its `info`, so
that rewards, metrics and whoever reads the trace later see the same one.
"""

import asyncio
from functools import lru_cache
from typing import Any

import httpx
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire

from coevolve.core.rollout import Message, Outcome
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.capture import verify
from coevolve.domains.registry import get_domain
from coevolve.domains.turns import begin, of_text

OUTCOME = "outcome"
"""Where a trace keeps the verdict."""
PATIENCE_S, LONGEST, TOLD = 1_800.0, 2**24, 2_000
"""Seconds and bytes that an answer may take, and bytes of it that are told."""


@lru_cache(maxsize=8)
def opened(name: str) -> Domain:
    return of_text(get_domain(name))


class DomainTasksetConfig(vf.TasksetConfig):
    """Which tasks, of which domain."""

    domain: str = ""
    """Name of a domain, as `coevolve domains` lists it."""
    knobs: dict[str, float] = {}
    """Those that are not as by default."""
    split: str = Split.TRAIN.value
    seed: int = 0
    count: int = 1_000
    style: str = ""
    """Prompt style; the domain's first if not given."""


class DomainData(vf.TaskData):
    """A task of ours as a row of theirs; the harness sees only its prompt."""

    task: dict[str, Any]


class DomainTask(vf.Task[DomainData]):
    """Judged by the domain."""

    def whole(self) -> tuple[Domain, Task]:
        task = Task.model_validate(self.data.task)
        return opened(task.domain), task

    def outcome(self, trace: vf.Trace) -> Outcome:
        """The verdict that the episode left, or else that on the last thing said."""
        if OUTCOME not in trace.info:
            domain, task = self.whole()
            found = verify(domain, task, trace.last_reply)
            trace.info[OUTCOME] = found.model_dump(mode="json")
        return Outcome.model_validate(trace.info[OUTCOME])

    @vf.metric
    async def verdict(self, trace: vf.Trace) -> dict[str, float]:
        outcome = self.outcome(trace)
        return {
            "valid": float(outcome.valid), "optimal": float(outcome.optimal), **outcome.components,
        }  # fmt: skip

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        return self.outcome(trace).reward

    async def validate(self, runtime: vf.Runtime) -> bool:
        domain, task = self.whole()
        return domain.verify(task, domain.oracle(task)).reward >= domain.full_reward - 1e-9


class DomainTaskset(vf.Taskset[DomainTask, DomainTasksetConfig]):
    """Tasks drawn from the knobs."""

    def load(self) -> Any:
        config = self.config
        domain = opened(config.domain)
        knobs = domain.space.parse(config.knobs)
        for task in domain.generate(knobs, config.count, config.seed, Split(config.split)):
            system, prompt = parts(domain.prompt(task, config.style))
            data = DomainData(
                id=task.id, name=task.id, system_prompt=system, prompt=prompt,
                task=task.model_dump(mode="json"),
            )  # fmt: skip
            yield DomainTask(data, config.task)


def parts(messages: tuple[Message, ...]) -> tuple[str | None, Any]:
    """The system prompt, and the rest as one text or as messages."""
    system = messages[0].content if messages[0].role == "system" else None
    rest = messages[system is not None :]
    if len(rest) == 1 and rest[0].role == "user":
        return system, rest[0].content
    return system, [message.model_dump() for message in rest]


class ChatHarness(vf.Harness[vf.HarnessConfig]):
    """One model call a turn, made from this process: no box, no program to install."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: vf.ModelContext, trace: vf.Trace, runtime: vf.Runtime, endpoint: str,
        secret: str, mcp_urls: dict[str, str], data: vf.TaskData,
    ) -> vf.ProgramResult:  # fmt: skip
        system, prompt = self.resolve_prompt(data)
        said = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            said.append({"role": "user", "content": prompt})
        else:
            said += [message_to_wire(message) for message in prompt or []]
        tail, left = b"", LONGEST
        try:
            async with (
                asyncio.timeout(PATIENCE_S),
                httpx.AsyncClient(timeout=PATIENCE_S, follow_redirects=False) as client,
                client.stream(
                    "POST",
                    f"{endpoint}/chat/completions",
                    json={"model": ctx.model, "messages": said},
                    headers={"Authorization": f"Bearer {secret}", "Accept-Encoding": "identity"},
                ) as answer,
            ):
                async for part in answer.aiter_raw():
                    tail, left = (tail + part)[-TOLD:], left - len(part)
                    if left < 0:
                        return vf.ProgramResult(1, "", f"an answer of more than {LONGEST:,} bytes")
        except TimeoutError:
            return vf.ProgramResult(1, "", f"no whole answer in {PATIENCE_S:g} s")
        return vf.ProgramResult(int(not answer.is_success), "", tail.decode("utf-8", "replace"))


class DomainEnvConfig(vf.EnvConfig):
    """Who plays, and where its program runs: nowhere but here."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class DomainEnv(vf.Env[DomainEnvConfig]):
    """One or several turns, as the domain has them."""

    async def run(self, task: DomainTask, agents: vf.Agents) -> None:
        domain, ours = task.whole()
        episode, limit = begin(domain, ours)
        said = ""
        async with agents.agent.interaction(task) as talk:
            segment = await talk.turn()
            for turn in range(1, limit + 1):
                if segment.terminated:
                    break
                said = segment.last_reply
                reply = await asyncio.to_thread(episode.reply, said)
                if reply is None or turn == limit:
                    break
                segment = await talk.turn(reply)
            outcome = await asyncio.to_thread(episode.outcome, said)
            talk.trace.info[OUTCOME] = outcome.model_dump(mode="json")
