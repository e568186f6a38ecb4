"""Shared by tests of what several processes do, or one that is killed."""

import signal
import subprocess
import sys
import threading

PATIENCE_S = 60
"""After this a process is killed, and its test fails."""


def start(script: str, *values: object) -> subprocess.Popen[str]:
    """Run a script in a process of its own, up to its first line, which is `ready`."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, values)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process


def finish(process: subprocess.Popen[str], kill: bool = False) -> str:
    """Kill a process, or let it come to a good end; what it printed after its first line."""
    if kill:
        process.kill()
    late = threading.Timer(PATIENCE_S, process.kill)
    late.start()
    with process:
        assert process.stdout is not None
        output = process.stdout.read()
    late.cancel()
    assert process.returncode == (-signal.SIGKILL if kill else 0)
    return output
