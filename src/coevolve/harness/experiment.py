"""An experiment: everything that decides a run of rounds, as sparse TOML.

Same experiment and seed, same tasks, same proposals, same decisions.
"""

import operator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from coevolve.core.rollout import Value
from coevolve.harness.budget import Amount, Budget
from coevolve.harness.checked import checked, read_toml
from coevolve.harness.recipe import Recipe
from coevolve.harness.rules import BacktestRule, GateRule


class Measured(Value):
    """How checkpoints are measured between rounds."""

    dev: int = Field(default=200, ge=8, le=1_000_000)
    """Tasks that engineers see results of."""
    gate: int = Field(default=300, ge=8, le=1_000_000)
    """Tasks that decide; no engineer sees them."""
    knobs: dict[str, float] = {}
    """What these tasks are generated from; the domain's defaults if empty."""
    samples: int = Field(default=1, ge=1, le=1_024)
    """Answers to each task."""
    temperature: float = Field(default=0.0, ge=0, le=5)
    max_tokens: int = Field(default=256, ge=1, le=1_000_000)


class Plan(Value):
    """What every run is about, whichever loop it runs."""

    name: str = Field(default="run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$")
    domain: str = "lake"
    policy: str = "pocket"
    """What training starts from."""
    style: str = ""
    """Prompt style of the domain; if empty, the one that the policy was taught."""
    seed: int = 0
    processes: int = Field(default=1, ge=1, le=1_024)
    """That a stage trains with, side by side."""
    patience_s: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Seconds that an engineer may take; after that the run goes on without it."""
    measured: Measured = Measured()
    budget: Budget = Budget()
    prices: tuple[Amount, Amount] = (0.0, 0.0)
    """Of a model behind an address: money per million tokens read, and written."""
    approval: tuple[str, ...] = ()
    """Where the run waits for a person."""
    sandbox: Literal["", "bubblewrap", "none"] = Field(default="", exclude_if=operator.not_)
    """The wall around code that a model wrote; if empty, as the machine is set up, and a
    record does not mention it."""


class Experiment(Plan):
    """A run of rounds."""

    rounds: int = Field(default=3, ge=1, le=1_000)
    start: Literal["random", "default"] = "random"
    """Knobs of round 0, where `knobs` does not set them."""
    knobs: dict[str, float] = {}
    engineers: tuple[str, ...] = ("frontier",)
    """Who proposes, in order of preference: policy, base, smollm2, an address, or a rule."""
    context: tuple[str, ...] = ("F", "G", "H:no-default", "T:bookkeeping")
    """What model engineers are shown."""
    answer: Literal["edits", "whole"] = "edits"
    """What they answer with: local edits of the knobs, or a whole configuration."""
    reach: float = Field(default=0.15, gt=0, le=1)
    """Trust region: how far knobs may move in a round, as a share of their range."""
    lessons: float = Field(default=0.0, ge=0, lt=1)
    """Share of training tasks that are lessons in engineering, for a trainee that engineers."""
    recipe: Recipe = Recipe()
    gate: GateRule = GateRule()
    backtest: BacktestRule = BacktestRule()
    approval: tuple[Literal["proposal", "completion"], ...] = ()


def load_experiment(path: Path, changes: dict[str, Any] | None = None) -> Experiment:
    """Read a TOML file; errors name the field, the value and what is expected."""
    return make_experiment({**read_toml(path), **(changes or {})}, str(path))


def make_experiment(values: dict[str, Any], where: str) -> Experiment:
    """An experiment from plain values."""
    return checked(Experiment, values, where)
