"""What every phase of a run records: one value each.

    run             begin, base, noise, final
    generations/NN  check, diagnose, propose (again: propose-1 ...), backtest, learn
    versions/NN     version, train, dev, gate

Invariant: nothing else reads or writes a payload; a record that does not fit is named, not used.
"""

import operator
from collections.abc import Sequence
from typing import Any

from pydantic import Field, ValidationError

from coevolve.core.errors import LedgerError
from coevolve.core.rollout import Rollout, Value
from coevolve.engines.base import Result
from coevolve.evaluation.difference import Difference
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.harness.backtest import Backtest
from coevolve.harness.budget import Spent
from coevolve.harness.diagnostic import Alarm, Diagnostic, DiagnosticTrial, Finding
from coevolve.harness.patch import Patch
from coevolve.harness.plan import RATES
from coevolve.harness.proposal import Proposal, unsaid
from coevolve.harness.skill import Skill
from coevolve.harness.version import Moved, Verdict, Version
from coevolve.store.cells import Case, Cell


class Phase(Value):
    """What came of a phase, and what it took."""

    spent: Spent = Spent()


class Begin(Phase):
    """What a run depends on besides its plan."""

    code: str
    """A hash of everything in the package that decides something."""
    weights: str
    """A hash of the policy that it begins with."""
    skills: tuple[str, ...] = ()
    """The skills that it begins with, by name."""


class Scores(Phase):
    """Sums over gate attempts."""

    n: int
    valid: int
    optimal: int
    reward: float

    def mean(self, metric: str) -> float:
        return float(getattr(self, metric)) / max(self.n, 1)

    @property
    def rate(self) -> Rate:
        """Of valid attempts."""
        return wilson(self.valid, self.n)

    @property
    def rates(self) -> dict[str, float]:
        """Of valid and of optimal attempts."""
        return {metric: self.mean(metric) for metric in RATES}


class Noise(Phase):
    """Differences that mean nothing."""

    spread: float
    words: str
    repeats: tuple[Difference, ...]
    """The same checkpoint, other draws."""
    twins: tuple[Difference, ...]
    """The same harness, another training."""
    among: tuple[Difference, ...] = ()
    """These trainings, each with every other."""
    trained: tuple[Spent, ...] = ()
    """What each of these trainings took."""


class Check(Phase):
    """A version measured again with other draws, after failures: later ones are compared with that,
    so that none has to beat the luck of the first time."""

    version: int
    draw: int
    rate: float
    before: float

    @property
    def apart(self) -> float:
        return abs(self.rate - self.before)


class Diagnose(Phase):
    """What diagnostics say before anybody proposes."""

    parent: int | None
    failures: int
    """Generations in a row that brought nothing to keep."""
    alarms: tuple[str, ...] = ()
    """Of the parent, in words."""
    findings: tuple[Finding, ...] = ()
    explored: tuple[Cell, ...] = ()
    """The parent on a few tasks of kinds that are hardly trained on."""


class Propose(Phase):
    """What engineers say."""

    note: str = ""
    """What a person asked for."""
    proposals: dict[str, tuple[Proposal, ...]]
    """By engineer."""


class Tried(Value):
    """What became of a proposal before training."""

    author: str
    patch: Patch
    """As it would be trained: projected and kept within reach."""
    asked: Any = None
    """The value that was proposed, where that is another."""
    parent: int | None = Field(default=None, exclude_if=unsaid)
    """The version that it is a patch of, where that is another than the one that was diagnosed."""
    skill: str = ""
    refused: str = ""
    """Why it was not trained; empty if it was."""
    backtest: Backtest | None = None
    """None where it was refused without one."""

    @property
    def words(self) -> str:
        return self.refused or (self.backtest.words if self.backtest else "taken")


class Tests(Phase):
    """Which patches are trained, and why the others are not."""

    words: str
    tried: tuple[Tried, ...] = ()


class Grown(Phase):
    """A version before it is trained."""

    version: Version
    code: str
    """A hash of the package."""


