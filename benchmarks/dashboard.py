"""Every page of the dashboard under load: 200 versions, 1,000,000 rollouts, 20 clients.

    python benchmarks/dashboard.py [--rollouts 1000000] [--seconds 60] [--json FILE]

The server and its clients share two cores. Clients ask for pages at random, without a pause; half
of what they ask about rollouts was never asked before. It fails if the median of a page is over
300 ms, a request fails, or the server's memory grows.
"""

import argparse
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from synthetic_run import FAILURES, GROUP, TEXTS, rollouts, write

from coevolve.engines.base import Result
from coevolve.evaluation.difference import Difference
from coevolve.harness.backtest import Backtest, Measure
from coevolve.harness.budget import Spent
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch, patched
from coevolve.harness.plan import make_plan
from coevolve.harness.proposal import Proposal
from coevolve.harness.version import Moved, Verdict, Version
from coevolve.store.cells import Cell
from coevolve.store.ledger import Ledger
from coevolve.store.paths import RUN, generation_place, version_place
from coevolve.store.phases import (
    Beside,
    Best,
    Dev,
    Diagnose,
    Gate,
    Grown,
    Learn,
    Phase,
    Propose,
    Scores,
    Tests,
    Train,
    Tried,
)

CORES, CLIENTS, VERSIONS, STEPS = 2, 20, 200, 20
DEV, GATE = 300, 200
MOST_MS, MOST_GROWTH = 300.0, 1.15
READY_S = 300
NAME = "large"


