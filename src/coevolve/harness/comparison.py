"""A comparison: arms that differ in a few settings of one experiment, over the same seeds.

Invariant: arms of one seed share the policy, the first knobs and every held-out task, and train on
equally many rollouts. Whatever would break that is refused here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, StringConstraints, field_validator

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Value
from coevolve.harness.checked import checked, read_toml
from coevolve.harness.experiment import Experiment, make_experiment
from coevolve.harness.rules import MOST_PROPOSALS

SHIPPED = {
    path.stem: path for path in (Path(__file__).parents[1] / "configs/compare").glob("*.toml")
}
"""Comparisons that come with the package, by name."""
SHARED = ("name", "domain", "policy", "style", "seed", "start", "knobs", "measured", "approval")
"""Settings of the experiment that no arm may change."""
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
    experiment: dict[str, Any] = {}
    """What all arms have in common: a sparse experiment."""
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

    def experiment_of(self, arm: str, seed: int) -> Experiment:
        """The whole experiment of one arm; for `untrained`, what all arms have in common."""
        changes = self.arms.get(arm, {})
        own = {"name": f"{self.name}-{arm}-{seed}", "seed": seed}
        values = merged(merged(self.experiment, changes), own)
        return make_experiment(values, f"comparison {self.name}, arm {arm}")

    def jobs(self) -> list["Job"]:
        """Everything there is to do, seed by seed, so that early results can be compared."""
        return [
            Job(
                arm=arm, seed=seed, tasks=self.tasks, trains=arm != UNTRAINED,
                experiment=self.experiment_of(arm, seed),
            )
            for seed in self.seeds
            for arm in (UNTRAINED, *self.arms)
        ]  # fmt: skip


class Job(Value):
    """One arm with one seed."""

    arm: str
    seed: int
    tasks: int
    trains: bool
    """False: only measure the policy that the arms begin with."""
    experiment: Experiment
    weights: str = ""
    """A hash of the model's files, where it is a folder: all arms begin with the same."""

    @property
    def name(self) -> str:
        return f"{self.arm}/seed-{self.seed}"

    @property
    def phases(self) -> dict[str, int]:
        """How often it goes through each phase; `final` is its last measurement."""
        rounds = self.experiment.rounds
        between = dict.fromkeys(("propose", "backtest"), rounds - 1)
        training = {"base": 1, **dict.fromkeys(("train", "dev", "gate"), rounds), **between}
        return {**(training if self.trains else {}), "final": 1}


class Expected(NamedTuple):
    """Rollouts that an arm takes with one seed."""

    train: int
    probe: int
    """At most: engineers may have nothing to propose."""
    measure: int


def expected(job: Job) -> Expected:
    """What an arm takes if nothing ends it early."""
    one = job.experiment
    if not job.trains:
        return Expected(0, 0, job.tasks * one.measured.samples)
    tasks = one.measured.gate * (one.rounds + 1) + one.measured.dev * one.rounds + job.tasks
    candidates = 1 + MOST_PROPOSALS * len(one.engineers)
    probes = (one.rounds - 1) * candidates * one.backtest.tasks * one.backtest.samples
    return Expected(trained(one), probes if one.backtest.on else 0, tasks * one.measured.samples)


def trained(experiment: Experiment) -> int:
    """Rollouts that all rounds train on."""
    recipe = experiment.recipe
    return experiment.rounds * recipe.steps * recipe.tasks * recipe.group


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
        raise UserError(f"{where}: '{UNTRAINED}' is no name for an arm: it is measured anyway")
    for name, arm in found.arms.items():
        if wrong := [key for key in arm if key in SHARED]:
            place = "give `seeds`" if wrong[0] == "seed" else "set it under [experiment]"
            raise UserError(f"{where}: arm {name} sets {wrong[0]}, which all arms share; {place}")
    experiments = {name: found.experiment_of(name, 0) for name in found.arms}
    first = trained(experiments[found.reference])
    for name, one in experiments.items():
        if limits := one.budget.limits():
            raise UserError(
                f"{where}: arm {name} has budget = {limits}, which would end some arms before "
                "others; leave it out: all train on equally many rollouts"
            )
        if (count := trained(one)) != first:
            raise UserError(
                f"{where}: arm {name} trains on {count} rollouts and {found.reference} on "
                f"{first}; give them the same rounds x steps x tasks x group"
            )
    return found


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged, everything else is replaced."""
    found = dict(values)
    for key, value in changes.items():
        old = found.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        found[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return found
