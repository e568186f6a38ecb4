"""What a program may use, and what came of running it."""

from typing import Any, Literal

from pydantic import Field

from coevolve.core.rollout import Value
from coevolve.sandbox import seccomp

Stop = Literal["ok", "time", "memory", "output", "processes", "killed"]
"""Why a program stopped: by itself (`ok`, whatever its exit code), by a limit, or by a signal.
Files that are too many count as `output`."""
STOPS: tuple[Stop, ...] = ("ok", "time", "memory", "output", "processes", "killed")


class Limits(Value):
    """What one run of a program may use, with all processes that it starts."""

    cpu_s: int = Field(default=2, ge=1, le=3_600)
    """Processor time, in whole seconds."""
    wall_s: float = Field(default=10.0, gt=0, le=7_200)
    """Time on the clock until the whole tree of processes is killed."""
    memory_mb: int = Field(default=512, ge=64, le=1_048_576)
    """Memory of all processes and of all files in /tmp together; address space of each process."""
    processes: int = Field(default=16, ge=1, le=4_096)
    """Processes and threads at one time, the first included."""
    output_kb: int = Field(default=1_024, ge=1, le=1_048_576)
    """What standard output and standard error may hold, each."""
    file_mb: int = Field(default=16, ge=1, le=65_536)
    """Size of any one file."""
    open_files: int = Field(default=64, ge=16, le=65_536)
    space_mb: int = Field(default=64, ge=1, le=65_536)
    """All files in /tmp together."""
    files: int = Field(default=2_000, ge=16, le=1_048_576)
    """Number of files and folders in /tmp."""

    def job(self, kind: str) -> dict[str, Any]:
        """These limits as the beginning of a job for a worker."""
        return {
            **self.model_dump(),
            "kind": kind,
            "output_bytes": self.output_kb << 10,
            "file_bytes": self.file_mb << 20,
            "calls": seccomp.narrower(kind == "judge"),
        }


class Ran(Value):
    """What came of one run."""

    stop: Stop
    code: int
    """Exit code; negative for the signal that ended it."""
    stdout: str
    stderr: str
    seconds: float
    """On the clock."""
    cpu_s: float
    """Processor time."""


class Returned(Value):
    """What came of one call of a function."""

    stop: Stop
    value: object = None
    """A plain value, where `error` is empty."""
    error: str = ""
    """Why there is none: `Name: message` of an exception, or what stopped the call."""
