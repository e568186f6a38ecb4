"""Runs that everything happens to, beside twins that nothing happens to: both decide the same.

A run is killed at random moments and goes on, its disk fills up, one engineer fails a third of the
time, another one is hostile. Its twin has the same plan and seed, the same engineers, and a quiet
life. When both are done, all that was recorded by content is compared: proposals, what was tried
and refused, verdicts, weights. Nothing that was ever recorded may be gone.

The exit code is 1 if a decision differs, an event is lost, `coevolve fsck` finds a fault, or a run
ends in any other way than it should.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engineer_server import FAULTS, STORMY, Engineers, engineers
from rich import box
from rich.console import Console
from rich.table import Table

from coevolve.core.errors import CoevolveError
from coevolve.store.ledger import Ledger

FULL_S = 300.0
"""A run on a full disk has to notice within this time."""
LONGEST_S = 1_800.0
"""A twin takes no longer."""
FILLINGS = 2
TIMES = ("spent", "seconds", "drawing_s")
"""Members of a record that are about time, and decide nothing."""
BAD = ("bad-nan", "bad-huge", "bad-missing", "bad-code", "bad-injected", "bad-empty", "bad-largest")
SMALL = '{ "size3.data_ratio" = 0.5, "size4.data_ratio" = 0.5, "agents2.share" = 1.0 }'
PLAN = f"""
seed = SEED
engineers = ENGINEERS
versions = 3
patience_s = PATIENCE
knobs = {SMALL}
[recipe]
steps = 2
tasks = 2
group = 4
max_tokens = 64
[target]
dev = 12
gate = 16
max_tokens = 64
knobs = {SMALL}
[backtest]
tasks = 4
samples = 2
confidence = 0.5
"""
ROUNDS = 'name = "rounds"\nexplore = 4\n' + PLAN
TREE = (
    'name = "tree"\nfactors = ["all"]\nstart_from = "base"\naccept = "higher"\nwidth = 2\n'
    "learn = true\n" + PLAN + "[gate]\nrepeats = 1\ntwins = 0\n"
)


@dataclass
class Found:
    """What a soak adds up to."""

    runs: int = 0
    kills: int = 0
    fillings: int = 0
    patches: int = 0
    """Patches that were trained."""
    versions: int = 0
    differing: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """What ended in another way than it should, and what `fsck` says."""

    @property
    def good(self) -> bool:
        return not (self.differing or self.lost or self.broken)


@dataclass
class Disk:
    """Where stormy runs lie, and how it is made full: a file system of its own where one can be
    mounted, else a limit on the size of all files that the process writes."""

    place: Path
    mounted: bool = False

    @contextmanager
    def full(self, process: int) -> Iterator[None]:
        if not self.mounted:
            none = (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
            resource.prlimit(process, resource.RLIMIT_FSIZE, none)
            yield
            return
        filler = self.place / "filler"
        try:
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                for size in (1 << 20, 1 << 12, 1):
                    with suppress(OSError):
                        while True:
                            file.write(b"x" * size)
            yield
        finally:
            filler.unlink(missing_ok=True)


@contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(folder)]
    try:
        mounted = not subprocess.run(command, capture_output=True, check=False).returncode
    except OSError:
        mounted = False
    try:
        yield Disk(folder, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


class Attempt:
    """One process that goes on with a run."""

    def __init__(self, plan: Path, folder: Path, key: str, resume: bool) -> None:
        words = ["resume", folder] if resume else ["run", plan, "-o", folder]
        self.said = plan.with_name(f"{key}.said")  # not on a disk that may be full
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "coevolve", *map(str, words), "--json"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
                env={**os.environ, "COEVOLVE_API_KEY": key}, start_new_session=True,
            )  # fmt: skip

    def ended(self, seconds: float) -> int | None:
        """Its exit code, None if it still works after so many seconds."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> int:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()

    @property
    def words(self) -> str:
        return self.said.read_text("utf-8", "replace")

    @property
    def one_line(self) -> bool:
        """Whether it ended with a line that says what was wrong."""
        lines = self.words.splitlines()
        return bool(lines) and lines[-1].startswith("error: ") and "Traceback" not in self.words


