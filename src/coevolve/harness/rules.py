"""By which rules proposals are probed and checkpoints judged."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from coevolve.core.rollout import Value

MOST_PROPOSALS = 4
"""Of one engineer, that are probed after a round."""
MOST_REVISIONS = 8
"""How often a person may send proposals back."""


class Protection(Value):
    """What must not be unlearned."""

    solved: float = Field(default=0.9, ge=0, le=1)
    """Buckets with at least this valid rate before are protected."""
    protected_fall: float = Field(default=0.1, ge=0, le=1)
    """A protected bucket may fall by so much."""
    least: int = Field(default=20, ge=1)
    """Tasks that a bucket must have to be protected."""


class GateRule(Protection):
    """What a version must do to be kept."""

    on: bool = True
    margin: float = Field(default=0.02, ge=0, le=1)
    """By how much a metric may fall: the objective's where no worse is asked for, and those that
    it protects anywhere."""
    gain: float = Field(default=0.0, ge=0, le=1)
    """Where better is asked for: the objective must rise by more than this, and than noise."""
    repeats: int = Field(default=2, ge=0, le=64)
    """Where better is asked for: how often the first version is measured again with other draws."""
    twins: int = Field(default=2, ge=0, le=64)
    """Where better is asked for: how often it is trained again with another seed. The more often,
    the surer is what training alone makes of a difference, and the smaller the gain that is
    seen."""


Bets = Literal["signal", "need", "gradient", "replay", "branch"]


class BacktestRule(Value):
    """How candidates are compared with what is in force."""

    on: bool = True
    by: Bets = "need"
    """What knobs are bet on by (docs/backtests.md)."""
    tasks: int = Field(default=96, ge=4)
    """Fresh tasks per candidate, where knobs are probed."""
    samples: int = Field(default=8, ge=2)
    """Answers per task."""
    steps: int = Field(default=10, ge=1)
    """Of a branch, for `replay` and `branch`; the version that is trained goes on from its own."""
    confidence: float = Field(default=0.92, ge=0.5, le=1)
    """How sure it must be that a candidate is worth more to the target than what is in force, where
    it is the only one; of several, each must be the surer. At 0.92 about one in ten passes that is
    no better (docs/backtests.md)."""
    least_alive: float = Field(default=0.05, ge=0, le=1)
    """Share of a candidate's groups that must carry any signal."""
    most_wrong: float = Field(default=0.02, ge=0, le=1)
    """Share of pairs of results that a reward may newly rank the wrong way round, and of successes
    that a token limit may newly cut off."""
    most_cut: float = Field(default=0.25, ge=0, le=1)
    """Share of the successes with signal that filters may newly leave out."""
    least_left: float = Field(default=0.5, ge=0, le=1)
    """Share of the rollouts with signal that filters must leave."""


class SmallRule(Value):
    """How the policy `small` is taught before a run begins with it."""

    knobs: dict[str, float] = {}
    """Of the tasks whose solutions it is shown; the target's if empty."""
    steps: int = Field(default=300, ge=1)
    tasks: int = Field(default=32, ge=1)
    """Solutions per step."""
    learning_rate: float = Field(default=3e-3, gt=0, le=1)
    seed: int = 0


class ClusterRule(Value):
    """Where a stage spans machines: workers of a Ray cluster train it together."""

    workers: int = Field(default=0, ge=0, le=1_024)
    """Processes that train a stage, on whichever machines have room; 0: it stays on one machine."""
    least_workers: int = Field(default=0, ge=0, le=1_024)
    """So few may go on when machines are lost, until others come; weights are the same but for
    rounding then. 0: a stage waits for all its workers."""
    cpus_per_worker: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    gpus_per_worker: float = Field(default=0.0, ge=0, le=1)
    """A worker computes on one GPU, or on a share of one."""
    checkpoints: str = Field(default="", exclude_if=lambda address: not address)
    """Where checkpoints are kept until a stage is done, if not in its folder: a folder that all
    machines see, or an address such as s3://BUCKET/NAME, of any storage that fsspec knows."""

    @field_validator("checkpoints")
    @classmethod
    def _found_anywhere(cls, value: str) -> str:
        if value and "://" not in value and not Path(value).is_absolute():
            raise ValueError(
                f"checkpoints = '{value}': workers stand in other folders; name an absolute path, "
                "or an address such as s3://BUCKET/NAME"
            )
        return value

    @model_validator(mode="after")
    def _fewer(self) -> "ClusterRule":
        if self.least_workers > self.workers:
            raise ValueError(
                f"least_workers = {self.least_workers} are more than workers = {self.workers}; "
                "lower them"
            )
        if self.checkpoints and not self.workers:
            raise ValueError("checkpoints at an address need workers of a cluster; set workers")
        return self


class AgentRule(Value):
    """How long a model with tools may look around before it proposes."""

    calls: int = Field(default=24, ge=1, le=1_000)
    """Of tools, the proposal among them."""
    tokens: int = Field(default=1_000_000, ge=1)
    """Read and written in one generation, after which it has to propose."""
    money: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """By `prices`, after which it has to propose; 0: no limit."""
    answer_tokens: int = Field(default=4_096, ge=16)
    """Of one call, thoughts included."""
    briefing_tokens: int = Field(default=8_000, ge=100)
    """Of what it is told before it asks anything, about."""


class DiagnosticRule(Value):
    """When a diagnostic is believed."""

    blocks: bool = True
    """Whether the diagnostics that may block a version do; the clean room does in any case."""
    level: float = Field(default=0.05, gt=0, lt=1)
    """Chance at which diagnostics that mean nothing may be accepted, all proposed at once taken
    together."""
    most_alike: float = Field(default=0.9, gt=0, le=1)
    """Rank correlation with one that exists, over versions, from which it says nothing new."""
    least_versions: int = Field(default=5, ge=3)
    """Versions that two diagnostics must have in common to be called alike."""
    splits: int = Field(default=5, ge=1, le=50)
    """How often tasks are cut in half to see whether both halves say the same."""
    least_stable: float = Field(default=0.6, ge=-1, le=1)
    """Mean rank correlation between the halves, over versions."""


class WatchRule(Value):
    """When a stage has gone wrong."""

    patience: int = Field(default=5, ge=1)
    """Steps in a row that must be over a limit."""
    entropy_share: float = Field(default=0.1, ge=0)
    """Entropy below this share of what the stage began with is a collapse; 0 turns it off."""
    drift: float = Field(default=1.0, gt=0)
    """Nats per token away from the starting policy."""
    dead_share: float = Field(default=1.0, gt=0)
    """Share of groups whose rollouts all earned the same; above 1 turns it off."""
    length_factor: float = Field(default=3.0, gt=1)
    """Mean answer length, as a multiple of what the stage began with, while no more is earned than
    then: thinking that grows and pays is no fault."""
    reward_share: float = Field(default=0.4, ge=0)
    """Reward, averaged over `patience` steps, below this share of its best, if that was above 0;
    0 turns it off."""
    cut_share: float = Field(default=0.5, gt=0)
    """Share of answers cut off at the limit, if the stage began with less than half of it, while no
    more is earned than then."""
    gap: float = Field(default=0.1, gt=0)
    """Nats per token between the log-probabilities of who draws and of who learns. At the first
    step it takes no patience, as with `ratio`."""
    ratio: float = Field(default=0.2, gt=0)
    """How far the mean ratio of these probabilities is from 1."""
    unjudged_share: float = Field(default=0.1, gt=0)
    """Share of answers that the verifier broke on; above 1 turns it off."""
