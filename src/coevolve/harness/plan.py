"""The plan: everything that decides a run, as sparse TOML or a Python value.

Same plan and seed, same tasks, same proposals, same decisions. Rounds and trees are settings of it.
"""

import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from coevolve.core.errors import UserError
from coevolve.core.names import lookup, typed
from coevolve.core.rollout import Value
from coevolve.harness.budget import Amount, Budget
from coevolve.harness.check import checked, read_toml
from coevolve.harness.filters import Filter
from coevolve.harness.harness import OWN_REWARD
from coevolve.harness.patch import FACTORS
from coevolve.harness.recipe import Recipe, Sharding
from coevolve.harness.rules import (
    AgentRule,
    BacktestRule,
    ClusterRule,
    DiagnosticRule,
    GateRule,
    SmallRule,
    WatchRule,
)
from coevolve.harness.wording import Wording

PRESETS = {path.stem: path for path in (Path(__file__).parents[1] / "configs").glob("*.toml")}
"""Plans that come with the package, by name."""

ADDRESSES, DATA = ("data:", "openenv:", "verifiers:"), (".jsonl", ".json", ".csv", ".parquet")
"""What tasks are named by, in place of a plan."""
SMALL = "small"
"""A policy that a run makes for itself."""
Metric = Literal["valid", "optimal", "reward"]
RATES: tuple[Metric, ...] = ("valid", "optimal")
"""Metrics that are shares of attempts; both are told of every checkpoint."""


class Target(Value):
    """What a run is to become good at: dev, gate and test tasks are drawn from it."""

    knobs: dict[str, float] = {}
    """What these tasks are generated from; the domain's defaults if empty."""
    tasks: str = ""
    """In place of knobs: `suite:NAME`, a frozen suite of the domain, or a JSONL file. Its tasks are
    dealt out by their content; those that could be trained on are left out."""
    dev: int = Field(default=200, ge=8, le=1_000_000)
    """Tasks that engineers see results of."""
    gate: int = Field(default=300, ge=8, le=1_000_000)
    """Tasks that decide; no engineer sees them."""
    clean: int = Field(default=0, ge=0, le=1_000_000)
    """Tasks of the clean room: drawn anew, where the domain shuts the doors that it knows of. A
    version that would be kept has to have gained there, too; 0: there is none."""
    samples: int = Field(default=1, ge=1, le=1_024)
    """Answers to each task."""
    temperature: float = Field(default=0.0, ge=0, le=5)
    max_tokens: int = Field(default=256, ge=1, le=1_000_000)


class Objective(Value):
    """What the gate decides by."""

    metric: Metric = "valid"
    protect: tuple[Metric, ...] = ("optimal",)
    """Metrics that must not fall beyond noise, whatever the other one does."""

    @field_validator("protect")
    @classmethod
    def _distinct(cls, protect: tuple[Metric, ...]) -> tuple[Metric, ...]:
        return tuple(dict.fromkeys(protect))


