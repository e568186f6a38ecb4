"""A command of ours, run as a person would run it, and its JSON."""

import json
import subprocess
import sys
from typing import Any


def coevolve(*words: str, live: bool = False) -> Any:
    """The last line of its output; what it says while it works is shown only if `live`."""
    command = [sys.executable, "-m", "coevolve.cli.main", *words, "--json"]
    errors = None if live else subprocess.PIPE
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {(done.stderr or '')[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
