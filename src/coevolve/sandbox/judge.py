"""Judging one program: run on inputs, its functions called, its tests asked elsewhere.

Invariant: what a program ought to answer never enters the sandbox it runs in. It is given inputs
and gives back text or plain values; whoever asks compares them out here.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from coevolve.core.errors import SandboxError
from coevolve.sandbox.codec import decode
from coevolve.sandbox.limits import STOPS, Limits, Ran, Returned
from coevolve.sandbox.meter import Over
from coevolve.sandbox.pool import pool
from coevolve.sandbox.process import Gone, Late, Worker

GRACE_S = 10.0
"""What a busy machine may add to a time on the clock before a worker counts as taken over."""
DEAD = Ran(stop="killed", code=-9, stdout="", stderr="", seconds=0.0, cpu_s=0.0)


class Program:
    """A program in a sandbox of its own; each run is a process of its own there."""

    def __init__(self, worker: Worker, source: str, limits: Limits) -> None:
        self.worker, self.limits = worker, limits
        self.alive = True
        self.meter = worker.meter(limits)
        worker.channel.look = self.meter.look
        self.problem = ""
        """Why it does not compile, once it was tried; empty if it does."""
        job = {**limits.job("judge"), "source": source.encode("utf-8", "surrogatepass")}
        try:
            worker.give(job, self.deadline())
        except (Gone, Late):
            raise SandboxError("a sandbox ended before its job began") from None

    def deadline(self) -> float:
        return time.monotonic() + self.limits.wall_s + GRACE_S

    def hear(self, deadline: float) -> bytes:
        return self.worker.channel.receive(4 * (self.limits.output_kb << 10), deadline)

    def run(self, stdin: str) -> Ran:
        """Run it as a program."""
        return self.attempt({"call": None, "stdin": stdin.encode("utf-8", "surrogatepass")})[0]

    def call(self, name: str, arguments: Sequence[object]) -> Returned:
        """Call one of its functions with plain values."""
        ran, value = self.attempt({"call": name, "arguments": tuple(arguments), "stdin": b""})
        if ran.stop != "ok" or not value.startswith("="):
            left = f"ExitError: ended with code {ran.code} before it returned"
            return Returned(stop=ran.stop, error=value.lstrip("!") or left)
        try:
            return Returned(stop="ok", value=decode(value[1:]))
        except ValueError as error:
            return Returned(stop="ok", error=f"ValueError: {error}")

    def attempt(self, request: dict[str, Any]) -> tuple[Ran, str]:
        """One run: what came of it, and the value or exception it left."""
        if not self.alive:
            return DEAD, ""
        try:
            deadline = self.deadline()
            self.meter.runs += 1
            self.worker.channel.send(request, deadline)
            head, _, data = self.hear(deadline).partition(b"\n")
            stop, code, wall_us, cpu_us, *sizes = map(int, head.split())
            name, seconds, cpu_s = STOPS[stop], wall_us / 1e6, cpu_us / 1e6
            if len(sizes) != 3 or min(sizes) < 0 or sum(sizes) != len(data):
                raise Gone
        except (Late, Over) as ending:
            self.alive = False
            stopped = ending.stop if isinstance(ending, Over) else "time"
            return DEAD.model_copy(update={"stop": stopped}), ""
        except (Gone, ValueError, IndexError, OverflowError):
            self.alive = False
            return DEAD.model_copy(update={"stop": "memory" if self.meter.full else "killed"}), ""
        texts, at = [], 0
        for size in sizes:
            texts.append(data[at : at + size].decode("utf-8", "replace"))
            at += size
        ran = Ran(
            stop=name,
            code=code,
            stdout=texts[0],
            stderr=texts[1],
            seconds=seconds,
            cpu_s=cpu_s,
        )
        if texts[2].startswith("!!"):
            self.alive, self.problem = False, texts[2][2:]
        return ran, texts[2]


@contextmanager
def program(source: str, limits: Limits | None = None) -> Iterator[Program]:
    """A program to run and to call; everything of it is gone when the block ends."""
    worker = pool().take()
    try:
        yield Program(worker, source, limits or Limits())
    finally:
        worker.end()


class Checked(NamedTuple):
    """What test code found."""

    passed: int
    failed: int
    first: str
    """The first failure: `Name: message`, empty if there is none."""
    broken: str
    """Why the test code itself did not come to its end, empty if it did."""


def check(
    candidate: Program, name: str, test: str, context: str, limits: Limits | None = None
) -> Checked:
    """Run `check(candidate)` of some test code in a sandbox of its own.

    Its `candidate` passes plain values to the function `name` of the program, which runs
    elsewhere, and each of its assertions counts. `context` is run first, for names that tests use.
    """
    limits = limits or Limits()
    worker = pool().take()
    deadline = time.monotonic() + limits.wall_s + GRACE_S
    most = 4 * (limits.output_kb << 10)
    spent = ""
    try:
        worker.give({**limits.job("check"), "test": test, "context": context}, deadline)
        while True:
            message = worker.channel.receive(most, deadline).decode()
            value = decode(message[1:])
            assert isinstance(value, tuple)
            if message[0] == "!":
                return Checked(*value)
            if not spent:
                returned = candidate.call(name, value)
                if returned.stop != "ok":
                    spent = f"Stopped: {returned.stop}"
            answer = {"error": spent or returned.error, "value": returned.value}
            worker.channel.send(answer, deadline)
    except Late:
        return Checked(0, 0, "Stopped: time", "TimeoutError: the tests took too long")
    except (Gone, ValueError) as error:
        raise SandboxError(f"the tests broke off: {error or worker.said()}") from None
    finally:
        worker.end()