class Asked(NamedTuple):
    """One request."""

    page: str
    at: float
    ms: float
    status: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="Make the run there, or take the one that is.")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory() as temporary:
        root = arguments.keep or Path(temporary)
        if not (root / NAME).is_dir():
            written = write_large(root / NAME, arguments.rollouts)
            print(f"{written:,} rollouts of {VERSIONS} versions written", flush=True)
        command = [sys.executable, "-m", "coevolve", "serve", str(root), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                passed = measure(server, arguments.seconds, arguments.json)
            finally:
                server.terminate()
    if not passed:
        sys.exit(1)


def write_large(folder: Path, count: int) -> int:
    """A tree in which each version grows from the last but a few, with all that a run leaves."""
    rng = np.random.default_rng(0)
    pool = pyarrow.array([" ".join(map(str, row)) for row in rng.integers(0, 99, (TEXTS, 24))])
    each = max(GROUP, (count // VERSIONS - DEV - GATE) // STEPS // GROUP * GROUP)
    config = {"name": NAME, "versions": VERSIONS, "start_from": "base", "accept": "better",
              "factors": ["all"], "engineers": ["rules"]}  # fmt: skip
    plan = make_plan(config, "the benchmark")
    written = 0
    with Ledger.create(folder, plan.model_dump(mode="json")) as ledger, ledger.writing():

        def record(place: str, name: str, phase: Phase) -> None:
            ledger.phase(place, name, lambda: phase.model_dump(mode="json"))

        write(rollouts(rng, pool, GATE, 0, "gate", -1), folder / "base" / "gate" / "p.parquet")
        scores = Scores(n=GATE, valid=GATE // 3, optimal=GATE // 5, reward=GATE / 3)
        record(RUN, "base", scores)
        harness, last = Harness(), None
        for number in range(VERSIONS):
            place = folder / version_place(number)
            for step in range(STEPS):
                table = rollouts(rng, pool, each, number % 10, "train", step)
                write(table, place / "stage" / "rollouts" / f"step-{step:06d}-0.parquet")
            for split, n in (("dev", DEV), ("gate", GATE)):
                write(rollouts(rng, pool, n, number % 10, split, -1), place / split / "p.parquet")
            written += each * STEPS + DEV + GATE
            lines = [
                {"step": s + 1, "reward": 0.3 + 0.001 * number, "valid": 0.4, "dead": 0.2,
                 "entropy": 0.3, "tokens": 900.0 * (s + 1), "seconds": 0.7}
                for s in range(STEPS)
            ]  # fmt: skip
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (place / "stage" / "steps.jsonl").write_text(text)
            patch = Patch(factor="recipe.temperature", value=0.5 + 0.002 * number, author="rules",
                          hypothesis="cooler is better, because less is random")  # fmt: skip
            version = Version(number=number, generation=number, parent=last, patch=patch,
                              harness=patched(harness, patch), author="rules")  # fmt: skip
            kept = number % 3 == 0
            for at, name, phase in phases_of(version, each, kept, scores):
                record(at, name, phase)
            if kept:
                harness, last = version.harness, number
        ledger.note("done")
    return written


def phases_of(
    version: Version, each: int, kept: bool, scores: Scores
) -> Iterator[tuple[str, str, Phase]]:
    """All that is recorded of a version and its generation."""
    place = generation_place(version.generation)
    patch = version.patch
    assert patch is not None
    tested = Backtest(passed=True, words="as predicted", prediction="up",
                      measures={"dead_after": Measure(value=0.2, n=64)})  # fmt: skip
    if version.generation:
        said = Proposal(patch=patch, words=patch.hypothesis, shown="what it was shown " * 200)
        tried = Tried(author="rules", patch=patch, backtest=tested)
        yield place, "diagnose", Diagnose(parent=version.parent, failures=0)
        yield place, "propose", Propose(proposals={"rules": (said,)})
        yield place, "backtest", Tests(words="taken: rules", tried=(tried,))
    cells = tuple(
        Cell(labels={"size": size, "agents": 2}, n=50, valid=20, optimal=9, reward=21.0,
             failures={str(name): 6 for name in FAILURES})
        for size in range(3, 9)
    )  # fmt: skip
    change = Difference(mean=0.01, low=-0.02, high=0.04, p=0.4, n=GATE)
    result = Result(policy=f"p{version.number}", steps=STEPS, rollouts=each * STEPS, tokens=18_000,
                    seconds=14.0)  # fmt: skip
    spent = Spent(rollouts=each * STEPS, tokens=18_000, seconds=14.0)
    verdict: Verdict = "kept" if kept else "reverted"
    own = version_place(version.number)
    yield own, "version", Grown(version=version, code="")
    yield own, "train", Train(result=result, cells=cells, spent=spent)
    yield own, "dev", Dev(cells=cells, cases=())
    yield own, "gate", Gate(
        verdict=verdict, words=verdict, scores=scores, against=version.parent, change=change,
        moved=Moved(metric="valid", before=0.3, after=0.31),
        base=Beside(better=kept, words=verdict, change=change),
        best=Best(version=0, words="version 0 is better than no training"),
    )  # fmt: skip
    if version.generation:
        yield place, "learn", Learn()


def addresses(rng: random.Random) -> tuple[str, str]:
    """A page by its name, and an address of it."""
    run, version = f"/runs/{NAME}", rng.randrange(VERSIONS)
    failure, size = rng.choice(FAILURES), rng.randrange(3, 9)
    least = f"{rng.random():.6f}" if rng.random() < 0.5 else "0.5"
    file = f"{version_place(version)}/stage/rollouts/step-{rng.randrange(STEPS):06d}-0"
    return rng.choice(
        [
            ("runs", "/"), ("overview", run), ("changes", f"{run}/changes"),
            ("change", f"{run}/changes/{version}"),
            ("diagnostics", f"{run}/diagnostics"),
            ("diagnostics, earlier", f"{run}/diagnostics?until={version}"),
            ("rollouts", f"{run}/rollouts"),
            ("rollouts, one version", f"{run}/rollouts?version={version}&least={least}"),
            ("rollouts, all versions",
             f"{run}/rollouts?failure={failure}&label.size={size}&most={least}"),
            ("rollout", f"{run}/rollouts/{file}/{rng.randrange(100)}"),
            ("ledger", f"{run}/ledger"), ("ledger, search", f"{run}/ledger?search=p{version}"),
            ("event", f"{run}/ledger/{rng.randrange(1, 1500)}"), ("compare", "/compare"),
            ("skills", "/skills"), ("overview, JSON", f"{run}?format=json"),
        ]
    )  # fmt: skip


def measure(server: "subprocess.Popen[str]", seconds: float, output: Path | None) -> bool:
    assert server.stdout is not None
    found = re.search(r"127\.0\.0\.1:(\d+)", server.stdout.readline())
    assert found
    port = int(found.group(1))
    began = time.perf_counter()
    for path in (f"/runs/{NAME}", f"/runs/{NAME}/rollouts", f"/runs/{NAME}/diagnostics"):
        ready(port, path)
    cold_s = time.perf_counter() - began
    ask_for(port, 5.0, [])  # what is asked often is now kept
    asked: list[Asked] = []
    memory: list[float] = []
    stop = threading.Event()
    watcher = threading.Thread(target=watch, args=(server.pid, memory, stop))
    watcher.start()
    ask_for(port, seconds, asked)
    stop.set()
    watcher.join()
    return report(asked, memory, cold_s, seconds, output)


def ready(port: int, path: str) -> None:
    """Ask until a page shows what it is about."""
    for _ in range(READY_S):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=READY_S)
        connection.request("GET", path)
        if b"spinner" not in connection.getresponse().read():
            return
        time.sleep(1.0)
    raise SystemExit(f"{path} was not ready within {READY_S} s")


def ask_for(port: int, seconds: float, asked: list[Asked]) -> None:
    """All clients at once, each without a pause."""
    end = time.perf_counter() + seconds

    def client(number: int) -> None:
        rng = random.Random(f"{number} {seconds}")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while time.perf_counter() < end:
            page, path = addresses(rng)
            start = time.perf_counter()
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except OSError:
                connection.close()
                status = 0
            took = 1000 * (time.perf_counter() - start)
            asked.append(Asked(page, start, took, status))

    clients = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()


def watch(process: int, memory: list[float], stop: threading.Event) -> None:
    """Resident memory of the server in MiB, twice a second."""
    while not stop.wait(0.5):
        status = Path(f"/proc/{process}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        memory += [int(found.group(1)) / 1024] if found else []


def report(
    asked: list[Asked], memory: list[float], cold_s: float, seconds: float, output: Path | None
) -> bool:
    pages: dict[str, list[float]] = {}
    for one in asked:
        pages.setdefault(one.page, []).append(one.ms)
    failed = [one for one in asked if one.status != 200]
    print(f"{'page':26}{'n':>7}{'median ms':>11}{'95 % ms':>10}")
    rows: list[dict[str, Any]] = []
    for page, times in sorted(pages.items()):
        median, high = statistics.median(times), sorted(times)[int(0.95 * len(times))]
        rows.append({"page": page, "n": len(times), "median_ms": median, "p95_ms": high})
        print(f"{page:26}{len(times):>7,}{median:>11.0f}{high:>10.0f}")
    third = max(1, len(memory) // 3)
    growth = statistics.median(memory[-third:]) / statistics.median(memory[:third])
    print(
        f"{len(asked):,} requests of {CLIENTS} clients in {seconds:.0f} s "
        f"({len(asked) / seconds:.0f} a second), {len(failed)} failed; memory "
        f"{max(memory):.0f} MiB at most, last third / first third {growth:.3f}; "
        f"first answers after {cold_s:.0f} s"
    )
    if output:
        facts = {"pages": rows, "failed": len(failed), "peak_mib": max(memory), "growth": growth,
                 "cold_s": cold_s, "requests": len(asked), "seconds": seconds}  # fmt: skip
        output.write_text(json.dumps(facts, indent=1))
    slow = [row["page"] for row in rows if row["median_ms"] > MOST_MS]
    for words, wrong in (
        ("over 300 ms", slow),
        ("failed", [f"{o.page} {o.status}" for o in failed[:5]]),
    ):
        if wrong:
            print(f"{words}: {', '.join(wrong)}")
    return not slow and not failed and growth < MOST_GROWTH


if __name__ == "__main__":
    main()
