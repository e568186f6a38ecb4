"""Trying a server out: starting one, known solutions, whole episodes written down to play again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any, NamedTuple

from coevolve.core.errors import DomainError, UserError
from coevolve.core.rollout import Message, Value
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.domains.openenv.connection import PATIENCE_S, Play, Refused, Step, ask, timeless
from coevolve.domains.openenv.declaration import SCRIPT, token
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
    states: tuple[dict[str, Any], ...]
    """Before the first action."""
    refused: str
    """What the server had against the last action, if it did."""
    seconds: float

    @property
    def reward(self) -> float:
        return sum(float(step.reward or 0) for step in self.steps)

    def seen(self) -> str:
        """Everything that the policy could see before it acted."""
        return json.dumps([self.first.observation, *self.states], ensure_ascii=False)

    def written(self) -> Any:
        """As it would be read from a file: what happened, without how long it took."""
        return timeless([self.first, self.steps, self.refused])


def attempt(domain: ServedDomain, reset: dict[str, Any], actions: Actions) -> Trial:
    """Begin, act until it is over, and write it all down."""
    play, refused = Play(domain.lines, reset), ""
    began = time.perf_counter()
    try:
        line, first = play.on_line()
        state = {k: v for k, v in line.state().items() if k != "episode_id"}
        for action in actions:
            if play.steps and play.steps[-1].done:
                break
            play.step(action)
    except Refused as error:
        refused = str(error)
    finally:
        play.end()
    spent = time.perf_counter() - began
    return Trial(first, tuple(play.steps), (state,), refused, spent)


def solutions(domain: ServedDomain, count: int, file: Path | None) -> list[Solution]:
    """Episodes that should earn the full reward: from a file, or played by the server's oracle."""
    if file is not None:
        return list(read(file))[:count]
    if domain.declared is None or "oracle" not in domain.scripts:
        return []
    knobs = domain.space.defaults()
    made = domain.generate(knobs, count, derive(0, "check-server"), Split.DEV)
    return [solved(domain, task.data["reset"]) for task in made]


def solved(domain: ServedDomain, reset: dict[str, Any]) -> Solution:
    """What the oracle does in an episode, turn by turn."""
    play, actions = Play(domain.lines, reset), []
    first = play.begin().observation
    messages = [Message.model_validate(message) for message in first["messages"]]
    for _ in range(int(first["turns"])):
        asked = {"script": "oracle", "reset": reset, "messages": [m.model_dump() for m in messages]}
        text = ask(domain.address.base, SCRIPT, asked, token())["text"]
        actions.append({"message": text})
        step = play.step(actions[-1])
        if step.done:
            break
        messages += [
            Message(role="assistant", content=text),
            Message(role="user", content=step.observation["message"]),
        ]
    play.end()
    return Solution(reset=reset, actions=tuple(actions))


def read(file: Path) -> Iterator[Solution]:
    """Lines of JSON: {"reset": {"seed": 1}, "actions": [{...}]}."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {file}: {error}") from None
    for number, line in enumerate(lines, 1):
        try:
            values = json.loads(line)
        except ValueError:
            raise UserError(f"{file}, line {number}: not JSON: {line!r:.60}") from None
        yield checked(Solution, values, f"{file}, line {number}")


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
