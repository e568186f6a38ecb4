"""What all processes of one sandbox use together, read from outside.

Invariant: nothing is asked of the sandbox. Numbers come from the kernel's own files about its
processes and from its file system, so no program can say anything about itself.
"""

import os
from contextlib import suppress
from pathlib import Path

from coevolve.sandbox.group import Group
from coevolve.sandbox.limits import Limits, Stop

LOOK_S = 0.03
"""How often a waiting judge looks."""
OWN_MB, OWN_TASKS = 32, 3
"""What a sandbox itself takes beside the program: a worker, and bubblewrap's process."""


class Over(Exception):
    """A sandbox uses more than it may."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop)
        self.stop: Stop = stop


class Meter:
    """Watches one sandbox; `runs` of a program have had a processor limit each."""

    def __init__(self, root: int, walled: bool, limits: Limits, group: Group | None = None) -> None:
        self.root, self.limits, self.group = root, limits, group
        if group:
            group.limit((limits.memory_mb + OWN_MB) << 20)
        self.space = f"/proc/{root}/root/tmp" if walled else ""
        """The sandbox's files, as seen from outside."""
        self.runs = 1
        self.lost = self.latest = 0
        """Ticks of processes whose parent never asked for them, and of all others."""

    @property
    def cpu_s(self) -> float:
        counted = (self.lost + self.latest) / os.sysconf("SC_CLK_TCK")
        return max(counted, self.group.cpu_s) if self.group else counted

    @property
    def full(self) -> bool:
        """Whether the kernel has ended it for want of memory."""
        with suppress(OSError):  # it is gone: what was last seen holds
            if self.group:
                self.group.look()
        return bool(self.group and self.group.full)

    def look(self) -> None:
        """Raise `Over` where a limit is passed."""
        if self.full:
            raise Over("memory")
        files, size = self.held()
        if files > self.limits.files:
            raise Over("output")
        family = relatives(self.root)
        ticks = tasks = 0
        stopped = False
        for pid in family:
            with suppress(OSError, ValueError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))  # its own, and of children it waited for
                tasks += int(fields[17])
                stopped = stopped or (fields[0] == "T" and pid in family[:2])
        if stopped:  # its own worker, by a signal: it would never answer
            raise Over("killed")
        self.lost += max(0, self.latest - ticks)
        self.latest = ticks
        if self.cpu_s > self.runs * (self.limits.cpu_s + 1):
            raise Over("time")
        if tasks > self.limits.processes + OWN_TASKS:
            raise Over("processes")
        most = ((self.limits.memory_mb + OWN_MB) << 20) - size
        if self.memory(family, "status", ("RssAnon", "VmSwap")) > most:
            with suppress(PermissionError):  # then what is shared counts for each
                if self.memory(family, "smaps_rollup", ("Pss_Anon", "SwapPss")) <= most:
                    return
            raise Over("memory")

    @staticmethod
    def memory(family: list[int], name: str, words: tuple[str, str]) -> int:
        """Bytes in address spaces."""
        used = 0
        for pid in family:
            with suppress(FileNotFoundError, ProcessLookupError, ValueError):
                for line in Path(f"/proc/{pid}/{name}").read_text().splitlines():
                    if line.startswith(words):
                        used += int(line.split()[1]) << 10
        return used

    def held(self) -> tuple[int, int]:
        """How many files there are, and the bytes they take."""
        if not self.space:
            return 0, 0
        try:
            found = os.statvfs(self.space)
        except OSError:  # it has just ended
            return 0, 0
        taken = (found.f_blocks - found.f_bfree) * found.f_frsize
        return found.f_files - found.f_ffree, taken


def relatives(root: int) -> list[int]:
    """A process and all that come from it. Orphans are the first one's own children."""
    found, at = [root], 0
    while at < len(found):
        with suppress(OSError):
            for task in os.listdir(f"/proc/{found[at]}/task"):
                text = Path(f"/proc/{found[at]}/task/{task}/children").read_text()
                found += map(int, text.split())
        at += 1
    return found
