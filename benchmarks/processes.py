"""Running other programs: peers in environments of their own, and children measured from birth.

The invariant: what is started here ends here. A timeout kills the whole process group.
"""

import json
import os
import signal
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PEERS = FOLDER / "peers"
ENVIRONMENTS = FOLDER / ".venvs"
INSTALL_TIMEOUT_S = 900
RUN_TIMEOUT_S = 600


def run(command: list[str], timeout_s: float) -> str:
    """The standard output of a command that succeeded; anything else ends the benchmark."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except BaseException as problem:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(problem, subprocess.TimeoutExpired):
            raise SystemExit(f"still running after {timeout_s:g} s: {' '.join(command)}") from None
        raise
    if process.returncode:
        raise SystemExit(
            f"exit code {process.returncode}: {' '.join(command)}\n{(output + errors)[-2000:]}"
        )
    return output


def run_json(command: list[str], timeout_s: float = RUN_TIMEOUT_S) -> dict[str, Any]:
    """The JSON object on the last line that a command prints."""
    value = json.loads(run(command, timeout_s).splitlines()[-1])
    if not isinstance(value, dict):
        raise SystemExit(f"expected a JSON object, got {value!r}: {' '.join(command)}")
    return value


def python_of(environment: str) -> str:
    """The interpreter of a peer environment, installed first if it is missing or out of date."""
    requirements = PEERS / f"requirements-{environment}.txt"
    folder = ENVIRONMENTS / environment
    python, ready = folder / "bin" / "python", folder / "ready"
    state = blake2b(requirements.read_bytes(), digest_size=8).hexdigest()
    if not ready.exists() or ready.read_text() != state:
        print(f"Installing {requirements.name} (about a minute, once).", file=sys.stderr)
        run([sys.executable, "-m", "venv", "--clear", str(folder)], INSTALL_TIMEOUT_S)
        install = ["-m", "pip", "install", "--quiet", "--requirement", str(requirements)]
        run([str(python), *install], INSTALL_TIMEOUT_S)
        ready.write_text(state)
    return str(python)


def run_peer(environment: str, script: str, seconds: float, *arguments: str) -> dict[str, Any]:
    """The report of one peer script; it runs on our core, for it inherits our affinity."""
    python, file = python_of(environment), str(PEERS / script)
    return run_json([python, file, "--seconds", str(seconds), *arguments])
