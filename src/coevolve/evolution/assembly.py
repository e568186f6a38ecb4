"""Putting a run together: from a plan to rounds or a tree that can be run or resumed."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.domains.base import Domain
from coevolve.domains.registry import get_domain
from coevolve.engineering.engineer import TaughtEngineer
from coevolve.engineers.base import Engineer
from coevolve.engineers.context import MODULES
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.model import ModelEngineer
from coevolve.engineers.registry import BAD, ENGINEERS, make_engineer
from coevolve.engineers.rules import RulesTrainer
from coevolve.engineers.trainer import Trainer
from coevolve.engineers.trainers import make_trainer
from coevolve.engines.base import Engine, Observe
from coevolve.evolution.backtests.reward import check_names
from coevolve.evolution.evolving import Evolving
from coevolve.evolution.growing import Grow, one_by_one
from coevolve.evolution.learning import OWN
from coevolve.evolution.measuring import measuring_of
from coevolve.evolution.rounds import Rounds
from coevolve.harness.evolution import Evolution, make_evolution
from coevolve.harness.experiment import Experiment, Plan, make_experiment
from coevolve.harness.rules import PATCH_BOUNDS, BacktestRule
from coevolve.ledger.ledger import Ledger
from coevolve.policies.base import Policy
from coevolve.policies.local import LocalPolicy
from coevolve.policies.models import anywhere
from coevolve.policies.registry import check_policy

MODELS = ("policy", "base")
"""Engineers that are the trainee itself: the current checkpoint, and the untrained one."""

Say = Callable[[str], None]
Refuse = Callable[[str, Collection[str]], None]
"""As an engine's `check`: takes a policy and a domain's scripts."""


def create(
    experiment: Experiment, folder: Path, engine: Engine, observe: Observe, say: Say
) -> Rounds:
    """A new run in `folder`, or the same one again."""
    check(experiment, check_plan(experiment, engine.check))
    experiment = experiment.model_copy(update={"policy": anywhere(experiment.policy)})
    ledger = Ledger.create(folder.resolve(), experiment.model_dump(mode="json"))
    return assembled(experiment, ledger, engine, observe, say)


def check_plan(plan: Plan, refuse: Refuse) -> Domain:
    """Refuse what no run can go by, before a folder is begun that could not be begun again."""
    domain = get_domain(plan.domain)
    refuse(plan.policy, domain.scripts)
    if plan.style:
        lookup("prompt style", plan.style, {name: name for name in domain.styles})
    domain.space.parse(plan.measured.knobs)
    if plan.budget.money is not None and not any(plan.prices):
        raise UserError(
            f"budget.money = {plan.budget.money:g}, but prices = [0, 0]: nothing costs anything; "
            "give the money per million tokens read and written"
        )
    return domain


def check(experiment: Experiment, domain: Domain) -> None:
    """Refuse knobs and names that nothing stands for, before anything is begun."""
    domain.space.parse(experiment.knobs)
    if not experiment.engineers:
        raise UserError("engineers = []: an experiment needs one; `fixed` changes nothing")
    for name in experiment.engineers:
        if is_model(name):
            if name not in MODELS:
                check_policy(name, domain)
        elif name not in BAD:
            lookup("engineer", name, dict.fromkeys((*MODELS, "smollm2", *ENGINEERS)))
    for name in experiment.context:
        lookup("context module", name, MODULES)
    for name in PATCH_BOUNDS:
        if getattr(experiment.backtest, name) != (usual := getattr(BacktestRule(), name)):
            raise UserError(
                f"backtest.{name} = {getattr(experiment.backtest, name)}: only trees of versions "
                f"have patches to hold to that; leave it at {usual}"
            )


def is_model(name: str) -> bool:
    return name in (*MODELS, "smollm2") or "/" in name


def plan_of(ledger: Ledger) -> Experiment | Evolution:
    """What a run was begun with."""
    where = str(ledger.folder / "ledger.db")
    if "versions" in ledger.config:
        return make_evolution(ledger.config, where)
    return make_experiment(ledger.config, where)


def reopen(folder: Path, engine: Engine, observe: Observe, say: Say) -> Rounds | Evolving:
    """A run that was begun."""
    ledger = Ledger.open(folder.resolve())  # what it records holds in any working directory
    plan = plan_of(ledger)
    if isinstance(plan, Evolution):
        return assembled_tree(plan, ledger, engine, observe, say)
    return assembled(plan, ledger, engine, observe, say)


def create_tree(
    evolution: Evolution, folder: Path, engine: Engine, observe: Observe, say: Say,
    grow: Grow | None = None,
) -> Evolving:  # fmt: skip
    """A new tree in `folder`, or the same one again; `grow` does the work of versions, if given."""
    domain = check_plan(evolution, engine.check)
    domain.space.parse(evolution.harness.knobs)
    check_names(evolution.harness.reward, domain)
    if not evolution.trainers:
        raise UserError("trainers = []: a tree needs a trainer; `rules` needs no model")
    for name in evolution.trainers:
        if not is_model(name):
            lookup("trainer", name, {RulesTrainer.name: None, **ENGINEERS})
        elif name not in MODELS:
            check_policy(name, domain)
    chosen = folder.resolve()  # versions may grow in processes that stand elsewhere
    skills = evolution.skills or chosen.parent / "skills"
    if skills.exists() and not skills.is_dir():
        raise UserError(f"{skills} is no folder; skills are kept as files in one")
    evolution = evolution.model_copy(
        update={"skills": skills.resolve(), "policy": anywhere(evolution.policy)}
    )
    ledger = Ledger.create(chosen, evolution.model_dump(mode="json"))
    return assembled_tree(evolution, ledger, engine, observe, say, grow)


def assembled_tree(
    evolution: Evolution, ledger: Ledger, engine: Engine, observe: Observe, say: Say,
    grow: Grow | None = None,
) -> Evolving:  # fmt: skip
    """The parts of a tree, put together."""
    measuring = measuring_of(evolution)
    return Evolving(
        evolution,
        ledger,
        measuring,
        trainers_of(evolution, measuring.load, ledger.folder / OWN),
        grow or one_by_one(engine, measuring, observe),
        evolution.skills or ledger.folder.parent / "skills",
        say,
    )


def trainers_of(
    evolution: Evolution, load: Callable[[str], tuple[Policy, str]], skills: Path
) -> Callable[[str], Mapping[str, Callable[[], Trainer]]]:
    """How to make the trainers of a checkpoint; a model is loaded no sooner than it is asked."""

    def one(name: str, checkpoint: str) -> Trainer:
        stands_for = {"policy": checkpoint, "base": evolution.policy}
        return make_trainer(
            name, SkillLibrary(skills), lambda chosen: load(stands_for.get(chosen, chosen))[0]
        )

    return lambda checkpoint: {name: partial(one, name, checkpoint) for name in evolution.trainers}


def assembled(
    experiment: Experiment, ledger: Ledger, engine: Engine, observe: Observe, say: Say
) -> Rounds:
    """The parts of a run, put together."""
    measuring = measuring_of(experiment)
    engineers = maker(experiment, measuring.load)
    return Rounds(experiment, ledger, measuring.domain, engine, engineers, measuring, observe, say)


def maker(
    experiment: Experiment, load: Callable[[str], tuple[Policy, str]]
) -> Callable[[str], Mapping[str, Callable[[], Engineer]]]:
    """How to make the engineers of a checkpoint; a model is loaded no sooner than it is asked."""

    def one(name: str, checkpoint: str) -> Engineer:
        if not is_model(name):
            return make_engineer(name)
        source = {"policy": checkpoint, "base": experiment.policy}.get(name, name)
        return asked(name, load(source)[0], experiment)

    return lambda checkpoint: {
        name: partial(one, name, checkpoint) for name in experiment.engineers
    }


def asked(name: str, policy: Policy, experiment: Experiment) -> Engineer:
    """A model as an engineer, asked the way it was taught, or else in plain words."""
    taught = isinstance(policy, LocalPolicy) and policy.loaded.style("engineering") == "table"
    if taught:
        return TaughtEngineer(name, policy)
    return ModelEngineer(name, policy, experiment.context, experiment.answer)
