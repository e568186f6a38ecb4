"""What the evidence of a stage costs: rollouts of 2,000 tokens, written as a stage writes them, and
read back as the loop, diagnosis, dashboard and export read them.

    python benchmarks/evidence.py [--million] [--speed 20000] [--processes 8] [--json FILE]

Steps of 1,024 rollouts are shared out over the recorders of several training processes, then the
files are compacted and sealed. `--speed` is the tokens per second at which one GPU draws and learns
(20,000: about a model of 8B); the price is CPU time as a share of the time that the stage takes at
that speed. Each reader runs in a process of its own; its CPU time counts, on any number of cores.
It fails if a target is missed.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import Row, Section
from processes import FOLDER, run_json
from synthetic_run import FAILURES, judged
from table import conclude
from write_tasks import peak_mib

COUNTS, MILLION = (10_000, 100_000), 1_000_000
STEP, GROUP, TOKENS = 1_024, 8, 2_000
TASKS = 20_000
"""Different tasks of the stage."""
CHARACTERS = 4 * TOKENS
MOST_SHARE = 0.01
"""Of the time of the stage."""
MOST_S = {"counts by label": 10.0, "SQL over columns": 10.0, "table of the pages": 10.0,
          "one rollout": 1.0}  # fmt: skip
"""CPU seconds to read back, whatever the number of rollouts."""
TIMEOUT_S = 7200


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--million", action="store_true", help="Go on to 1,000,000 (a quarter of an hour)."
    )
    parser.add_argument("--speed", type=float, default=20_000.0, help="Tokens a second, all GPUs.")
    parser.add_argument("--processes", type=int, default=8, help="That train together.")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", choices=["write", *READERS], help="Measure one thing and print.")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--count", type=int)
    arguments = parser.parse_args()
    if arguments.side == "write":
        print(json.dumps(written(arguments.run, arguments.count, arguments.processes)))
        return
    if arguments.side:
        print(json.dumps(measured(READERS[arguments.side], arguments.run)))
        return
    section = Section("evidence")
    for count in (*COUNTS, MILLION) if arguments.million else COUNTS:
        measure(section, count, arguments.processes, arguments.speed)
    conclude(section, "The evidence of a stage, rollouts of 2,000 tokens", arguments.json)


def measure(section: Section, count: int, processes: int, speed: float) -> None:
    """Write a stage and read it back, each in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"

        def side(which: str, *more: str) -> dict[str, Any]:
            command = [sys.executable, str(FOLDER / "evidence.py"), "--side", which]
            print(f"{count:,} rollouts: {which} ...", file=sys.stderr, flush=True)
            return run_json([*command, "--run", str(run), *more], TIMEOUT_S)

        wrote = side("write", "--count", str(count), "--processes", str(processes))
        found = {which: side(which) for which in READERS}
    n = wrote["rollouts"]
    for which in ("counts by label", "SQL over columns", "table of the pages"):
        if found[which]["answer"] != n:
            raise SystemExit(f"{which}: {found[which]['answer']} of {n} rollouts")
    stage_s, cpu_s = n * TOKENS / speed, sum(wrote["cpu_s"].values())
    rows = [
        Row(f"{n:,} rollouts: share of the stage's time", cpu_s / stage_s, "", most=MOST_SHARE),
        *(Row(f"  {what}, CPU", 1e3 * spent / n, "ms/rollout") for what, spent in
          wrote["cpu_s"].items()),
        Row("  longest wait for a step's file", wrote["longest_s"], "s"),
        Row("  size", wrote["bytes"] / n, "bytes/rollout"),
        Row("  files", wrote["files"], ""),
        Row("  peak memory of writing and compacting", wrote["peak_mib"], "MiB"),
        *(Row(f"  {what}, CPU", one["cpu_s"], "s", most=MOST_S.get(what)) for what, one in
          found.items()),
        *(Row(f"  {what}, peak memory", one["peak_mib"], "MiB") for what, one in found.items()),
    ]  # fmt: skip
    section.rows += rows
    section.details[str(n)] = {"write": wrote, **found}
    each = cpu_s / n
    section.notes = [
        f"a million rollouts take {MILLION * TOKENS / speed:,.0f} s at {speed:,.0f} tokens a "
        f"second; recording them {MILLION * each:,.0f} s of one core, "
        f"{100 * each * speed / TOKENS:.2f} %, reckoned from {n:,}.",
        "memory of writing is mostly the texts that are made up here.",
    ]


