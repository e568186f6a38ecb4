"""The locked connection: SQL that a model wrote, against what an engineer may see.

Statements run in a process of their own (`diagnostics.confinement`), which is killed when it
takes too long. Invariant: no statement sees a gate or test rollout, writes anything, or outlives
its limits.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, NamedTuple, Self

from pydantic import Field

from coevolve.core.errors import EvidenceError
from coevolve.core.rollout import Value
from coevolve.core.splits import Split
from coevolve.diagnostics.views import NAMES, Evidence, pattern

START_S = 60.0
"""Seconds in which the views of a run must be made."""


class Bounds(Value):
    """How much a statement may take."""

    seconds: float = Field(default=20.0, gt=0)
    memory: int = Field(default=1024 * 1024 * 1024, ge=64 * 1024 * 1024)
    """Bytes for the database; the process gets 512 MiB more."""
    threads: int = Field(default=1, ge=1)
    """Several would add up, and list, in another order each time that they are asked."""
    rows: int = Field(default=10_000, ge=1)
    """Rows of an answer; what is beyond is left out, and said to be."""
    size: int = Field(default=4_000_000, ge=1_000)
    """Bytes of an answer as JSON."""


class Answer(NamedTuple):
    """What a statement found."""

    columns: list[str]
    rows: list[list[Any]]
    cut: bool = False
    """Whether rows were left out."""


class Locked:
    """Answers statements; use it as a context manager."""

    def __init__(self, evidence: Evidence, bounds: Bounds | None = None) -> None:
        hidden = [part for part in evidence.parts if part.split not in (Split.TRAIN, Split.DEV)]
        if hidden:
            raise ValueError(f"rollouts of {hidden[0].split} are out of an engineer's reach")
        self.evidence, self.bounds = evidence, bounds or Bounds()
        self.process: subprocess.Popen[bytes] | None = None
        self.over = False
        self.seen = evidence
        """What the views of the process are made of."""

    def ask(self, sql: str, only: Evidence | None = None) -> Answer:
        """The answer to one SELECT; an `EvidenceError` says why there is none. Where it
        sees `only` a part of the evidence, it may single out nothing of that."""
        if self.over:
            raise EvidenceError("the time for questions is over")
        if self.process is None or self.process.poll() is not None:
            self.start()
        order: dict[str, Any] = {
            "sql": sql, "rows": self.bounds.rows, "bytes": self.bounds.size,
            "general": only is not None, "statements": [],
        }  # fmt: skip
        if self.seen is not (seen := only or self.evidence):
            order["statements"], self.seen = seen.statements(), seen
        found = self.exchange(order, self.bounds.seconds)
        if found.get("spoiled"):  # by this statement: the next one finds another process
            self.close()
        if "error" in found:
            raise EvidenceError(found["error"])
        return Answer(found["columns"], found["rows"], found["cut"])

    def start(self) -> None:
        self.close()
        self.seen = self.evidence
        environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coevolve.diagnostics.confinement"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment, cwd="/", start_new_session=True,
        )  # fmt: skip
        files = self.evidence.files
        orders = {
            "statements": self.evidence.statements(),
            "paths": sorted({text for file in files for text in (str(file), pattern(file))}),
            "views": list(NAMES),
            "memory": self.bounds.memory,
            "threads": self.bounds.threads,
        }
        if "error" in (found := self.exchange(orders, START_S)):
            raise EvidenceError(found["error"])

    def exchange(self, order: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a line and wait for one; a process that gives none in time is killed."""
        process = self.process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        deadline, received = time.monotonic() + seconds, bytearray()
        while not received.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                self.close()
                return {"error": f"stopped after {seconds:g} s; ask for less"}
            block = os.read(process.stdout.fileno(), 1 << 20)
            if not block:
                self.close()
                return {"error": "stopped: it needed more memory than it may have; ask for less"}
            received += block
        found: dict[str, Any] = json.loads(received)
        return found

    def close(self) -> None:
        """End the process."""
        if (process := self.process) is None:
            return
        self.process = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        self.close()
