"""The engine protocol: a policy and tasks in, a better policy and its evidence out."""

import random
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from pydantic import Field

from coevolve.core.files import name_in
from coevolve.core.rollout import Value
from coevolve.core.seeds import derive
from coevolve.core.task import Task
from coevolve.harness.filters import Filter
from coevolve.harness.harness import OWN_REWARD
from coevolve.harness.recipe import Recipe, Sharding
from coevolve.harness.rules import ClusterRule, WatchRule
from coevolve.harness.wording import Wording


class Stage(Value):
    """One stretch of training, whole: the same stage on the same tasks gives the same policy."""

    kind: Literal["warm", "grpo"]
    """Supervised on oracle answers, or reinforcement learning."""
    model: str
    """The policy to start from: a name, folder or hub id."""
    recipe: Recipe = Recipe()
    reward: str = OWN_REWARD
    """An expression over the domain's reward components and facts of a rollout."""
    filters: tuple[Filter, ...] = ()
    """Which rollouts are learned from."""
    wording: dict[str, Wording] = {}
    """How the policy is asked, by domain; where that says nothing, as it was before."""
    style: str = ""
    """Prompt style, or DOMAIN=STYLE pairs; if empty, what the model was taught."""
    seed: int = 0
    folder: Path
    """Where everything about the stage is kept; an unfinished stage found there is resumed."""
    root: Path | None = None
    """A folder around it that may be moved as a whole: of what lies in there, records name the
    place relative to it."""
    device: str = ""
    processes: int = Field(default=1, ge=1, le=1_024)
    cluster: ClusterRule = ClusterRule()
    """Where it names workers, they are the processes, on the machines of a Ray cluster."""
    sharding: Sharding = "auto"
    save_every: int = Field(default=0, ge=0)
    """Steps between checkpoints; 0: a tenth of the steps, at least 1 and at most 50."""
    tracking: Literal["none", "trackio", "tensorboard", "wandb", "mlflow"] = "none"
    limits: WatchRule = WatchRule()

    @property
    def updates(self) -> int:
        """Optimiser updates per step."""
        return self.recipe.iterations if self.kind == "grpo" else 1


def recorded_model(stage: Stage) -> str:
    """The policy that a stage starts from, as it is recorded: the same wherever its run lies."""
    return name_in(stage.root, stage.model) if stage.root else stage.model


def order(available: int, wanted: int, seed: int) -> list[int]:
    """In which order a stage sees its tasks: `wanted` numbers below `available`, in passes that
    each hold every number once, in an order of their own."""
    found: list[int] = []
    while len(found) < wanted:
        once = list(range(available))
        random.Random(derive(seed, "order", len(found) // available)).shuffle(once)
        found += once
    return found[:wanted]


class Progress(NamedTuple):
    """Where a stage stands after a step."""

    step: int
    steps: int
    metrics: dict[str, float]
    seconds_left: float


class Result(Value):
    """What came of a stage."""

    policy: str
    """Folder of the resulting policy, or the starting one if there was no good checkpoint."""
    steps: int
    """Steps behind that policy."""
    stopped: str | None = None
    """Why the watch ended the stage early."""
    rollouts: int = 0
    tokens: int = 0
    """Read and drawn."""
    seconds: float = 0.0
    metrics: dict[str, float] = {}
    """Of the last step."""
    skills: dict[str, dict[str, float]] = {}
    """Of a warm start: general skills of the language model before and after, with n."""


Observe = Callable[[Progress], None]


class Engine(Protocol):
    """Anything that trains."""

    def check(self, model: str, scripts: Collection[str]) -> None:
        """Refuse a policy that cannot be trained, as a domain's scripts, before anything begins."""
        ...

    def train(self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        """Train, or finish what was begun in the stage's folder."""
        ...


@runtime_checkable
class Foresees(Protocol):
    """An engine that knows what a stage will take before it begins."""

    def foresee(
        self, stage: Stage, tasks: Sequence[Task], trainings: int = 1, here: bool = True
    ) -> str:
        """What so many trainings like this one will take of memory and disk, in a line; empty where
        that is little. What cannot fit is refused. `tasks` are some that are trained on; `here`
        tells whether this machine trains."""
        ...