class Plan(Value):
    """A run: a lineage of versions, each its parent plus one patch."""

    name: str = Field(default="run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$")
    domain: str = "lake"
    policy: str = "pocket"
    """What training starts from; `small`: a little one that is made for the domain, and taught."""
    small: SmallRule = SmallRule()
    """How that is taught."""
    style: str = ""
    """Prompt style of the domain; if empty, the one that the policy was taught."""
    seed: int = 0

    target: Target = Target()
    objective: Objective = Objective()

    start: Literal["default", "random"] = "default"
    """Where the first version takes the knobs from that `knobs` does not name."""
    knobs: dict[str, float] = {}
    """What the first version trains on."""
    hold: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """Knobs, and groups of shares such as "agents", that nobody may change."""
    reward: str = OWN_REWARD
    """An expression over the domain's reward components and facts of a rollout."""
    filters: tuple[Filter, ...] = ()
    """Which rollouts the first version learns from."""
    wording: Wording = Wording()
    """How the first version is asked."""
    recipe: Recipe = Recipe()
    lessons: float = Field(default=0.0, ge=0, lt=1)
    """Share of training tasks that are lessons in engineering, for a trainee that engineers."""

    versions: int = Field(default=3, ge=1, le=10_000)
    """How many are trained, the first and merges among them; controls are not counted."""
    first_steps: int = Field(default=0, ge=0)
    """Steps of the first version, which only shows what is wrong with the start before that costs
    much; 0: as many as of others."""
    width: int = Field(default=1, ge=1, le=64)
    """How many grow from one parent at the same time."""
    start_from: Literal["parent", "base"] = "parent"
    """Where a version's training starts: at its parent's checkpoint, or at `policy`."""
    accept: Literal["no worse", "better", "higher"] = "no worse"
    """What the gate asks of a version; `higher` looks at the score alone, to be compared with."""
    control: bool = False
    """Train the parent's harness beside the patched ones, for as many rollouts."""
    pay_probes: bool = False
    """Take what the probes of a generation draw off its training, so that a run with probes draws
    no more than one without. Comparisons do."""

    engineers: tuple[str, ...] = Field(default=("frontier",), min_length=1)
    """Who proposes, in order of preference: rules, a rule for knobs, policy (the checkpoint
    itself), base (the untrained one), smollm2, an address, or one from an installed package."""
    factors: tuple[str, ...] = ("knobs",)
    """What may be patched; ["all"] for everything. Models are asked in the form of the paper
    where it is knobs alone, and given tools otherwise."""
    candidates: int = Field(default=6, ge=1, le=64)
    """How many patches are backtested at most in a generation."""
    context: tuple[str, ...] = ("F", "G", "H:no-default", "T:bookkeeping")
    """What models that design knobs are shown: modules, or one of the paper's variants, ["V6"]."""
    answer: Literal["edits", "whole"] = "edits"
    """What they answer with: local edits of the knobs, or a whole configuration."""
    reach: float = Field(default=0.3, gt=0, le=1)
    """Trust region: how far knobs may move in a version, as a share of their range. It widens with
    the share of training tasks that had nothing to teach, being solved or dead."""
    explore: int = Field(default=16, ge=0)
    """Tasks of kinds that are hardly trained on, which are tried before knobs are designed, each as
    often as in a backtest. None where nobody designs."""
    patience_s: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Seconds that an engineer may take, one with tools for each of its calls; after that the run
    goes on without it."""
    agent: AgentRule = AgentRule()
    """How long a model with tools may investigate, in a generation."""
    prices: tuple[Amount, Amount] = (0.0, 0.0)
    """Of a model behind an address: money per million tokens read, and written."""

    gate: GateRule = GateRule()
    backtest: BacktestRule = BacktestRule()
    budget: Budget = Budget()
    approval: tuple[Literal["diagnosis", "design", "backtest", "completion"], ...] = ()
    """Where the run waits for a person."""
    asks_after: int = Field(default=0, ge=0)
    """Failures in a row after which a person has to approve every design; 0: never."""
    learn: bool = False
    """Whether verdicts become skills, and new diagnostics are tried."""
    skills: Path | None = None
    """Folder of the skills that are used and added to; `skills` beside the run if not given."""
    diagnostic: DiagnosticRule = DiagnosticRule()
    """When a new diagnostic is believed."""

    engine: str = "trl"
    """What trains: trl, command:PROGRAM, or one from an installed package."""
    processes: int = Field(default=1, ge=1, le=1_024)
    """That a version trains with, side by side."""
    sharding: Sharding = "auto"
    """Whether each holds a part of the weights only, by FSDP2: none, full, or auto, from a billion
    parameters on."""
    cluster: ClusterRule = Field(default=ClusterRule(), exclude_if=lambda rule: not rule.workers)
    """In place of `processes`: workers on the machines of a Ray cluster. A record of a run that has
    none does not mention it."""
    watch: WatchRule = WatchRule()
    """When a training has gone wrong, and ends early."""
    generator: str = "local"
    """Who draws a checkpoint's answers outside of training: local; vllm, a server that is started
    for it; or http://HOST/v1#MODEL, a vLLM server with the policy in it that takes adapters."""
    sandbox: Literal["", "bubblewrap", "none"] = Field(default="", exclude_if=operator.not_)
    """The wall around code that a model wrote; if empty, as the machine is set up, and a
    record does not mention it."""

    @field_validator("factors")
    @classmethod
    def _known(cls, factors: tuple[str, ...]) -> tuple[str, ...]:
        if factors == ("all",):
            return tuple(FACTORS)
        for name in factors:
            lookup("factor", name, FACTORS)
        if not factors:
            raise ValueError('name at least one, or "all"')
        return factors

    @field_validator("generator")
    @classmethod
    def _who(cls, generator: str) -> str:
        up = generator.startswith(("http://", "https://")) and "#" in generator
        if not up and generator not in ("local", "vllm"):
            raise ValueError("use local, vllm, or http://HOST/v1#MODEL")
        return generator

    @model_validator(mode="after")
    def _one_target(self) -> "Plan":
        if self.target.tasks and self.target.knobs:
            raise ValueError("target.tasks and target.knobs both name tasks; give one of them")
        return self

    @model_validator(mode="after")
    def _first(self) -> "Plan":
        if self.first_steps and self.start_from != "parent":
            raise ValueError(
                "first_steps makes the first version shorter than others, which are compared with "
                'it where all begin with the same policy; set start_from = "parent", or leave it 0'
            )
        return self

    @model_validator(mode="after")
    def _spans(self) -> "Plan":
        if not self.cluster.workers:
            return self
        if self.processes > 1:
            raise ValueError(
                f"processes = {self.processes} and cluster.workers = {self.cluster.workers} both "
                "say how many train a version; leave processes out"
            )
        if self.engine != "trl":
            raise ValueError(
                f'cluster.workers = {self.cluster.workers} needs engine = "trl", not '
                f"{self.engine!r}, which starts what it needs by itself; leave the workers out"
            )
        return self

    @model_validator(mode="after")
    def _apart(self) -> "Plan":
        if self.objective.metric in self.objective.protect:
            others = tuple(one for one in self.objective.protect if one != self.objective.metric)
            apart = self.objective.model_copy(update={"protect": others})
            object.__setattr__(self, "objective", apart)
        return self

    @model_validator(mode="after")
    def _bets(self) -> "Plan":
        """Refuse bets on knobs that the rest of the plan does not allow."""
        by, drawn = self.backtest.by, self.target.samples > 1 and self.target.temperature > 0
        if by in ("gradient", "replay") and not drawn:
            raise ValueError(
                f'backtest.by = "{by}" needs several drawn answers to each dev task; set '
                "target.samples = 4 and target.temperature = 1, or another backtest.by"
            )
        if by in ("replay", "branch") and self.start_from != "parent":
            raise ValueError(
                f'backtest.by = "{by}" trains on from the parent; set start_from = "parent", or '
                'backtest.by = "need"'
            )
        return self

    @property
    def all_processes(self) -> int:
        """That train a version together, on one machine or on several."""
        return self.cluster.workers or self.processes

    @property
    def rollouts(self) -> int:
        """What every version may draw in training, but for a short first one."""
        return self.recipe.rollouts

    @property
    def spared(self) -> int:
        """What a short first version does not draw of that."""
        steps = max(0, self.recipe.steps - self.first_steps) if self.first_steps else 0
        return steps * self.recipe.tasks * self.recipe.group

    @property
    def designs(self) -> bool:
        """Whether anybody may change anything."""
        return self.engineers != ("fixed",)

    @property
    def explores(self) -> bool:
        return bool(self.explore) and self.only_knobs and self.designs

    @property
    def only_knobs(self) -> bool:
        return self.factors == ("knobs",)

    @property
    def title(self) -> str:
        return f"{self.name}: {', '.join(self.engineers)} on {self.domain}"

    def _repr_html_(self) -> str:
        from coevolve.core.html import table

        usual, own = (flat(one.model_dump(mode="json")) for one in (Plan(), self))
        rows = [
            {"setting": name, "value": value, "default": usual.get(name)}
            for name, value in own.items()
            if value != usual.get(name)
        ]
        return table(rows, f"{self.title}; settings that are not the default")


