"""Folders in which work is done, by this process or another: what is to be done, what came of it.

    job.json      written first
    result.json   written last: the work is done

Invariant: work follows from its folder alone. Killed at any instant and begun again, it goes on to
the same end, in any process on any machine that sees the folder.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from coevolve.core.disk import SPARE, size_of, want_room
from coevolve.core.errors import UserError
from coevolve.core.files import read_regular, replace_file
from coevolve.core.names import typed
from coevolve.core.rollout import Value

JOB, RESULT = "job.json", "result.json"

Work = Callable[[Sequence[Path]], None]
"""Does the jobs of all folders; when it returns, each has its result."""
Kind = TypeVar("Kind", bound=Value)


def give(folder: Path, job: Value) -> None:
    """Say what is to be done in a folder, if there is room for it: as much as the largest of those
    beside it took, and before the first, three times the policy that it begins with."""
    others = [one for one in folder.parent.glob("*/stage") if one.parent != folder]
    begun = 3 * size_of([Path(name)]) if (name := getattr(job, "policy", "")) else 0
    needed = size_of(others) or (begun if Path(name).exists() else 0)
    want_room(folder.parent, SPARE + needed, typed("resume", folder.parents[1]))
    replace_file(folder / JOB, job.model_dump_json(indent=1).encode("utf-8"))


def job_of(folder: Path, kind: type[Kind]) -> Kind | None:
    """What is to be done in a folder, if anything."""
    return read(folder / JOB, kind, "name a new folder")


def finish(folder: Path, result: Value) -> None:
    replace_file(folder / RESULT, result.model_dump_json(indent=1).encode("utf-8"))


def result_of(folder: Path, kind: type[Kind]) -> Kind | None:
    """What came of a job, once it is done."""
    return read(folder / RESULT, kind, "move it away, and the work is done again")


def read(path: Path, kind: type[Kind], fix: str) -> Kind | None:
    try:
        return kind.model_validate_json(read_regular(path))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        raise UserError(f"{path} cannot be read, or is of another version; {fix}") from None
