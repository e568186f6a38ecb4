"""One worker: a sandboxed process that waits for its one job, and how to be rid of it.

Nothing that it does or leaves undone can keep us waiting. What goes in is trusted by the worker;
what comes out is bytes of a stated length and no more.
"""

import json
import marshal
import os
import select
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from coevolve.core.errors import SandboxError, UserError
from coevolve.core.system import NEEDS_POSIX
from coevolve.sandbox import bubblewrap, seccomp
from coevolve.sandbox.bubblewrap import ENVIRONMENT, PYTHON, Bind
from coevolve.sandbox.group import Group, enclose
from coevolve.sandbox.limits import Limits
from coevolve.sandbox.meter import LOOK_S, Meter, relatives

LEFT_OUT = "from coevolve"
ABOVE = 100
"""Numbers of open files from here on are out of the way of those that a worker uses itself."""
START_S = 20.0
"""How long a worker may take to appear before the machine counts as broken."""
SIZE = struct.Struct(">I")
LOADER = """\
import marshal, posix
size, data = int.from_bytes(posix.read(0, 4), "big"), b""
while len(data) < size:
    data += posix.read(0, size - len(data))
exec(marshal.loads(data))
"""
"""What a worker starts with: it reads the rest, since it sees no file of this package."""


class Gone(Exception):
    """The other side is dead or talks nonsense."""


class Late(Exception):
    """The other side took too long."""


class Channel:
    """Two pipes, read and written with a deadline."""

    def __init__(self, inward: int, outward: int) -> None:
        self.inward, self.outward = inward, outward
        self.look: Callable[[], None] | None = None
        """What to do every now and then while waiting for an answer."""
        os.set_blocking(inward, False)
        os.set_blocking(outward, False)

    def send(self, message: dict[str, Any], deadline: float) -> None:
        """Pass a message in, before a time of the monotonic clock."""
        data = marshal.dumps(message)
        self.write(SIZE.pack(len(data)) + data, deadline)

    def write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            wait(self.inward, select.POLLOUT, deadline)
            try:
                view = view[os.write(self.inward, view) :]
            except BlockingIOError:
                continue
            except OSError:
                raise Gone from None

    def receive(self, most: int, deadline: float) -> bytes:
        """The next message, of `most` bytes at the most."""
        size = SIZE.unpack(self.exactly(SIZE.size, deadline))[0]
        if size > most:
            raise Gone
        return self.exactly(size, deadline)

    def exactly(self, count: int, deadline: float) -> bytes:
        parts = []
        while count:
            wait(self.outward, select.POLLIN, deadline, self.look)
            try:
                part = os.read(self.outward, min(count, 1 << 20))
            except BlockingIOError:
                continue
            if not part:
                raise Gone
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def wait(file: int, event: int, deadline: float, look: Callable[[], None] | None = None) -> None:
    """Until a file is ready; raises at the deadline."""
    poll = select.poll()
    poll.register(file, event)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise Late
        if poll.poll(1000 * (min(left, LOOK_S) if look else left)):
            return
        if look:
            look()


@cache
def code() -> bytes:
    """The worker's program, compiled, since compiling takes as long as starting an interpreter."""
    folder = Path(__file__).parent
    source: list[str] = []
    for name in ("codec.py", "worker.py"):
        lines = (folder / name).read_text("utf-8").splitlines(keepends=True)
        source += [line for line in lines if not line.startswith(LEFT_OUT)]
    data = marshal.dumps(compile("".join(source), "worker", "exec", dont_inherit=True, optimize=2))
    return len(data).to_bytes(4, "big") + data


def filter_file() -> int | None:
    """The filter of system calls as an open file, None where there is none."""
    calls = seccomp.program()
    if calls is None:
        return None
    file = os.memfd_create("calls")
    os.write(file, calls)
    os.lseek(file, 0, os.SEEK_SET)
    return file


