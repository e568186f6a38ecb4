"""Trainers by name: the rules, engineers of knobs, or any model."""

from collections.abc import Callable

from coevolve.core.names import lookup
from coevolve.engineers.knob_trainer import REACH, KnobTrainer
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.model_trainer import ModelTrainer
from coevolve.engineers.registry import BAD, ENGINEERS, make_engineer
from coevolve.engineers.rules import RulesTrainer
from coevolve.engineers.trainer import Trainer
from coevolve.policies.base import Policy


def make_trainer(
    name: str,
    library: SkillLibrary,
    load: Callable[[str], Policy] | None = None,
    reach: float = REACH,
) -> Trainer:
    """The trainer called `name`; what is no rule is a policy that `load` finds."""
    if name == RulesTrainer.name:
        return RulesTrainer(library)
    if load is None:
        lookup("trainer", name, {RulesTrainer.name: None, **ENGINEERS, **BAD})
    if load is None or name in ENGINEERS or name in BAD:
        return KnobTrainer(make_engineer(name), reach)
    return ModelTrainer(name, load(name), library)