class Source(NamedTuple):
    """Where a setting of a plan comes from."""

    setting: str
    value: Any
    where: str


def load_plan(word: str | Path, changes: Mapping[str, Any] | None = None) -> Plan:
    """A preset by name, or a TOML file; errors name the field, the value and what is expected."""
    path = plan_file(word)
    written = written_in(path, changes or {})
    if not changes:
        return make_plan(written, str(path))
    try:
        return make_plan(merged(written, changes), "command line")
    except UserError:
        make_plan(written, str(path))  # what is wrong in the file is told of the file
        raise


def written_in(path: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says; knobs of its domain are none of another one."""
    values = read_toml(path)
    if changes.get("domain", domain := values.get("domain", "lake")) != domain:
        values.pop("knobs", None)
        if isinstance(values.get("target"), dict):
            values["target"].pop("knobs", None)
    return values


def plan_file(word: str | Path) -> Path:
    if isinstance(word, str) and (word.startswith(ADDRESSES) or word.endswith(DATA)):
        address = word if word.startswith(ADDRESSES) else f"data:{word}"
        raise UserError(
            f"'{word}' is no plan: tasks are named by -d: {typed('run', '-d', address)}"
        )
    is_path = isinstance(word, Path) or "/" in word or word.endswith(".toml")
    return Path(word) if is_path else lookup("plan", str(word), PRESETS)


def make_plan(values: Mapping[str, Any], where: str) -> Plan:
    """A plan from plain values."""
    return checked(Plan, values, where)


def explained(word: str | Path, changes: Mapping[str, Any]) -> list[Source]:
    """Every setting of a plan, its value, and where that comes from."""
    path = plan_file(word)
    written, given = flat(written_in(path, changes)), flat(changes)
    plan = flat(load_plan(word, changes).model_dump(mode="json"))
    named = path.name if path in PRESETS.values() else str(path)
    return [
        Source(
            name, value,
            "command line" if within(name, given) else named if within(name, written)
            else "default",
        )
        for name, value in plan.items()
    ]  # fmt: skip


def within(name: str, settings: Mapping[str, Any]) -> bool:
    """Whether a setting, or something inside it, was set."""
    return name in settings or any(one.startswith(f"{name}.") for one in settings)


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by their dotted names; tables of knobs stay whole."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and name != "knobs":
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged, everything else is replaced."""
    found = dict(values)
    for key, value in changes.items():
        old = found.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        found[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return found
