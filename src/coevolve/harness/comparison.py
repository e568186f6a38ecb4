"""A comparison: arms that differ in a few settings of one plan, over the same seeds.

Invariant: arms of one seed share the policy and every held-out task, and draw as many rollouts, or
tokens, in training: twins, controls and probes are counted. What would break that is refused here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, StringConstraints, field_validator

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Value
from coevolve.harness.check import checked, read_toml
from coevolve.harness.plan import Plan, make_plan, merged

SHIPPED = {
    path.stem: path for path in (Path(__file__).parents[1] / "configs/compare").glob("*.toml")
}
"""Comparisons that come with the package, by name."""
SHARED = ("name", "domain", "policy", "small", "style", "seed", "target", "approval")
"""Settings of the plan that no arm may change."""
UNTRAINED = "untrained"
"""In the place of an arm: the policy that all arms begin with."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$")]


class Comparison(Value):
    """Arms and seeds."""

    name: Name
    seeds: tuple[int, ...] = Field(min_length=1)
    """In TOML a list, or how many, counted from 0."""
    tasks: int = Field(default=300, ge=8)
    """Fresh dev tasks per seed that every arm's last policy is measured on."""
    final: str = ""
    """Other tasks to measure them on: `suite:NAME`, a frozen suite of the domain, or a JSONL file.
    All of them are taken."""
    by: tuple[str, ...] = ()
    """Labels of these tasks, such as agents, that a second table is broken down by."""
    equal: Literal["rollouts", "tokens"] = "rollouts"
    """What every arm trains on equally much of; for tokens, set `recipe.tokens`."""
    plan: dict[str, Any] = {}
    """What all arms have in common: a sparse plan."""
    arms: dict[Name, dict[str, Any]] = Field(min_length=1)
    """What each arm changes of it. The first is what the others are compared with."""

    @field_validator("seeds", mode="before")
    @classmethod
    def counted(cls, value: Any) -> Any:
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        if value < 1:
            raise ValueError("give how many, 1 or more, or a list such as [0, 3, 7]")
        return range(value)

    @field_validator("seeds")
    @classmethod
    def distinct(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a seed is listed twice")
        return value

    @property
    def reference(self) -> str:
        return next(iter(self.arms))

    def plan_of(self, arm: str, seed: int) -> Plan:
        """The whole plan of one arm; for `untrained`, what all arms have in common."""
        changes = self.arms.get(arm, {})
        own = {"name": f"{self.name}-{arm}-{seed}", "seed": seed}
        values = merged(merged({"pay_probes": True, **self.plan}, changes), own)
        return make_plan(values, f"comparison {self.name}, arm {arm}")

    def jobs(self) -> list["Job"]:
        """Everything there is to do, seed by seed, so that early results can be compared."""
        return [
            Job(
                arm=arm, seed=seed, tasks=self.tasks, final=self.final, by=self.by,
                trains=arm != UNTRAINED, plan=self.plan_of(arm, seed),
            )
            for seed in self.seeds
            for arm in (UNTRAINED, *self.arms)
        ]  # fmt: skip


class Job(Value):
    """One arm with one seed."""

    arm: str
    seed: int
    tasks: int
    final: str = ""
    by: tuple[str, ...] = ()
    trains: bool
    """False: only measure the policy that the arms begin with."""
    plan: Plan
    weights: str = ""
    """A hash of the model's files, where it is a folder: all arms begin with the same."""

    @property
    def name(self) -> str:
        return f"{self.arm}/seed-{self.seed}"

    @property
    def phases(self) -> dict[str, int]:
        """How often it goes through each phase; `final` is its last measurement."""
        between = dict.fromkeys(("propose", "backtest"), self.plan.versions - 1)
        trained = self.plan.versions + controls(self.plan)
        first = {"base": 1, **({"clean": 1} if self.plan.target.clean else {})}
        training = {**first, **dict.fromkeys(("train", "dev", "gate"), trained), **between}
        return {**(training if self.trains else {}), "final": 1}


class Expected(NamedTuple):
    """Rollouts that an arm takes with one seed."""

    train: int
    """At most: what probes draw may be taken off it."""
    probe: int
    """At most: engineers may have nothing to propose."""
    measure: int


def expected(job: Job) -> Expected:
    """What an arm takes if nothing ends it early, but for measuring it on `final`."""
    plan, target = job.plan, job.plan.target
    fresh = 0 if job.final else job.tasks
    if not job.trains:
        return Expected(0, 0, fresh * target.samples)
    repeats = 0
    if plan.accept == "better" and target.temperature:
        repeats = plan.gate.repeats
    count = trainings(plan)
    clean = target.clean * (plan.versions + 1)
    tasks = target.gate * (count + 1 + repeats) + target.dev * count + clean + fresh
    train = count * plan.rollouts - plan.spared
    return Expected(train, probes(plan), tasks * target.samples)


def unpaid(comparison: Comparison) -> str:
    """Which arms may draw more to try changes than their later versions train on, so that it cannot
    be taken off training; empty where none may."""
    found = {}
    for job in comparison.jobs():
        counts, versions = expected(job), job.plan.versions
        if counts.probe > counts.train * (versions - 1) / versions:
            found[job.arm] = counts
    if not found:
        return ""
    arm, counts = max(found.items(), key=lambda item: item[1].probe)
    return (
        f"no fair comparison: {', '.join(found)} may draw more to try changes than is taken off "
        f"their training ({arm}: up to {counts.probe:,} rollouts, and {counts.train:,} trained "
        "on); train for more steps, or lower backtest.tasks"
    )


def probes(plan: Plan) -> int:
    """What engineers may have tried before versions are trained, and what is explored for them."""
    rule, recipe = plan.backtest, plan.recipe
    each = rule.tasks * rule.samples
    if rule.by in ("replay", "branch"):
        each = min(rule.steps, recipe.steps) * recipe.tasks * recipe.group
    tried = 0
    if plan.designs and rule.on and "knobs" in plan.factors:
        tried = (1 + min(plan.candidates, len(plan.engineers))) * each
    explored = plan.explore * rule.samples if plan.explores else 0
    return (plan.versions - 1) * (tried + explored)


def trainings(plan: Plan) -> int:
    """How many stages a run trains: versions, the twins of the first, and controls."""
    twins = plan.gate.twins if plan.accept == "better" else 0
    return plan.versions + twins + controls(plan)


def controls(plan: Plan) -> int:
    """At most: one beside every generation."""
    return -(-(plan.versions - 1) // plan.width) if plan.control else 0


def load_comparison(word: str, changes: Mapping[str, Any], only: Sequence[str] = ()) -> Comparison:
    """A shipped comparison by name, or a TOML file; `only` leaves out all other arms."""
    is_path = "/" in word or word.endswith(".toml")
    path = Path(word) if is_path else lookup("comparison", word, SHIPPED)
    return make_comparison(merged(read_toml(path), changes), str(path), only)


def make_comparison(values: Mapping[str, Any], where: str, only: Sequence[str] = ()) -> Comparison:
    """A comparison from plain values, whose arms can be compared."""
    found = checked(Comparison, values, where)
    for name in only:
        lookup("arm", name, found.arms)
    if only:
        kept = {name: arm for name, arm in found.arms.items() if name in only}
        found = found.model_copy(update={"arms": kept})
    if UNTRAINED in found.arms:
        raise UserError(f"{where}: '{UNTRAINED}' cannot name an arm: it is measured anyway")
    for name, arm in found.arms.items():
        if wrong := [key for key in arm if key in SHARED]:
            place = "give `seeds`" if wrong[0] == "seed" else "set it under [plan]"
            raise UserError(f"{where}: arm {name} sets {wrong[0]}, which all arms share; {place}")
    check_equal(found, where)
    return found


def check_equal(comparison: Comparison, where: str) -> None:
    """Refuse arms that would train on more than others."""
    plans = {name: comparison.plan_of(name, 0) for name in comparison.arms}
    counts = {name: trainings(one) * one.rollouts for name, one in plans.items()}
    parts = "steps x tasks x group"
    if comparison.equal == "tokens":
        counts = {name: trainings(one) * one.recipe.tokens for name, one in plans.items()}
        parts = "recipe.tokens"
    for name, one in plans.items():
        if limits := one.budget.limits():
            raise UserError(
                f"{where}: arm {name} has budget = {limits}, which would end some arms before "
                f"others; leave it out: all train on equally many {comparison.equal}"
            )
        if not counts[name] or (one.recipe.tokens and comparison.equal == "rollouts"):
            raise UserError(
                f"{where}: arm {name} has recipe.tokens = {one.recipe.tokens}, and arms are equal "
                f"by {comparison.equal}; "
                + ("set it" if not counts[name] else 'leave it out, or set equal = "tokens"')
            )
        if counts[name] != counts[comparison.reference]:
            raise UserError(
                f"{where}: arm {name} trains on {counts[name]} {comparison.equal} and "
                f"{comparison.reference} on {counts[comparison.reference]}; give them the same "
                f"trainings (versions, twins and controls) x {parts}"
            )