class Worker:
    """A process that takes one job. Whoever has it must `end` it."""

    def __init__(self, slot: int, space_mb: int = 64, binds: tuple[Bind, ...] = ()) -> None:
        try:
            import fcntl
        except ImportError:
            raise UserError(f"running code in a sandbox {NEEDS_POSIX}") from None
        self.walled = bubblewrap.kind() == "bubblewrap"
        self.folder = None if self.walled else tempfile.TemporaryDirectory(prefix="coevolve-")
        if self.walled and os.getuid() == 0:
            for bind in binds:
                if bind.writable:
                    bubblewrap.give(bind.source, bubblewrap.stranger(slot))
        heard, told = os.pipe()
        self.reported, low = os.pipe()
        self.report = fcntl.fcntl(low, fcntl.F_DUPFD, ABOVE)
        os.close(low)
        calls = filter_file() if self.walled else None
        words = bubblewrap.command(slot, space_mb, binds, told, calls) if self.walled else []
        passed = [told, self.report] + ([] if calls is None else [calls])
        try:
            self.process = subprocess.Popen(
                [*words, PYTHON, "-s", "-P", "-S", "-B", "-c", LOADER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=passed,
                env={**ENVIRONMENT, "PYTHONHASHSEED": "0"},  # the same order of sets every time
                cwd=self.folder.name if self.folder else "/",
                start_new_session=not self.walled,
            )
        finally:
            for file in passed:
                os.close(file)
        assert self.process.stdin and self.process.stdout  # noqa: PT018
        assert self.process.stderr
        self.channel = Channel(self.process.stdin.fileno(), self.process.stdout.fileno())
        self.errors = self.process.stderr.fileno()
        self.handle = -1
        self.group: Group | None = None
        try:
            self.channel.write(code(), time.monotonic() + START_S)
            self.inner = self.find(heard) if self.walled else self.process.pid
            self.handle = os.pidfd_open(self.inner)
            self.group = enclose(relatives(self.process.pid))  # it waits for its job
        except (OSError, Gone, Late):
            problem = self.said()
            self.end()
            if self.walled:
                raise bubblewrap.no_namespaces(problem) from None
            raise SandboxError(f"a sandbox died while it was started{problem}") from None
        except UserError:
            self.end()
            raise
        finally:
            os.close(heard)

    def find(self, heard: int) -> int:
        """The process id of the worker itself, as bubblewrap tells it."""
        told, deadline = b"", time.monotonic() + START_S
        while b"}" not in told:
            ready, _, _ = select.select([heard], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(heard, 4096) if ready else b""
            if not part:
                raise bubblewrap.no_namespaces(self.said())
            told += part
        return int(json.loads(told)["child-pid"])

    def greet(self) -> "Worker":
        """Wait until it is there; a worker that never comes is a broken machine."""
        try:
            if self.channel.receive(64, time.monotonic() + START_S) == b"ready":
                return self
        except (Gone, Late):
            pass
        problem = self.said()
        self.end()
        raise (
            bubblewrap.no_namespaces(problem)
            if self.walled
            else SandboxError(f"a sandbox did not start{problem}")
        )

    def said(self) -> str:
        """What came over standard error, to put behind a message."""
        ready, _, _ = select.select([self.errors], [], [], 1.0)
        words = os.read(self.errors, 4096).decode("utf-8", "replace").strip() if ready else ""
        return f": {words}" if words else ""

    def meter(self, limits: Limits) -> Meter:
        """What watches this worker, and all that it starts."""
        return Meter(self.inner, self.walled, limits, self.group)

    def kill(self) -> None:
        """Kill the worker and with it everything that lives in its tree."""
        if self.handle >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        if not self.walled:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def give(self, job: dict[str, Any], deadline: float) -> None:
        """Pass the one job in."""
        self.channel.send({**job, "walled": self.walled, "report": self.report}, deadline)

    def end(self) -> tuple[int, float]:
        """Kill what is left, wait until nothing is, close all files: exit code, processor time.

        A command that was killed has no time to report.
        """
        self.kill()
        if self.handle < 0:
            self.process.kill()
        code = self.process.wait()
        told = os.read(self.reported, 32)
        os.close(self.reported)
        if self.handle >= 0:
            select.select([self.handle], [], [], START_S)  # until the whole tree is gone
        if self.group:
            self.group.end()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()
        if self.handle >= 0:
            os.close(self.handle)
        if self.folder:
            self.folder.cleanup()
        try:
            return code, float(told or 0)
        except ValueError:  # a program may have written there
            return code, 0.0
