"""A control group around one sandbox, where this user may make them (version 2): the kernel then
holds the memory of all its processes and files together, and counts all of their processor time.

Invariant: a group is made below one that has the memory controller already; nothing of the machine
is set up anew. Without one, the watcher alone counts.
"""

import os
import re
import time
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "coevolve"
TRIES, PAUSE_S = 50, 0.02
"""Of removing a group: what was killed takes a moment to be gone."""
NUMBERS = count()


class Group:
    """Processes, and what they use together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.full, self.cpu_s = False, 0.0
        """Whether it ran out of memory, and processor time, as last seen."""

    def limit(self, memory: int) -> None:
        """Hold all memory to so many bytes; what needs more is killed, with all the others."""
        (self.folder / "memory.max").write_text(str(memory))
        with suppress(OSError):  # where there is no swap
            (self.folder / "memory.swap.max").write_text("0")
        (self.folder / "memory.oom.group").write_text("1")

    def look(self) -> None:
        """Read what was used so far."""
        self.full = numbers(self.folder / "memory.events").get("oom_kill", 0) > 0
        self.cpu_s = numbers(self.folder / "cpu.stat").get("usage_usec", 0) / 1e6

    def end(self) -> None:
        """Kill what is left, and remove the group."""
        with suppress(OSError):
            self.look()
            (self.folder / "cgroup.kill").write_text("1")
        for _ in range(TRIES):
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(PAUSE_S)


def numbers(file: Path) -> dict[str, int]:
    """What a file of the kernel's counts, by name."""
    return {name: int(value) for name, value in map(str.split, file.read_text().splitlines())}


def enclose(processes: list[int]) -> Group | None:
    """A new group with these processes, and all that come from them later; None where there can be
    none."""
    if (above := parent()) is None:
        return None
    folder = above / f"{PREFIX}-{os.getpid()}-{next(NUMBERS)}"
    try:
        folder.mkdir()
        for process in processes:
            (folder / "cgroup.procs").write_text(str(process))
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        return None
    return Group(folder)


@cache
def parent() -> Path | None:
    """The nearest group, from our own upwards, in which groups with a limit of memory can be made;
    what earlier programs left there is removed."""
    try:
        text = Path("/proc/self/cgroup").read_text()
    except OSError:
        return None
    found = re.search(r"^0::/(.*)$", text, re.MULTILINE)
    own = ROOT / found[1] if found else ROOT
    for folder in (own, *own.parents):
        if not folder.is_relative_to(ROOT):
            break
        trial = folder / f"{PREFIX}-{os.getpid()}-trial"
        try:
            trial.mkdir()
            usable = (trial / "memory.max").exists() and (trial / "cgroup.kill").exists()
            trial.rmdir()
        except OSError:
            continue
        if usable:
            for left in folder.glob(f"{PREFIX}-*"):
                if not Path("/proc", left.name.split("-")[1]).exists():
                    Group(left).end()
            return folder
    return None