def decisions(folder: Path) -> dict[str, Any]:
    """All that was recorded of a run by content, phase by phase."""
    with Ledger.open(folder, read_only=True) as ledger:
        found = {
            f"{one.place}/{one.phase}": timeless(one.payload) for one in ledger.events("phase")
        }
        last = ledger.last()
        return {**found, "the end": {"kind": last.kind, **timeless(last.payload)}}


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: timeless(one) for name, one in value.items() if name not in TIMES}
    return [timeless(one) for one in value] if isinstance(value, list) else value


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two values differ, each place with both of them."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted({*one, *other})
        found = [differences(one.get(n), other.get(n), f"{where}/{n}") for n in names]
        return [place for places in found for place in places]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        every = enumerate(zip(one, other, strict=True))
        return [place for n, (a, b) in every for place in differences(a, b, f"{where}/{n}")]
    return [] if one == other else [f"{where}: {one!r:.300} and {other!r:.300}"]


def events(folder: Path) -> dict[int, tuple[str, str | None, str | None, str]]:
    """What is recorded, by number; nothing where no record was begun."""
    try:
        with Ledger.open(folder, broken=True, read_only=True) as ledger:
            return {
                one.number: (one.kind, one.place, one.phase, one.time)
                for one in ledger.salvage()[0]
            }
    except CoevolveError:
        return {}


def lost(folder: Path, before: dict[int, Any], now: dict[int, Any]) -> list[str]:
    """Events that were there, and are not any more, or are others."""
    return [f"{folder}: event {n} {before[n]}" for n in before if now.get(n) != before[n]]


@dataclass
class Storm:
    """What happens to runs, until when."""

    disk: Disk
    draw: random.Random
    mean_s: float
    """Between two kills."""
    fill_at: list[float]
    """When the disk is full next, by the clock."""
    found: Found
    say: Callable[[str], None]

    def blow(self, plan: Path, folder: Path) -> bool:
        """See a run through to its end; whether it came there."""
        known: dict[int, Any] = {}
        patience = 1.0
        while True:
            resume = (folder / "ledger.db").exists() and self.draw.random() < 0.5
            attempt = Attempt(plan, folder, STORMY, resume and bool(known))
            try:
                code = attempt.ended(self.draw.expovariate(1 / (self.mean_s * patience)))
                full = code is None and self.fill_at and time.monotonic() > self.fill_at[0]
                if full and not self.fill(attempt):
                    return False
            finally:
                attempt.kill()
            if code is None:
                self.found.kills += not full
            elif code:
                self.found.broken.append(f"{folder}: exit code {code}: {attempt.words[-1_500:]}")
                return False
            now = events(folder)
            gone = lost(folder, known, now)
            self.found.lost += gone
            # What does not get anywhere is given more time.
            patience = 1.0 if phases(now) > phases(known) else patience * 1.5
            known = now
            if code == 0 or gone:
                return not gone

    def fill(self, attempt: Attempt) -> bool:
        """Let the disk be full until the run has noticed; whether it said so as it should."""
        with self.disk.full(attempt.process.pid):
            code = attempt.ended(FULL_S)
        if code is None:
            self.found.broken.append(f"a full disk is not noticed: {attempt.words[-1_500:]}")
            return False
        if code == 0:  # it had nothing left to write
            return True
        self.fill_at.pop(0)
        self.found.fillings += 1
        self.say(f"the disk was full: {attempt.words.splitlines()[-1:]}")
        if code != 2 or not attempt.one_line:
            self.found.broken.append(f"on a full disk, code {code}: {attempt.words[-3_000:]}")
            return False
        return True


def phases(known: dict[int, Any]) -> int:
    return sum(one[0] == "phase" for one in known.values())


def calm(twin: Attempt, found: Found) -> None:
    """Wait for a twin, which nothing should have happened to."""
    if (code := twin.ended(LONGEST_S)) != 0:
        found.broken.append(f"a calm run ended with {code}: {twin.words[-1_500:]}")


