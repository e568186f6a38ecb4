"""The folder of a stage: what is in it, what is whole, and where to go on.

    lock                 held by the process that trains, and names it
    workers              the same of the first worker, where a cluster trains
    stage.json           the stage and a hash of its tasks; another stage is refused
    tasks.jsonl          the tasks
    steps.jsonl          a line of metrics per step
    rollouts/            every rollout, a Parquet file per step and process; in the end a few files
    checkpoints/         checkpoint-N after N updates, with a file `complete` in it once it is,
                         which tells the step; gone in the end
    elsewhere.json       where checkpoints are instead, if they are at an address
    policy/              the result, a transformers folder
    result.json          written last: the stage is done

A checkpoint without its `complete` file was cut off and is thrown away.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from coevolve.core.errors import CoevolveError, EngineError
from coevolve.core.files import replace_file, settle
from coevolve.core.task import Task
from coevolve.engines.base import Result, Stage
from coevolve.engines.stage import another_stage, describe, no_stage, policy_gone, read, read_steps
from coevolve.engines.trl.mirror import Mirror
from coevolve.evaluation.language import measure
from coevolve.policies.local import LocalPolicy
from coevolve.policies.models import Loaded, anywhere
from coevolve.store.files import WriterLock
from coevolve.store.paths import Paths
from coevolve.store.shards import forget

LOCK, WORKERS, STAGE, COMPLETE = "lock", "workers", "stage.json", "complete"
ELSEWHERE = "elsewhere.json"
FAILURE = "failure.json"
PATIENCE_S = 120.0
"""How long workers that were lost may take to let go of a stage."""
BEGUN = ("steps.jsonl", "rollouts", "checkpoints", "result.json")
"""Any of these tells that a stage has come to its first step."""
ADAPTER = "adapter_config.json"
KEPT = 3
"""Newest checkpoints that are kept."""
LANGUAGE = 2_000
"""Tokens that a vocabulary of a natural language has at least."""
TRAINER_FILES = (
    "optimizer.pt", "scheduler.pt", "trainer_state.json", "training_args.bin", "rng_state*",
    "README.md", "ref", COMPLETE,
)  # fmt: skip
"""Of a checkpoint, that are no part of the policy."""


class StageFolder:
    """The only reader and writer of a stage's files, but for TRL's own checkpoints."""

    def __init__(self, path: Path, mirror: Mirror | None = None) -> None:
        self.path, self.mirror = path, mirror
        self.checkpoints = mirror.here if mirror else path / "checkpoints"
        self.rollouts = path / "rollouts"
        self.policy = path / "policy"
        self.steps = path / "steps.jsonl"

    def make(self) -> None:
        """Have a folder that is a stage's, or nobody's yet."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            found = sorted(path.name for path in self.path.iterdir() if path.name[0] != ".")
        except OSError as error:
            raise EngineError(f"cannot write to {self.path}: {error.strerror}") from None
        if found not in ([], [LOCK]) and STAGE not in found:
            raise no_stage(self.path, found)

    def open(self, stage: Stage, tasks: Sequence[Task]) -> None:
        """Take the folder for this stage, or make sure that it is this stage's already."""
        file, listed = self.path / STAGE, self.path / "tasks.jsonl"
        root = os.path.relpath(stage.root, stage.folder) if stage.root else None
        wanted = {**describe(stage, tasks), "root": root}
        if file.exists():
            found = read(file)
            different = [name for name, value in wanted.items() if found.get(name) != value]
            if different and any((self.path / name).exists() for name in BEGUN):
                raise another_stage(self.path, different)
            if different:  # one that never came to its first step: its settings were refused, say
                for left in (listed, *self.path.glob("skills-*.json"), file):
                    left.unlink(missing_ok=True)
        try:
            if not file.exists():
                write(file, json.dumps(wanted, indent=1))
            if not listed.exists():
                write(listed, "".join(task.model_dump_json() + "\n" for task in tasks))
        except OSError as error:
            raise EngineError(f"cannot write to {self.path}: {error.strerror}") from None

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Nobody else trains here meanwhile; of several processes the first sees to it."""
        if rank():
            yield
            return
        with WriterLock(self.path / LOCK, "stage").hold():
            yield

    @contextmanager
    def taken_over(self) -> Iterator[None]:
        """The workers of a cluster begin once those of an earlier attempt are gone, who may linger
        on a machine that nobody reaches; the first one sees to it."""
        lock = WriterLock(self.path / WORKERS, "stage")
        lock.wait(PATIENCE_S, print)
        with lock.hold():
            yield

    def has_workers(self) -> bool:
        """Whether workers of a cluster train here now."""
        return WriterLock(self.path / WORKERS, "stage").holder() is not None

    def load(self) -> tuple[Stage, list[Task]]:
        """What the folder was opened for."""
        with (self.path / "tasks.jsonl").open(encoding="utf-8", newline="\n") as lines:
            tasks = [Task.model_validate_json(line) for line in lines]
        stage = read(self.path / STAGE)
        del stage["tasks"], stage["weights"]
        if stage["root"] is not None:
            root = (self.path / stage["root"]).resolve()
            stage |= {"root": root, "model": Paths(root).find(stage["model"])}
        return Stage(folder=self.path, **stage), tasks

    def result(self) -> Result | None:
        """What came of the stage, if it is done."""
        file = self.path / "result.json"
        if not file.exists():
            return None
        found = Result.model_validate(read(file))
        if not found.steps:  # nothing was learned: the policy is the one that it began with
            return found.model_copy(update={"policy": self.load()[0].model})
        if not (self.policy / "config.json").exists():
            raise policy_gone(self.path, self.policy)
        return found.model_copy(update={"policy": str(self.policy)})

    def finish(self, result: Result) -> Result:
        """Record that the stage is done; its checkpoints, several times the policy, are dropped."""
        named = result.model_copy(update={"policy": "policy" if result.steps else ""})
        write(self.path / "result.json", named.model_dump_json(indent=1))
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        if self.mirror:
            self.mirror.keep(())
        return result

    def complete(self, step: int, updates: int, good: bool) -> None:
        """Mark a checkpoint as whole; `good` tells whether the watch was calm."""
        checkpoint = self.checkpoints / f"checkpoint-{updates}"
        settle(checkpoint, deep=True)
        write(checkpoint / COMPLETE, json.dumps({"step": step, "good": good}))
        if self.mirror:
            self.mirror.send_file(checkpoint / COMPLETE)

    def send(self, updates: int) -> None:
        """Bring what this machine has of a checkpoint to where all checkpoints are."""
        if self.mirror and self.mirror.first:
            self.mirror.send(self.checkpoints / f"checkpoint-{updates}")

    def fetch(self) -> None:
        """Have the whole checkpoints on this machine."""
        if self.mirror and self.mirror.first:
            self.mirror.fetch(COMPLETE)

    def place(self, address: str) -> str:
        """Where the checkpoints are, empty if they are in the folder: what is begun goes on where
        it is."""
        file = self.path / ELSEWHERE
        if file.exists():
            return str(read(file)["address"])
        if not address or self.checkpoints.exists():
            return ""
        own = f"{address.rstrip('/')}/{self.path.name}-{uuid4().hex[:12]}"
        write(file, json.dumps({"address": own}))
        return own

    def rotate(self) -> None:
        """Drop old checkpoints, but not the newest that was good."""
        last = self.last(good=True)
        for path in self.all_checkpoints()[KEPT:]:
            if last is None or path != last[1]:
                shutil.rmtree(path)
        if self.mirror:
            self.mirror.keep([path.name for path in self.all_checkpoints()])

    def last(self, good: bool = False) -> tuple[int, Path] | None:
        """The newest whole checkpoint, or the newest that was good, and its step."""
        for path in self.all_checkpoints():
            if (path / COMPLETE).exists():
                mark = json.loads((path / COMPLETE).read_text("utf-8"))
                if mark["good"] or not good:
                    return mark["step"], path
        return None

    def all_checkpoints(self) -> list[Path]:
        """The newest first."""
        found = self.checkpoints.glob("checkpoint-*")
        return sorted(found, key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)

    def sweep(self, processes: int) -> None:
        """Throw away what a killed run left half-done or did after its last whole checkpoint, and
        probes that not all processes have: they measure together."""
        last = self.last()
        step = last[0] if last else 0
        if not last or not all(self.probes(process).exists() for process in range(processes)):
            for path in self.path.glob("probes-*"):
                path.unlink()
        for path in self.all_checkpoints():
            if not (path / COMPLETE).exists():
                shutil.rmtree(path)
        if self.steps.exists():
            kept = [line for line in self.lines() if line["step"] <= step]
            write(self.steps, "".join(json.dumps(line) + "\n" for line in kept))
        forget(self.rollouts, step)

    def probes(self, process: int) -> Path:
        """Where a process keeps what it measures drift with."""
        return self.path / f"probes-{process}.pt"

    def lines(self) -> list[dict[str, Any]]:
        """The metrics of every step so far; a line that was cut off is left out."""
        return read_steps(self.steps)

    def add_line(self, line: dict[str, Any]) -> None:
        with self.steps.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def note_failure(self, error: Exception) -> None:
        """Say why one of several processes failed; what others fail of after the first is that it
        is gone."""
        words = str(error) if isinstance(error, CoevolveError) else repr(error)
        with suppress(FileExistsError), (self.path / FAILURE).open("x", encoding="utf-8") as file:
            json.dump({"error": words}, file)

    def failure(self) -> str:
        """Why one failed, empty if none did."""
        file = self.path / FAILURE
        return str(read(file)["error"]) if file.exists() else ""

    def forget_failure(self) -> None:
        (self.path / FAILURE).unlink(missing_ok=True)

    def note_skills(self, when: str, loaded: Loaded) -> None:
        """Measure what a language model can do besides the task, once before and once after."""
        file = self.path / f"skills-{when}.json"
        if file.exists() or len(loaded.tokenizer) < LANGUAGE:
            return
        print(f"measuring general skills {when} training", file=sys.stderr)
        found = measure(LocalPolicy(loaded.name, loaded=loaded))
        write(file, json.dumps({name: [rate.value, rate.n] for name, rate in found.items()}))

    def skills(self) -> dict[str, dict[str, float]]:
        """Each skill before and after, with the number of prompts."""
        found: dict[str, dict[str, float]] = {}
        for when in ("before", "after"):
            file = self.path / f"skills-{when}.json"
            if file.exists():
                for name, (value, n) in json.loads(file.read_text("utf-8")).items():
                    found.setdefault(name, {"n": n})[when] = value
        return found

    def take_policy(self, source: Path, loaded: Loaded) -> None:
        """Make the model in `source` the result of the stage, whole or not at all.

        An adapter gets the config of its model, which tells how it was taught to be asked, and
        names its model so that it is found from any working directory.
        """
        partial = self.path / f".policy.{os.getpid()}"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(source, partial, ignore=shutil.ignore_patterns(*TRAINER_FILES))
        if not (partial / "config.json").exists():
            loaded.model.config.save_pretrained(partial)
        if (partial / ADAPTER).exists():
            told = read(partial / ADAPTER)
            told["base_model_name_or_path"] = anywhere(told["base_model_name_or_path"])
            write(partial / ADAPTER, json.dumps(told, indent=2))
        settle(partial, deep=True)
        shutil.rmtree(self.policy, ignore_errors=True)
        partial.rename(self.policy)


def rank() -> int:
    """Which of the processes that train together this one is; the first writes what all share."""
    return int(os.environ.get("RANK", "0"))


def write(path: Path, text: str) -> None:
    """Replace a file, whole or not at all."""
    replace_file(path, text.encode("utf-8"))
