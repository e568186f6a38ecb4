"""Shared by tests that start processes: our commands, several at once, one that is killed."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import forks
from typer.testing import CliRunner

from coevolve.cli.main import app

PATIENCE_S = 60
"""After this a process is killed, and its test fails."""


def coevolve(
    *words: object, cwd: Path | None = None, said: str = "", timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a command of ours to its end, whatever that is, in a process of its own."""
    return forks.run([*map(str, words)], cwd or Path.cwd(), said, timeout)


def anew(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The same, started anew: where its imports, its path or its output are the point."""
    command = [sys.executable, "-m", "coevolve", *map(str, words)]
    return subprocess.run(
        command, **{"capture_output": True, "text": True, "timeout": 300, "check": False, **options}
    )


def facts_of(*words: object) -> Any:
    """What a command of ours prints as JSON, run in this process."""
    ran = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


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


def alive(process: int) -> bool:
    """Whether a process goes on; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