def plan_of(number: int, seed: int, address: str, patience_s: float) -> str:
    """Rounds and trees in turns, each with another bad engineer."""
    tree = number % 2 == 1
    names = [f"{address}#steady", f"{address}#hostile"]
    names += ["rules"] if tree else [BAD[number // 2 % len(BAD)], "frontier"]
    text = (TREE if tree else ROUNDS).replace("ENGINEERS", json.dumps(names))
    return text.replace("SEED", str(seed * 1_000 + number)).replace("PATIENCE", f"{patience_s:g}")


def checked(folder: Path) -> str:
    """What `coevolve fsck` says of a run, nothing if it is whole."""
    command = [sys.executable, "-m", "coevolve", "fsck", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"fsck {folder}: {(done.stdout + done.stderr)[-1_000:]}"


def pair(number: int, root: Path, storm: Storm, text: str) -> bool:
    """One run and its twin; whether both came to the same end."""
    found, disturbed = storm.found, storm.disk.place / f"{number:03d}" / "run"
    twin = root / f"{number:03d}" / "run"
    for folder in (disturbed, twin):
        folder.parent.mkdir()
    plan = twin.with_name("plan.toml")
    plan.write_text(text)
    beside = Attempt(plan, twin, "calm", False)
    try:
        there = storm.blow(plan, disturbed)
        calm(beside, found)
    finally:
        beside.kill()
    if not there or found.broken:
        return False
    found.broken += [said for folder in (disturbed, twin) if (said := checked(folder))]
    both = decisions(twin), decisions(disturbed)
    found.differing += [f"run {number}{place}" for place in differences(*both)]
    found.runs += 1
    trained = [value["version"] for name, value in both[0].items() if name.endswith("/version")]
    found.versions += len(trained)
    found.patches += sum(one["patch"] is not None for one in trained)
    if not found.good:  # to be looked at, when the disk of the other one is gone
        shutil.copytree(disturbed, twin.with_name(STORMY))
        return False
    for folder in (disturbed.parent, twin.parent):
        shutil.rmtree(folder)
    return True


def soak(minutes: float, seed: int, root: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Pairs of runs until the time is over, or one of them is not as it should be."""
    began = time.monotonic()
    seconds = 60 * minutes
    mean_s = min(60.0, max(10.0, seconds / 40))
    fill_at = [began + seconds * (n + 1) / (FILLINGS + 1) for n in range(FILLINGS)]
    found, long = Found(), minutes >= 10
    with (
        engineers(seed, hang_s=min(3.0, mean_s / 10), endless=long) as server,
        disk(root / "disk") as place,
    ):
        kind = "a file system of its own" if place.mounted else "a limit on files"
        say(f"a kill every {mean_s:g} s or so; the disk is {kind}")
        storm = Storm(place, random.Random(seed), mean_s, fill_at, found, say)
        number = 0
        while True:
            text = plan_of(number, seed, server.address, 60.0)
            good = pair(number, root, storm, text)
            number += 1
            now = time.monotonic() - began
            say(f"{now / 60:.1f} min: {found.runs} runs, {told(found, server)}")
            if not good or (now > seconds and found.fillings >= FILLINGS):
                break
        return facts(found, server, (time.monotonic() - began) / 60)


def told(found: Found, server: Engineers) -> str:
    return (
        f"{found.kills} kills, {server.faults.total()} faults of {server.answers} answers, "
        f"{found.fillings} full disks, {len(found.differing)} differ, {len(found.lost)} lost"
    )


def facts(found: Found, server: Engineers, minutes: float) -> dict[str, Any]:
    return {
        "minutes": minutes,
        "runs": found.runs,
        "versions": found.versions,
        "patches": found.patches,
        "kills": found.kills,
        "answers": server.answers,
        "faults": {kind: server.faults[kind] for kind in FAULTS},
        "hostile": dict(sorted(server.hostile.items())),
        "fillings": found.fillings,
        "differing": found.differing,
        "lost": found.lost,
        "broken": found.broken,
    }


def print_table(found: dict[str, Any]) -> None:
    table = Table("what", "", title="Runs in a storm, beside calm twins", box=box.SIMPLE_HEAD)
    table.columns[1].justify = "right"
    for name in ("runs", "versions", "patches", "kills", "fillings"):
        table.add_row({"patches": "patches trained", "fillings": "full disks"}.get(name, name),
                      str(found[name]))  # fmt: skip
    table.add_row("answers of the steady engineer", str(found["answers"]))
    for title, name in (("fault", "faults"), ("hostile", "hostile")):
        for kind, count in found[name].items():
            table.add_row(f"{title}: {kind}", str(count))
    for title, name in (("differing decisions", "differing"), ("lost events", "lost"),
                        ("other faults", "broken")):  # fmt: skip
        table.add_row(title, str(len(found[name])))
    Console(width=100, highlight=False).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="File for all facts.")
    parser.add_argument("--keep", type=Path, help="Folder for the runs; what differs stays there.")
    given = parser.parse_args()

    def say(line: str) -> None:
        print(line, flush=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started here ends here
    with tempfile.TemporaryDirectory(prefix="soak-") as made:
        root = given.keep or Path(made)
        root.mkdir(parents=True, exist_ok=True)
        found = soak(given.minutes, given.seed, root.resolve(), say)
    print_table(found)
    for line in (*found["differing"], *found["lost"], *found["broken"]):
        say(line)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    if found["differing"] or found["lost"] or found["broken"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
