"""A server of ours in a process of its own, for as long as it is needed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from select import select

from coevolve.core.errors import DomainError

PATIENCE_S = 120.0
SERVE = (
    "from coevolve.core.exit import follow_input; follow_input(); "
    "from runpy import run_module; run_module('coevolve', run_name='__main__')"
)
"""The command line, which ends with whoever started it, however that ends."""


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
