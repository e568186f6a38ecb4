"""Trying a server out: starting one, known solutions, whole episodes written down to play again."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from select import select
from typing import Any, NamedTuple

from coevolve.core.errors import DomainError
from coevolve.core.rollout import Message, Value
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.files import read_lines
from coevolve.domains.openenv.connection import PATIENCE_S, Play, Refused, Step, timeless
from coevolve.domains.openenv.domain import ServedDomain
from coevolve.harness.check import checked

SERVE = (
    "from coevolve.core.exit import follow_input; follow_input(); "
    "from runpy import run_module; run_module('coevolve', run_name='__main__')"
)
"""The command line, which ends with whoever started it, however that ends."""
Actions = Sequence[dict[str, Any]]


class Solution(Value):
    """An episode that earns the full reward: how it begins and what is done."""

    reset: dict[str, Any]
    actions: tuple[dict[str, Any], ...]


class Trial(NamedTuple):
    """An episode as it went."""

    first: Step
    steps: tuple[Step, ...]
    state: dict[str, Any]
    """Before the first action."""
    refused: str
    """What the server had against the last action, if it did."""
    seconds: float

    @property
    def reward(self) -> float:
        return sum(float(step.reward or 0) for step in self.steps)

    def seen(self) -> str:
        """Everything that the policy could see before it acted."""
        return json.dumps([self.first.observation, self.state], ensure_ascii=False)

    def written(self) -> Any:
        """As it would be read from a file: what happened, without how long it took."""
        return timeless([self.first, self.steps, self.refused])


def attempt(domain: ServedDomain, reset: dict[str, Any], actions: Actions) -> Trial:
    """Begin, act until it is over, and write it all down."""
    play, refused = Play(domain.lines, reset), ""
    began = time.perf_counter()
    try:
        told = play.on_line().exchange("state")
        state = {name: value for name, value in told.items() if name != "episode_id"}
        for action in actions:
            if play.over:
                break
            play.step(action)
    except Refused as error:
        refused = str(error)
    finally:
        play.end()
    return Trial(play.first, tuple(play.steps), state, refused, time.perf_counter() - began)


def solutions(domain: ServedDomain, count: int, file: Path | None) -> list[Solution]:
    """Episodes that should earn the full reward: from lines of JSON such as
    {"reset": {"seed": 1}, "actions": [{...}]}, or played by the server's oracle."""
    if file is not None:
        lines = islice(read_lines(file), count)
        return [checked(Solution, values, f"{file}, line {number}") for number, values in lines]
    if domain.declared is None or "oracle" not in domain.scripts:
        return []
    knobs = domain.space.defaults()
    made = domain.generate(knobs, count, derive(0, "check-server"), Split.DEV)
    return [solved(domain, task) for task in made]


def solved(domain: ServedDomain, task: Task) -> Solution:
    """What the oracle does in an episode, turn by turn."""
    play, rng = Play(domain.lines, task.data["reset"]), random.Random(0)
    play.begin()
    messages = list(domain.prompt(task))
    for _ in range(int(task.data["turns"])):
        text = domain.played("oracle", task, rng, messages)
        step = play.step({"message": text})
        if step.done:
            break
        messages += [
            Message(role="assistant", content=text),
            Message(role="user", content=step.observation["message"]),
        ]
    play.end()
    return Solution(reset=play.arguments, actions=tuple(play.actions))


@contextmanager
def started(
    domain: str, *options: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[str]:
    """The address of a new server of a domain, which ends with the block."""
    command = [sys.executable, "-c", SERVE, "serve-domain", domain, "--port", "0", *options]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=cwd,
        env={**os.environ, **(env or {})}, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        ready, _, _ = select([process.stdout], [], [], PATIENCE_S)
        address = process.stdout.readline().strip() if ready else ""
        if not address:
            process.kill()
            said = process.communicate()[1].strip().splitlines()
            raise DomainError(f"no server of '{domain}' started: {' '.join(said[-1:])}")
        yield address
    finally:
        with process:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
