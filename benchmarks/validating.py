"""What `coevolve validate` says of many environments, as a table.

    python benchmarks/validating.py [NAME ...] [--json FILE]

Without names: our own domains, ten data sets of reasoning-gym, and the lake as an OpenEnv server.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OWN = ("lake", "math", "code", "swe", "engineering")
REASONING = (
    "basic_arithmetic", "leg_counting", "chain_sum", "countdown", "number_sorting", "maze",
    "spell_backward", "word_sorting", "gcd", "family_relationships",
)  # fmt: skip
PORTS = {8765: "lake", 8766: "math"}


@contextmanager
def served() -> Iterator[list[str]]:
    """Two of our domains behind OpenEnv's protocol, with solutions for who knows the word."""
    os.environ.setdefault("COEVOLVE_ORACLE_TOKEN", "validating")
    command = [sys.executable, "-m", "coevolve", "serve-domain"]
    running = [
        subprocess.Popen([*command, name, "--port", str(port)], stdout=subprocess.DEVNULL)
        for port, name in PORTS.items()
    ]
    time.sleep(8)
    try:
        yield [f"openenv:http://127.0.0.1:{port}" for port in PORTS]
    finally:
        for one in running:
            one.terminate()


def validated(name: str) -> dict[str, Any]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "coevolve", "validate", name, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    found = json.loads(lines[-1]) if lines else {"verdict": "?", "aspects": [], "said": done.stderr}
    return {**found, "domain": name, "seconds": time.perf_counter() - began}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    with served() if not arguments.names else contextmanager(lambda: iter([[]]))() as addresses:
        names = arguments.names or [
            *OWN, *(f"reasoning.{name}" for name in REASONING), *addresses
        ]  # fmt: skip
        for name in names:
            row = validated(name)
            rows.append(row)
            why = "; ".join(f"{one['name']}: {one['words']}" for one in row["aspects"]
                            if one["verdict"] != "fit")  # fmt: skip
            told = why or str(row.get("said", ""))[-200:]
            print(f"| {name} | {row['verdict']} | {row['seconds']:.0f} s | {told} |", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