class Train(Phase):
    """A stage of training."""

    result: Result
    """Its policy is relative to the run."""
    weights: str = ""
    """A hash of the checkpoint; empty where it has no files of weights."""
    cells: tuple[Cell, ...]
    """Its rollouts, by all labels."""


class Dev(Phase):
    """A checkpoint on dev tasks, as engineers see it."""

    cells: tuple[Cell, ...]
    cases: tuple[Case, ...]


class Beside(Value):
    """A version beside another checkpoint."""

    better: bool
    words: str
    change: Difference
    metrics: dict[str, Difference] = {}
    """Of valid and optimal answers, whichever of them is the objective."""


class Best(Value):
    """What a run would end with now."""

    version: int | None
    """None: the policy that it began with, without any training."""
    words: str


class Gate(Phase):
    """The verdict on a version."""

    verdict: Verdict
    words: str
    scores: Scores
    against: int | None
    """The version that it is compared with: its control, or else its parent; None: the first
    policy."""
    change: Difference
    """Of the objective, task by task."""
    protected: dict[str, Difference] = {}
    """Of the metrics that the objective protects."""
    metrics: dict[str, Difference] = {}
    """Of valid and optimal answers, from the same version."""
    since: Difference | None = None
    """Of the objective, from the newest version on its way that no proposal had changed anything
    of; None where none has up to now."""
    broken: dict[str, Difference] = {}
    """Solved buckets, and protected metrics, that fell too far."""
    blocking: tuple[Alarm, ...] = ()
    clean: Difference | None = Field(default=None, exclude_if=lambda one: one is None)
    """Of the objective in the clean room, from the first policy; None where it was not there."""
    moved: Moved
    spread: float = 0.0
    """Of the difference between two trainings that differ by their seed alone, as it was known."""
    among: int = 1
    """How many versions were compared with the same one, this one counted."""
    base: Beside
    """Beside the first policy."""
    best: Best


class Learn(Phase):
    """What judged versions teach."""

    skills: tuple[Skill, ...] = ()
    reason: str = ""
    """Why new diagnostics were tried."""
    trials: tuple[DiagnosticTrial, ...] = ()
    grown: tuple[Diagnostic, ...] = Field(default=(), exclude_if=operator.not_)
    """Diagnostics that the clean room's word has grown, or added to the record of."""


class Share(Value):
    """Of answers, with its interval."""

    rate: float
    low: float
    high: float
    n: int


class Tested(Value):
    """A policy on test tasks."""

    policy: str
    rates: dict[str, Share]
    """By metric."""


class Final(Phase):
    """The test split."""

    tasks: int
    words: str
    first: Tested
    last: Tested
    change: dict[str, Difference]
    """From the first policy to the last."""
    root: Tested | None = None
    """Version 0: what training came to before anything was changed."""
    beyond: dict[str, Difference] = {}
    """From there to the last."""


PHASES: dict[str, type[Phase]] = {
    "begin": Begin, "base": Scores, "clean": Scores, "noise": Noise, "final": Final,
    "check": Check, "diagnose": Diagnose, "propose": Propose, "backtest": Tests, "learn": Learn,
    "version": Grown, "train": Train, "dev": Dev, "gate": Gate,
}  # fmt: skip


def phase_of(name: str, payload: dict[str, Any], where: str) -> Phase:
    """A recorded payload as the value that it is; `where` names the event."""
    kind = PHASES.get(name.partition("-")[0])
    if kind is None:
        raise LedgerError(f"{where}: '{name}' is not a phase of this version of coevolve")
    try:
        return kind.model_validate(payload)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise LedgerError(
            f"{where}: {place} = {first['input']!r:.80} ({first['msg']}): it was recorded by "
            "another version of coevolve, or changed"
        ) from None


def scores_of(rollouts: Sequence[Rollout], spent: Spent) -> Scores:
    """What gate attempts add up to."""
    outcomes = [one.outcome for one in rollouts]
    return Scores(
        n=len(outcomes),
        valid=sum(one.valid for one in outcomes),
        optimal=sum(one.optimal for one in outcomes),
        reward=sum(one.reward for one in outcomes),
        spent=spent,
    )
