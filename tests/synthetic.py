"""Runs made by hand, for tests of evidence: random rollouts in the folders of a real run."""

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.core.rollout import Message, Outcome, Rollout, StopReason
from coevolve.core.splits import Split
from coevolve.engines.base import Result
from coevolve.evaluation.difference import Difference
from coevolve.harness.harness import Harness
from coevolve.harness.plan import make_plan
from coevolve.harness.version import Moved, Verdict, Version
from coevolve.store.ledger import Ledger
from coevolve.store.paths import version_place
from coevolve.store.phases import Beside, Best, Gate, Grown, Phase, Scores, Train
from coevolve.store.rollouts import write

WORDS = ("up", "down", "left", "right", "wait")
TOOLS = ("read", "edit", "test")


class Kept(NamedTuple):
    """A rollout and where it is kept."""

    version: int
    source: str
    rollout: Rollout


class Made(NamedTuple):
    """A run and all that is in it."""

    folder: Path
    kept: list[Kept]
    parents: dict[int, int | None]
    losses: dict[int, list[float]]


def rollout(rng: random.Random, task: str, **changes: Any) -> Rollout:
    """A random attempt at a task: of one answer, or of several turns with tools."""
    tools = changes.pop("tools", False)
    valid = rng.random() < 0.5
    turns = rng.randint(2, 6) if tools else 1
    messages = [Message(role="system", content="play"), Message(role="user", content=f"do {task}")]
    for _ in range(turns):
        messages.append(Message(role="assistant", content=rng.choice(WORDS)))
        if tools:
            messages.append(Message(role="tool", content="done"))
    reward = rng.choice((0.5, 0.75, 1.0)) if valid else rng.choice((0.0, 0.0, 0.0, 0.6))
    known = rng.random() < 0.8
    fields: dict[str, Any] = {
        "task_id": task, "domain": "tools" if tools else "plain", "split": Split.TRAIN,
        "bucket": {"size": rng.randint(3, 5)}, "messages": tuple(messages),
        "stop": rng.choices(list(StopReason), (8, 1, 1, 1))[0], "sample": 0, "policy": "p",
        "completion_tokens": rng.randint(1, 40) * turns, "prompt_tokens": 9,
        "mean_logprob": -rng.random() if known else None,
        "entropy": rng.random() if known else None,
        "outcome": Outcome(
            valid=valid, optimal=valid and rng.random() < 0.5, reward=reward,
            components={"accuracy": reward, "bonus": rng.choice((0.0, 0.2, 0.2))},
            failure=None if valid else rng.choice(("parse", "hole", "goal")),
            details=details(rng, turns) if tools else {"cost": 3},
        ),
    }  # fmt: skip
    return Rollout(**{**fields, **changes})


def details(rng: random.Random, turns: int) -> dict[str, Any]:
    """What a domain with tools tells; now and then it leaves something out."""
    calls = [{"tool": rng.choice(TOOLS), "ok": rng.random() < 0.8} for _ in range(turns)]
    edits = [index for index, call in enumerate(calls) if call["tool"] == "edit"]
    found = {
        "calls": calls,
        "files": [rng.choice(("a.py", "b.py", "c.py")) for _ in edits],
        "tests_run": sum(call["tool"] == "test" for call in calls),
        "tests_changed": rng.random() < 0.1,
        "first_edit": edits[0] if edits else None,
        "history_read": rng.random() < 0.1,
    }
    if rng.random() < 0.1:
        found.pop(rng.choice(list(found)))
    return found


def make_run(
    folder: Path, seed: int = 0, versions: int = 4, steps: int = 5, tasks: int = 4, dev: int = 30
) -> Made:
    """A run with random rollouts in train, dev, probe and gate."""
    rng = random.Random(seed)
    made = Made(folder, [], {}, {})
    plan = make_plan({"name": "made", "versions": max(1, versions)}, "test")
    with Ledger.create(folder, plan.model_dump(mode="json")) as ledger, ledger.writing():
        parent: int | None = None
        for version in range(versions):
            made.parents[version] = parent
            place = folder / version_place(version)
            for step in range(steps):
                names = [f"t{version}-{step if task != 1 else 0}-{task}" for task in range(tasks)]
                drawn = [  # the second task comes again at each step
                    rollout(
                        rng, name, tools=task % 2 == 1, step=step,
                        sample=sample, group=f"{step}/{name}",
                    )
                    for task, name in enumerate(names)
                    for sample in range(rng.choice((1, 3, 4)))
                ]  # fmt: skip
                keep(made, version, "train", drawn, place / f"stage/rollouts/step-{step:06d}-0")
            for source, split, at in (
                ("dev", Split.DEV, "dev"), ("gate", Split.GATE, "gate"),
                ("probe", Split.TRAIN, "probes/0abc"),
            ):  # fmt: skip
                measured = [
                    rollout(rng, f"{source}-{task}", tools=task % 2 == 1, split=split)
                    for task in range(dev)
                ]
                if source == "dev" and rng.random() < 0.5:  # a task that was trained on
                    measured.append(rollout(rng, "t1-0-0", split=split))
                keep(made, version, source, measured, place / at / "part-00000")
            made.losses[version] = [rng.choice((0.0, 0.1, -0.2)) for _ in range(steps)]
            lines = [
                {"step": i + 1, "loss": loss, "grad_norm": abs(loss)}
                | ({} if i % 2 else {"drift": i + loss})
                for i, loss in enumerate(made.losses[version])
            ]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (place / "stage" / "steps.jsonl").write_text(text)
            kept = rng.random() < 0.7
            grown = Version(number=version, generation=version, parent=parent, harness=Harness())
            trained = Train(result=Result(policy=f"p{version}", steps=steps), cells=())
            record(ledger, version_place(version), "version", Grown(version=grown, code=""))
            record(ledger, version_place(version), "train", trained)
            gate = judged("kept" if kept else "reverted", parent)
            record(ledger, version_place(version), "gate", gate)
            parent = version if kept else parent
    return made


def record(ledger: Ledger, place: str, name: str, phase: Phase) -> None:
    """Add a phase to a ledger as a run does it."""
    ledger.phase(place, name, lambda: phase.model_dump(mode="json"))


def judged(verdict: Verdict, against: int | None, **changes: Any) -> Gate:
    """What the gate says of a version, made up."""
    change = Difference(mean=0.05, low=0.01, high=0.09, p=0.02, n=40)
    values = {
        "verdict": verdict, "words": f"{verdict}: so", "against": against, "change": change,
        "scores": Scores(n=40, valid=20, optimal=10, reward=15.0),
        "moved": Moved(metric="valid", before=0.45, after=0.5),
        "base": Beside(better=verdict == "kept", words="so", change=change),
        "best": Best(version=None, words="nothing is"),
    }  # fmt: skip
    return Gate(**{**values, **changes})


def keep(made: Made, version: int, source: str, rollouts: list[Rollout], path: Path) -> None:
    write(rollouts, path.with_name(path.name + ".parquet"))
    made.kept.extend(Kept(version, source, one) for one in rollouts)
