"""Putting a run together: from an experiment to rounds that can be run or resumed."""

from collections.abc import Callable, Mapping
from pathlib import Path

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.engineering.engineer import TaughtEngineer
from coevolve.engineers.base import Engineer
from coevolve.engineers.context import MODULES
from coevolve.engineers.model import ModelEngineer
from coevolve.engineers.registry import BAD, ENGINEERS, make_engineer
from coevolve.engines.base import Engine, Observe
from coevolve.evolution.measuring import measuring_of
from coevolve.evolution.rounds import Rounds
from coevolve.harness.experiment import Experiment, make_experiment
from coevolve.ledger.ledger import Ledger
from coevolve.policies.base import Policy
from coevolve.policies.local import LocalPolicy

MODELS = ("policy", "base")
"""Engineers that are the trainee itself: the current checkpoint, and the untrained one."""


Say = Callable[[str], None]


def create(
    experiment: Experiment, folder: Path, engine: Engine, observe: Observe, say: Say
) -> Rounds:
    """A new run in `folder`, or the same one again."""
    check(experiment)
    ledger = Ledger.create(folder, experiment.model_dump(mode="json"))
    return assembled(experiment, ledger, engine, observe, say)


def check(experiment: Experiment) -> None:
    """Refuse names that nothing stands for, before anything is begun."""
    for name in experiment.engineers:
        if name in ENGINEERS or name in (*MODELS, "smollm2"):
            continue
        if not name.startswith(("http://", "https://")) and "/" not in name:
            make_engineer(name)  # unknown: says so, with the nearest name
    for name in experiment.context:
        lookup("context module", name, MODULES)


def reopen(folder: Path, engine: Engine, observe: Observe, say: Say) -> Rounds:
    """A run that was begun."""
    ledger = Ledger.open(folder)
    experiment = make_experiment(ledger.config, str(folder / "ledger.db"))
    return assembled(experiment, ledger, engine, observe, say)


def assembled(
    experiment: Experiment, ledger: Ledger, engine: Engine, observe: Observe, say: Say
) -> Rounds:
    """The parts of a run, put together."""
    measuring = measuring_of(experiment)
    engineers = maker(experiment, measuring.load)
    return Rounds(experiment, ledger, measuring.domain, engine, engineers, measuring, observe, say)


def maker(
    experiment: Experiment, load: Callable[[str], tuple[Policy, str]]
) -> Callable[[str], Mapping[str, Engineer]]:
    """Engineers for a checkpoint: rules as they are, models with the experiment's context."""
    if not experiment.engineers:
        raise UserError("an experiment needs an engineer; `fixed` changes nothing")

    def make(checkpoint: str) -> dict[str, Engineer]:
        found: dict[str, Engineer] = {}
        for name in experiment.engineers:
            if name in ENGINEERS or name in BAD:
                found[name] = make_engineer(name)
                continue
            source = {"policy": checkpoint, "base": experiment.policy}.get(name, name)
            found[name] = asked(name, load(source)[0], experiment.context)
        return found

    return make


def asked(name: str, policy: Policy, context: tuple[str, ...]) -> Engineer:
    """A model as an engineer, asked the way it was taught, or else in plain words."""
    taught = isinstance(policy, LocalPolicy) and policy.loaded.style("engineering") == "table"
    return TaughtEngineer(name, policy) if taught else ModelEngineer(name, policy, context)