def written(run: Path, count: int, processes: int) -> dict[str, Any]:
    """Record a stage with the writers of the program, and what that costs."""
    from coevolve.engines.base import Result
    from coevolve.engines.trl.recorder import Recorder, Tried
    from coevolve.harness.harness import Harness
    from coevolve.harness.plan import make_plan
    from coevolve.harness.version import Version
    from coevolve.store.ledger import Ledger
    from coevolve.store.paths import version_place
    from coevolve.store.phases import Grown, Train
    from coevolve.store.shards import compact

    place = run / version_place(0) / "stage"
    steps = -(-count // STEP)
    spent = {"recording": 0.0, "compacting": 0.0, "sealing": 0.0}
    longest = 0.0
    config = make_plan({"name": "synthetic", "versions": 1}, "the benchmark")
    with Ledger.create(run, config.model_dump(mode="json")) as ledger, ledger.writing():
        recorders = [
            Recorder({}, place / "rollouts", "policy", process, "reward")
            for process in range(processes)
        ]
        for step, drawn in enumerate(attempts(steps)):
            share = len(drawn) // processes
            for process, recorder in enumerate(recorders):
                own = slice(process * share, (process + 1) * share)
                groups = [number // GROUP for number in range(STEP)[own]]
                tried = Tried([a for a, _ in drawn[own]], [s for _, s in drawn[own]], groups)
                began, cpu = time.perf_counter(), time.process_time()
                recorder.keep(tried, step)
                spent["recording"] += time.process_time() - cpu
                longest = max(longest, time.perf_counter() - began)
        for recorder in recorders:
            recorder.close()
        lines = ({"step": step + 1, "loss": 0.0, "entropy": 0.2} for step in range(steps))
        (place / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        cpu = time.process_time()
        compact(place / "rollouts")
        spent["compacting"] = time.process_time() - cpu
        cpu = time.process_time()
        version = Version(number=0, generation=0, parent=None, harness=Harness())
        result = Result(policy="policy-0", steps=steps, rollouts=steps * STEP)
        for name, phase in (
            ("version", Grown(version=version, code="")),
            ("train", Train(result=result, cells=())),
            ("gate", judged(0)),
        ):
            ledger.phase(version_place(0), name, partial(phase.model_dump, mode="json"))
        spent["sealing"] = time.process_time() - cpu
    files = list((place / "rollouts").iterdir())
    return {
        "rollouts": steps * (STEP // processes) * processes,
        "cpu_s": spent,
        "longest_s": longest,
        "bytes": sum(file.stat().st_size for file in files),
        "files": len(files),
        "peak_mib": peak_mib(),
    }


def attempts(steps: int) -> Iterator[list[tuple[Any, Any]]]:
    """Answers of 2,000 tokens with their verdicts, step by step, as training has them."""
    from coevolve.core.rollout import Message, Outcome, StopReason
    from coevolve.engines.trl.recorder import Attempt, Scored
    from coevolve.policies.base import Completion, Prompt

    rng = np.random.default_rng(0)
    text = prose(rng)
    scores = [tuple((-rng.random(TOKENS)).tolist()) for _ in range(64)]
    kinds = tasks()
    for step in range(steps):
        found = []
        starts = rng.integers(0, len(text) - CHARACTERS, STEP).tolist()
        luck, failures = rng.random(STEP).tolist(), rng.integers(0, 5, STEP).tolist()
        for number in range(STEP):
            task = kinds[(step * STEP // GROUP + number // GROUP) % len(kinds)]
            if number % GROUP == 0:
                asked = text[starts[number] :][: CHARACTERS // 10]
                messages = (Message.trusted(role="user", content=asked),)
            valid = luck[number] < 0.4
            said = Message.trusted(
                role="assistant", content=text[starts[number] : starts[number] + CHARACTERS]
            )
            reward = 1.0 if valid else 0.0
            outcome = Outcome.trusted(
                valid=valid, optimal=valid and luck[number] < 0.2, reward=reward,
                components={"accuracy": reward, "form": 0.1},
                failure=None if valid else str(FAILURES[failures[number]]),
                details={"expected": number, "found": step},
            )  # fmt: skip
            completion = Completion(
                said.content, StopReason.END, None, scores[number % 64], scores[-number % 64],
                TOKENS // 10, TOKENS, 0.1,
            )  # fmt: skip
            prompt = Prompt(messages, task, number % GROUP)
            attempt = Attempt(prompt, completion, (said,))
            found.append(
                (attempt, Scored(outcome, completion.stop, TOKENS, attempt.messages, reward))
            )
        yield found


def tasks() -> list[Any]:
    """The tasks of the stage, with two labels."""
    from coevolve.core.splits import Split
    from coevolve.core.task import Task

    return [
        Task(id=f"task-{number:06d}", domain="plain", split=Split.TRAIN, seed=number, data={},
             bucket={"size": 3 + number % 6, "agents": 2 + number % 4})
        for number in range(TASKS)
    ]  # fmt: skip


def prose(rng: np.random.Generator) -> str:
    """Words that are drawn as often as words of a language are; it compresses like one."""
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    lengths = rng.integers(2, 10, 30_000)
    words = np.array(["".join(letters[rng.geometric(0.12, n) % 26]) for n in lengths])
    return " ".join(words[rng.zipf(1.25, 6_000_000) % len(words)].tolist())


def measured(work: Callable[[Path], Iterator[Any]], run: Path) -> dict[str, Any]:
    """What a reader answers, and what that costs after it is ready to begin."""
    steps = work(run)
    next(steps)
    began, cpu = time.perf_counter(), cpu_s()
    answer = next(steps)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_s": cpu_s() - cpu,
        "peak_mib": peak_mib(),
        "answer": answer,
    }


def cpu_s() -> float:
    """CPU seconds of this process and of those that it has started and ended."""
    return sum(os.times()[:4])


def read_cells(run: Path) -> Iterator[Any]:
    """As the loop does after training."""
    from coevolve.store.stages import stage_cells

    known = tasks()
    yield
    yield sum(cell.n for cell in stage_cells(run / "versions/00/stage", known))


def read_sql(run: Path) -> Iterator[Any]:
    """As `coevolve diagnose --sql` and engineers do."""
    from coevolve.diagnostics.connection import Bounds, Locked
    from coevolve.diagnostics.views import gather

    yield
    with Locked(gather(run), Bounds(seconds=600.0)) as locked:
        answer = locked.ask(
            "SELECT bucket['size'], failure, count(*), avg(reward), avg(completion_tokens) "
            "FROM rollouts WHERE source = 'train' GROUP BY ALL"
        )
    yield sum(row[2] for row in answer.rows)


def read_suite(run: Path) -> Iterator[Any]:
    """As `coevolve diagnose` does."""
    from coevolve.diagnostics.health import Diagnosis

    yield
    with Diagnosis(run) as diagnosis:
        health = diagnosis.health()
    yield sum(len(finding.readings) for finding in health.findings)


def read_pages(run: Path) -> Iterator[Any]:
    """As the dashboard does at its start."""
    from coevolve.dashboard.web.table import Table

    yield
    table = Table(run)
    table.refresh(())
    yield sum(count.n for count in table.counts())


def read_one(run: Path) -> Iterator[Any]:
    """As the dashboard does for a rollout by its name, once it knows which there are."""
    from coevolve.dashboard.web.filter import Filter, id_of, one
    from coevolve.dashboard.web.table import Table

    table = Table(run)
    table.refresh(())
    columns = table.columns()
    name = id_of(table, columns, len(columns.file) // 2)
    yield
    found = one(table, name, Filter())
    assert found is not None
    yield len(found["messages"][-1]["content"])


def read_export(run: Path) -> Iterator[Any]:
    """As `coevolve export` does."""
    from coevolve.cli.export import write_rollouts

    with tempfile.TemporaryDirectory(dir=run.parent) as name:
        yield
        yield [file.stat().st_size for file in write_rollouts(run, Path(name), "synthetic")]


READERS = {
    "counts by label": read_cells, "SQL over columns": read_sql, "whole suite": read_suite,
    "table of the pages": read_pages, "one rollout": read_one, "export": read_export,
}  # fmt: skip


if __name__ == "__main__":
    main()
