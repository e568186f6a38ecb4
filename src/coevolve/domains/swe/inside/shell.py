"""Runs one command in a copy of a repository and says what it printed and which files it changed.

Invariant: it decides nothing. Whatever a command makes it say, the command could have printed, or
written into a file.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 1 << 16


def walk(root: str) -> Iterator[tuple[str, bytes]]:
    """All regular files below a folder; links are not followed."""
    for place, _, names in os.walk(root):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                try:
                    with open(path, "rb") as file:
                        yield os.path.relpath(path, root), file.read()
                except OSError:
                    continue


def attempt(command: str, root: str, wall_s: float, most: int) -> tuple[int | None, bytes]:
    """Exit code, None for a command that took too long, and the beginning of what it printed."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout
    file, said, deadline = process.stdout.fileno(), bytearray(), time.monotonic() + wall_s
    while True:
        left = deadline - time.monotonic()
        ready = select.select([file], [], [], min(max(left, 0), 0.2))[0]
        part = os.read(file, CHUNK) if ready else b""
        said += part[: most - len(said)]
        ended = process.poll() is not None
        if (ready and not part) or (ended and not ready) or left <= 0:
            break
    if process.poll() is None:  # it may have closed its output and gone on
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(deadline - time.monotonic(), 0))
    late = process.poll() is None
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    return None if late else code, bytes(said)


def main() -> None:
    request = json.loads(sys.stdin.read())
    root = request["root"]
    before = dict(walk(root))
    code, said = attempt(request["command"], root, request["wall_s"], request["output_bytes"])
    after = dict(walk(root))
    changed = {name: data for name, data in after.items() if before.get(name) != data}
    report = {
        "code": code,
        "output": said.decode("utf-8", "replace"),
        "changed": {
            name: base64.b64encode(data).decode()
            for name, data in changed.items()
            if name.isprintable()
        },
        "gone": [name for name in before if name not in after],
    }
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main()
