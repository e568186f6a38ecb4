"""Running one command in a sandbox of its own."""

import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from coevolve.core.errors import SandboxError
from coevolve.sandbox.bubblewrap import ENVIRONMENT, Bind
from coevolve.sandbox.limits import Limits, Ran, Stop
from coevolve.sandbox.meter import LOOK_S, Meter, Over
from coevolve.sandbox.pool import pool
from coevolve.sandbox.process import Gone, Late, Worker, wait

SPACE_MB = Limits().space_mb


def run(
    argv: Sequence[str],
    *,
    stdin: str | bytes = b"",
    files: Mapping[str, bytes] | None = None,
    binds: tuple[Bind, ...] = (),
    folder: str = "/tmp",
    environment: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Ran:
    """Run a command to its end or to a limit. Whatever it does, this returns.

    `files` are put into `folder`, where it starts; nothing of them comes back. What it is to
    change on this machine must be a writable bind, whose files then belong to the sandbox's user.
    """
    limits = limits or Limits()
    job = {
        **limits.job("exec"),
        "argv": list(argv),
        "stdin": stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else stdin,
        "files": {checked(name): data for name, data in (files or {}).items()},
        "env": {**ENVIRONMENT, **(environment or {})},
        "folder": folder,
    }
    plain = not binds and limits.space_mb == SPACE_MB
    worker = pool().take() if plain else pool().start(limits.space_mb, binds)
    meter = worker.meter(limits)
    began = time.monotonic()
    deadline = began + limits.wall_s
    texts = {worker.channel.outward: bytearray(), worker.errors: bytearray()}
    try:
        try:
            worker.give(job, deadline)
            stop = listen(texts, limits.output_kb << 10, deadline, meter)
            stop = stop or rest(worker, deadline, meter)
        except Late:
            stop = "time"
        except Over as ending:
            stop = ending.stop
        except Gone:
            raise SandboxError(f"a sandbox ended before its job began{worker.said()}") from None
    finally:
        code, cpu_s = worker.end()
    stop = stop or ("memory" if meter.full else None)
    cpu_s = max(cpu_s, meter.cpu_s)
    output, errors = (text.decode("utf-8", "replace") for text in texts.values())
    code = 128 - code if code > 128 else code
    return Ran(
        stop=stop or reason(code, cpu_s, errors, limits),
        code=code,
        stdout=output,
        stderr=errors,
        seconds=time.monotonic() - began,
        cpu_s=cpu_s,
    )


def checked(name: str) -> str:
    """The name of a file that lies below the work folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise SandboxError(f"{name!r} is not the name of a file below the work folder")
    return name


def listen(texts: dict[int, bytearray], most: int, deadline: float, meter: Meter) -> Stop | None:
    """Gather what is said over some files until all are closed; what ended it, if not that."""
    poll = select.poll()
    for file in texts:
        os.set_blocking(file, False)
        poll.register(file, select.POLLIN)
    going, looked = len(texts), time.monotonic()
    while going:
        now = time.monotonic()
        if now >= deadline:
            return "time"
        ready = poll.poll(min(deadline - now, LOOK_S) * 1000)
        if now - looked > LOOK_S:
            meter.look()
            looked = now
        for file, _ in ready:
            part = os.read(file, 1 << 16)
            texts[file] += part[: most - len(texts[file])]
            if len(texts[file]) >= most:
                return "output"
            if not part:
                poll.unregister(file)
                going -= 1
    return None


def rest(worker: Worker, deadline: float, meter: Meter) -> Stop | None:
    """Wait for a command that closed its files and went on."""
    try:
        wait(worker.handle, select.POLLIN, deadline, meter.look)
    except Late:
        return "time"
    return None


def reason(code: int, cpu_s: float, errors: str, limits: Limits) -> Stop:
    """Why a command that no one stopped has stopped, as far as its end tells."""
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and cpu_s >= limits.cpu_s):
        return "time"
    if code == -signal.SIGXFSZ:
        return "output"
    last = errors.rstrip().rpartition("\n")[2]
    if code and last.startswith("MemoryError"):
        return "memory"
    if code and last.startswith(("BlockingIOError: [Errno 11]", "RuntimeError: can't start new")):
        return "processes"
    return "killed" if code < 0 else "ok"
