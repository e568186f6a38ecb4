"""A run of any size with made-up rollouts: half of one answer, half of several turns with tools.

Written straight from arrays, in the store's format and the folders of a real run, so that a million
rollouts take a minute. Same seed, same files.
"""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow
from numpy.random import Generator
from pyarrow import parquet

from coevolve.engines.base import Result
from coevolve.evaluation.difference import Difference
from coevolve.harness.harness import Harness
from coevolve.harness.plan import make_plan
from coevolve.harness.version import Moved, Version
from coevolve.store.ledger import Ledger
from coevolve.store.paths import version_place
from coevolve.store.phases import Beside, Best, Gate, Grown, Scores, Train
from coevolve.store.rollouts import SCHEMA

VERSIONS = 10
GROUP = 8
STEPS = 20
"""Optimiser steps of a version, each with a file."""
TEXTS = 50_000
FAILURES = np.array(["parse", "hole", "conflict", "goal", "bounds"])


def write_run(folder: Path, count: int, seed: int = 0) -> int:
    """Make a run with about `count` rollouts; returns how many there are."""
    rng = np.random.default_rng(seed)
    pool = pyarrow.array(
        [" ".join(map(str, row)) for row in rng.integers(0, 99, (TEXTS, 24)).tolist()]
    )
    plan = make_plan({"name": "synthetic", "versions": VERSIONS}, "the benchmark")
    ledger = Ledger.create(folder, plan.model_dump(mode="json"))
    written = 0
    per_step = max(GROUP, count * 9 // 10 // VERSIONS // STEPS // GROUP * GROUP)
    with ledger, ledger.writing():
        for version in range(VERSIONS):
            place = folder / version_place(version)
            for step in range(STEPS):
                table = rollouts(rng, pool, per_step, version, "train", step)
                write(table, place / "stage" / "rollouts" / f"step-{step:06d}-0.parquet")
                written += per_step
            dev = count // 10 // VERSIONS
            write(
                rollouts(rng, pool, dev, version, "dev", -1), place / "dev" / "part-00000.parquet"
            )
            written += dev
            lines = [
                {
                    "step": step + 1,
                    "loss": float(loss),
                    "grad_norm": abs(float(loss)),
                    "entropy": 0.2,
                }
                for step, loss in enumerate(rng.normal(0, 0.01, STEPS) * (rng.random(STEPS) < 0.7))
            ]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (place / "stage" / "steps.jsonl").write_text(text)
            parent = version - 1 if version else None
            made = Version(number=version, generation=version, parent=parent, harness=Harness())
            result = Result(policy=f"policy-{version}", steps=STEPS, rollouts=per_step * STEPS)
            for name, phase in (
                ("version", Grown(version=made, code="")),
                ("train", Train(result=result, cells=())),
                ("gate", judged(version)),
            ):
                ledger.phase(version_place(version), name, partial(phase.model_dump, mode="json"))
    return written


def judged(version: int) -> Gate:
    """A made-up verdict."""
    change = Difference(mean=0.0, low=-0.1, high=0.1, p=1.0, n=100)
    return Gate(
        verdict="reverted" if version % 3 == 2 else "kept",
        words="made up",
        scores=Scores(n=100, valid=50, optimal=40, reward=50.0),
        against=version - 1 if version else None,
        change=change,
        moved=Moved(metric="valid", before=0.5, after=0.5),
        base=Beside(better=False, words="made up", change=change),
        best=Best(version=None, words="made up"),
    )


def write(table: pyarrow.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, path, compression="zstd")


def rollouts(
    rng: Generator, pool: pyarrow.Array, n: int, version: int, split: str, step: int
) -> pyarrow.Table:
    """One file: tasks of one answer first, tasks of several turns after them."""
    training = split == "train"
    task = np.arange(n) // (GROUP if training else 1)
    tools = task >= task.max() / 2
    skill = rng.random(task.max() + 1)[task]
    valid = rng.random(n) < 0.15 + 0.05 * version + 0.3 * (skill > 0.6) + 0.3 * (skill > 0.9)
    optimal = valid & (rng.random(n) < 0.6)
    reward = np.where(optimal, 1.0, np.where(valid, 0.3 + 0.1 * rng.integers(0, 6, n), 0.0))
    turns = np.where(tools, rng.integers(4, 11, n), 1)
    names = np.char.add(f"task-{split}-{version}-{max(step, 0)}-", task.astype(str))
    stop = np.where(rng.random(n) < 0.05, "length", "end")
    columns = {
        "task_id": pyarrow.array(names),
        "domain": pyarrow.array(np.where(tools, "tools", "plain")),
        "split": pyarrow.array(np.full(n, split)),
        "policy": pyarrow.array(np.full(n, f"policy-{version}")),
        "step": pyarrow.array(np.full(n, step, np.int32)),
        "group": pyarrow.array(np.char.add(f"{step}/", names) if training else np.full(n, "")),
        "sample": pyarrow.array((np.arange(n) % GROUP if training else np.zeros(n)).astype("i4")),
        "bucket": maps(["size", "agents"], [rng.integers(3, 9, n).astype(str), np.full(n, "2")]),
        "messages": messages(rng, pool, turns, tools),
        "reward": pyarrow.array(reward),
        "shaped": pyarrow.array(reward, mask=np.full(n, not training)),
        "components": maps(["accuracy", "bonus"], [reward * 0.8, np.full(n, 0.2)]),
        "valid": pyarrow.array(valid),
        "optimal": pyarrow.array(optimal),
        "failure": pyarrow.array(FAILURES[rng.integers(0, 5, n)], mask=valid),
        "details": details(rng, turns, tools),
        "stop": pyarrow.array(stop),
        "prompt_tokens": pyarrow.array(rng.integers(50, 200, n).astype("i4")),
        "completion_tokens": pyarrow.array((turns * rng.integers(10, 60, n)).astype("i4")),
        "mean_logprob": pyarrow.array((-rng.random(n) * 0.5).astype("f4")),
        "min_logprob": pyarrow.array((-rng.random(n) * 5).astype("f4")),
        "entropy": pyarrow.array((rng.random(n) * 0.4).astype("f4")),
        "seconds": pyarrow.array(rng.random(n).astype("f4")),
    }
    arrays = [columns[field.name].cast(field.type) for field in SCHEMA]
    return pyarrow.Table.from_arrays(arrays, schema=SCHEMA)


def messages(
    rng: Generator, pool: pyarrow.Array, turns: np.ndarray, tools: np.ndarray
) -> pyarrow.ListArray:
    """A prompt, then the policy and, with tools, their replies in turn."""
    lengths = 1 + np.where(tools, 2 * turns, turns)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    roles = pyarrow.array(["user", "assistant", "tool"])
    which = np.where(place == 0, 0, np.where(place % 2 == 1, 1, 2))
    # Few texts for a task, so that answers repeat within groups and turns within rollouts.
    base = np.repeat(rng.integers(0, TEXTS - 40, len(turns) // GROUP + 1), GROUP)[: len(turns)]
    text = np.repeat(base, lengths) + rng.integers(0, 40, offsets[-1])
    struct = pyarrow.StructArray.from_arrays(
        [roles.take(pyarrow.array(which)), pool.take(pyarrow.array(text))], ["role", "content"]
    )
    return pyarrow.ListArray.from_arrays(pyarrow.array(offsets), struct)


def details(rng: Generator, turns: np.ndarray, tools: np.ndarray) -> pyarrow.Array:
    """What the domain of several turns tells about its rollouts, as JSON."""
    kinds = ["read", "edit", "test"]
    draws = rng.integers(0, 3, (len(turns), 10)).tolist()
    good = (rng.random((len(turns), 10)) < 0.9).tolist()
    texts = []
    for count, agentic, chosen, worked in zip(
        turns.tolist(), tools.tolist(), draws, good, strict=True
    ):
        if not agentic:
            texts.append('{"cost": 4}')
            continue
        calls = [
            {"tool": kinds[k], "ok": ok}
            for k, ok in zip(chosen[:count], worked[:count], strict=True)
        ]
        edits = [index for index, k in enumerate(chosen[:count]) if k == 1]
        texts.append(
            json.dumps(
                {
                    "calls": calls,
                    "files": [f"source/{chosen[index]}{index % 3}.py" for index in edits],
                    "tests_run": chosen[:count].count(2),
                    "tests_changed": False,
                    "first_edit": edits[0] if edits else None,
                    "history_read": chosen[0] == 0 and chosen[1] == 0 and chosen[2] == 0,
                }
            )
        )
    return pyarrow.array(texts)


def maps(names: list[str], values: list[np.ndarray]) -> pyarrow.MapArray:
    """The same keys for every row."""
    n = len(values[0])
    offsets = pyarrow.array(np.arange(n + 1) * len(names), pyarrow.int32())
    return pyarrow.MapArray.from_arrays(
        offsets, pyarrow.array(names * n), pyarrow.array(np.stack(values, 1).ravel())
    )
