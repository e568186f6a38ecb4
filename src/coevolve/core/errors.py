"""The error model: one flat type per boundary that can be crossed in the wrong way.

A bad answer of a policy is never an error; it is data (an `Outcome` with a failure class). An
error means that something outside a rollout broke or was asked for wrongly, and its message says
what, the value seen, and the fix. The command line prints that message and exits with 2.
"""

import traceback
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


class CoevolveError(Exception):
    """Base of everything this package raises on purpose."""


class UserError(CoevolveError):
    """The request itself is wrong: an unknown name, a bad file, an impossible option."""


class KnobError(UserError):
    """Knobs that are unknown, out of range, or describe tasks that cannot exist."""


class SplitError(CoevolveError):
    """A task was about to be used in a split it does not belong to."""


class DomainError(CoevolveError):
    """A domain broke its contract: it could not generate, prompt or verify as promised."""


class PolicyError(CoevolveError):
    """A policy could not be asked: not a bad answer, but none."""


class SandboxError(CoevolveError):
    """A sandbox could not be started or kept: not a bad program, but none that ran."""


class EngineError(CoevolveError):
    """Training could not go on: no memory, no disk, or a library that failed."""


class LedgerError(CoevolveError):
    """A run's record is missing, broken, or of another run."""


class EvidenceError(CoevolveError):
    """A statement about the evidence was refused, failed, or took more than it may."""


def words_of(error: Exception) -> str:
    """What an error of somebody else's says, or what it is where it says nothing."""
    return str(error).strip() or repr(error)


def place_of(error: BaseException) -> str:
    """Where an error came from: the last line that is not ours, if there is one."""
    if isinstance(error, NotImplementedError):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not Path(frame.filename).is_relative_to(PACKAGE)]
    where = (theirs or frames)[-1]
    return f", in {where.filename}, line {where.lineno}"
