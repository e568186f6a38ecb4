"""A folder that keeps an evaluation: `evaluation.json` says which, `part-NNNNN.parquet` hold it.

Invariant: a folder belongs to one evaluation, whose every file appears whole, so an evaluation
killed at any instant loses no more than the part it was at.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pydantic import ValidationError

from coevolve.core.errors import UserError
from coevolve.core.files import read_regular, replace_file
from coevolve.core.rollout import Message, Outcome, Rollout, StopReason, Value
from coevolve.core.seeds import digest
from coevolve.core.task import Task
from coevolve.policies.base import Sampling
from coevolve.store.rollouts import read_file, write


class Evaluation(Value):
    """Everything that decides the numbers of an evaluation, as `evaluation.json` holds it."""

    policy: str
    domain: str
    source: dict[str, Any]
    """Where the tasks come from, for people; `tasks_hash` is what counts."""
    tasks: int
    tasks_hash: str
    """Of the ids and the data of all tasks, in order."""
    samples: int
    batch: int
    """Attempts in a part; it also decides which prompts a model reads together."""
    sampling: Sampling
    style: str
    weights_hash: str
    """Of the model's files; empty where they are not on this machine."""

    def differences(self, other: "Evaluation") -> list[str]:
        """What another evaluation has otherwise, in words."""
        mine, theirs = self.flat(), other.flat()
        return [f"{name} {theirs[name]!r}, not {mine[name]!r}" for name in mine
                if mine[name] != theirs[name]]  # fmt: skip

    def flat(self) -> dict[str, Any]:
        """What must agree. The source may be spelled in several ways."""
        return {**self.model_dump(exclude={"source", "sampling"}), **self.sampling.model_dump()}


class EvaluationFolder:
    """Keeps the parts of one evaluation; implements `Parts` of evaluation.attempts."""

    def __init__(self, folder: Path, evaluation: Evaluation) -> None:
        self.folder, self.evaluation = folder, evaluation
        self.reused = 0
        """Parts that were there already."""
        description = folder / "evaluation.json"
        try:
            if description.is_file():
                self.check(description)
                return
            if folder.is_dir() and any(not p.name.startswith(".") for p in folder.iterdir()):
                raise UserError(
                    f"{folder} holds other files and no evaluation.json; name a new folder"
                )
            text = evaluation.model_dump_json(indent=2) + "\n"
            replace_file(description, text.encode("utf-8"))
        except OSError as error:
            raise UserError(f"cannot write to {folder}: {error.strerror}") from None

    def check(self, description: Path) -> None:
        """The folder is of this evaluation, or an error says what is different."""
        try:
            found = Evaluation.model_validate_json(read_regular(description))
        except (OSError, ValidationError):
            raise UserError(
                f"{description} does not describe an evaluation; name a new folder"
            ) from None
        if different := self.evaluation.differences(found):
            raise UserError(
                f"{self.folder} holds another evaluation: {'; '.join(different)}; name a new "
                "folder, or repeat the command that began it"
            )

    def path(self, number: int) -> Path:
        return self.folder / f"part-{number:05d}.parquet"

    def keep(self, number: int, rollouts: Sequence[Rollout]) -> None:
        try:
            write(rollouts, self.path(number))
        except OSError as error:
            raise UserError(f"cannot write {self.path(number)}: {error}") from None

    def load(self, number: int, tasks: Sequence[Task]) -> list[Rollout] | None:
        """The attempts of a finished part."""
        path = self.path(number)
        if not path.exists():
            return None
        try:
            rows = read_file(path).to_pylist()
        except (OSError, pyarrow.ArrowException) as error:
            raise UserError(
                f"cannot read {path} ({error}); move it away, and it is made again"
            ) from None
        samples = self.evaluation.samples
        expected = [(task.id, sample) for task in tasks for sample in range(samples)]
        if [(row["task_id"], row["sample"]) for row in rows] != expected:
            raise UserError(
                f"{path} does not hold the attempts it should; move it away, and it is made again"
            )
        self.reused += 1
        return [restored(row, tasks[index // samples]) for index, row in enumerate(rows)]


def restored(row: Mapping[str, Any], task: Task) -> Rollout:
    """A rollout as it was. The task tells the labels: files keep only text."""
    outcome = Outcome.model_construct(
        valid=row["valid"],
        optimal=row["optimal"],
        reward=row["reward"],
        components=dict(row["components"]),
        failure=row["failure"],
        details=json.loads(row["details"]),
    )
    same = ("sample", "policy", "prompt_tokens", "completion_tokens", "seconds", "step", "group")
    measured = ("shaped", "mean_logprob", "min_logprob", "entropy")
    return Rollout.model_construct(
        task_id=task.id,
        domain=task.domain,
        split=task.split,
        bucket=task.bucket,
        messages=tuple(Message.model_construct(**turn) for turn in row["messages"]),
        outcome=outcome,
        stop=StopReason(row["stop"]),
        **{name: row[name] for name in same + measured},
    )


def hash_of_tasks(tasks: Sequence[Task]) -> str:
    """One hash for a list of tasks: ids, data and order."""
    parts = (text for task in tasks for text in (task.id, json.dumps(task.data, sort_keys=True)))
    return digest(*parts).hex()
