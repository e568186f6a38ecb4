"""What engines that keep a stage in a folder share: its description, its checks, its steps so far.

Invariant: a folder holds one stage; what would make it another one is named and refused.
"""

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.errors import EngineError, UserError
from coevolve.core.seeds import digest
from coevolve.core.splits import Split, check_split
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.registry import get_domain
from coevolve.engines.base import Observe, Progress, Stage, recorded_model
from coevolve.harness.recipe import Recipe
from coevolve.harness.reward import FACTS, check_reward
from coevolve.policies.models import LARGE, count_weights, find, under, weights_of
from coevolve.store.paths import Paths

Line = dict[str, Any]
"""A step that is done, with its metrics."""
RANK = 32
"""Of the adapters that are trained where nobody names one."""
DEAD, FEWEST = 0.95, 3
"""Share of dead groups from which on there is nothing to learn from; steps that can be compared."""
CUT = 0.5
"""Part of the answers that are cut off from which on it is told."""
METRICS = {"valid": "valid rate", "reward": "mean reward"}
TRL = "trl"
"""The engine that decides by the size of a model; others train all weights unless they are told."""


def domains_of(names: Iterable[str], known: dict[str, Domain] | None = None) -> dict[str, Domain]:
    """Domains by name; those in `known` need not be registered."""
    own = known or {}
    return {name: own[name] if name in own else get_domain(name) for name in dict.fromkeys(names)}


def components_of(domains: dict[str, Domain]) -> dict[str, str]:
    """Named reward components of all domains that are trained on."""
    return {k: meaning for one in domains.values() for k, meaning in one.components.items()}


def check_stage(stage: Stage, tasks: Sequence[Task], domains: dict[str, Domain]) -> None:
    """Refuse tasks of other splits, and a reward of what nobody measures."""
    for task in tasks:
        check_split(domains[task.domain].fingerprint(task), Split.TRAIN, task.id)
    check_reward(stage.reward, FACTS | components_of(domains))


def describe(stage: Stage, tasks: Sequence[Task]) -> dict[str, Any]:
    """A stage as JSON values, without what does not change its outcome, and with what is behind
    the names in it."""
    return {
        **stage.model_dump(mode="json", exclude={"folder", "root", "cluster"}),
        "model": recorded_model(stage),
        "weights": weights_of(stage.model),
        "tasks": digest(*(task.id for task in tasks)).hex(),
    }


def decided(recipe: Recipe, model: str, engine: str = TRL) -> Recipe:
    """The recipe with what it leaves open decided: adapters, from a billion weights on."""
    if recipe.lora != "auto":
        return recipe
    large = engine == TRL and count_weights(model) >= LARGE
    rank = RANK if large and under(find(model)) == find(model) else 0  # an adapter is trained on
    return recipe.model_copy(update={"lora": rank})


def settled(stage: Stage, engine: str = TRL) -> Stage:
    """The same with a stage, as it was when a stage in its folder was begun."""
    file, recipe = stage.folder / "stage.json", decided(stage.recipe, stage.model, engine)
    if stage.recipe.lora == "auto" and file.exists():
        begun = read(file)
        if begun.get("model") == recorded_model(stage):
            rank = begun.get("recipe", {}).get("lora", recipe.lora)
            recipe = recipe.model_copy(update={"lora": rank})
    return stage.model_copy(update={"recipe": recipe})


def another_stage(folder: Path, different: Sequence[str]) -> UserError:
    return UserError(
        f"{folder} holds another stage (different: {', '.join(different)}); give another folder, "
        "or delete this one"
    )


def no_stage(folder: Path, names: Sequence[str]) -> UserError:
    return UserError(
        f"{folder} holds other things than a stage ({', '.join(names[:3])}); give a folder that is "
        "new or empty"
    )


def policy_gone(folder: Path, policy: Path) -> EngineError:
    return EngineError(
        f"the stage in {folder} is done, but its {policy} is gone; delete the folder to train it "
        "again"
    )


def read(path: Path) -> dict[str, Any]:
    """A JSON object that was written whole."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"there is no {path}; give the folder of a stage") from None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise EngineError(f"{path} is damaged; delete {path.parent} to train it again")
    return found


def read_steps(file: Path) -> list[Line]:
    """The steps in a file so far, up to a line that is not whole."""
    found: list[Line] = []
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            values = json.loads(line)
        except ValueError:
            break
        if not isinstance(values, dict) or not isinstance(values.get("step"), int):
            break
        found.append(values)
    return found


def steps_of(folder: Path, versions: Iterable[int]) -> Iterator[Line]:
    """Every metric of every step of versions of a run."""
    for number in versions:
        for line in read_steps(Paths(folder.resolve()).version(number) / "stage" / "steps.jsonl"):
            yield {"version": number, **line}


def learned(lines: Sequence[Line]) -> str:
    """Whether training moved what it is paid for: the first third of its steps beside the last.
    Every step has tasks of its own, so that is what chance counts."""
    from scipy.stats import ttest_ind

    third, metric = len(lines) // 3, "valid" if lines and "valid" in lines[-1] else "reward"
    values = [numbers(line).get(metric) for line in lines]
    known = [value for value in values if value is not None]
    dead = [share for line in lines if (share := numbers(line).get("dead")) is not None]
    if not lines or len(known) < len(lines):
        return ""
    if dead and sum(dead) >= DEAD * len(dead):
        return (
            f"It could not learn: in {sum(dead) / len(dead):.0%} of the groups all rollouts earned "
            "the same"
        )
    if third < FEWEST:
        return f"Too few steps to tell whether it learned ({len(lines)})"
    first, last = known[:third], known[-third:]
    before, after = sum(first) / third, sum(last) / third
    if len({*first, *last}) == 1:
        return f"No change: the {METRICS[metric]} was {before:.3g} throughout"
    low, high = ttest_ind(last, first, equal_var=False).confidence_interval()
    answer = (
        "It learned" if low > 0 else "It became worse" if high < 0
        else "No clear change"
    )  # fmt: skip
    return (
        f"{answer}: in training the {METRICS[metric]} went from {before:.3f} to {after:.3f} "
        f"({after - before:+.3f} [{low:+.3f}, {high:+.3f}], first and last {third} of {len(lines)} "
        "steps)"
    )


def doubt(progress: Progress, redesigned: bool = False) -> str:
    """Why training may come to nothing, by its first step of GRPO, and what to do; of tasks that
    engineers redesign, what they may do."""
    found = progress.metrics
    if progress.step != 1 or "dead" not in found:
        return ""
    if found.get("cut", 0.0) >= CUT:
        return f"{found['cut']:.0%} of the answers are cut off; raise max_tokens"
    if found["dead"] < 1:
        return ""
    nothing = "in every group of the first step all answers earn the same, so nothing is learned"
    valid = found.get("valid", 0.5)
    if valid in (0, 1) and redesigned:
        rest, kind = ("all are right", "harder") if valid else ("none is right", "easier")
        return f"{nothing}: {rest}; engineers may take {kind} tasks for the next version"
    if valid == 1:
        return f"{nothing}: all are right; take harder tasks"
    if valid == 0:
        return (
            f"{nothing}: none is right; show the policy solved tasks first (coevolve train warm), "
            "take easier tasks or a stronger policy, or ask it in another style"
        )
    return f"{nothing}; draw larger groups, or at a higher temperature"


def drawn(stage: Stage, lines: Iterable[Mapping[str, Any]]) -> int:
    """The rollouts behind steps; those of a step that draws some again are told in its line."""
    each = stage.recipe.tasks * stage.recipe.group if stage.kind == "grpo" else 0
    return sum(int(line.get("rollouts", each)) for line in lines)


def numbers(line: Line) -> dict[str, float]:
    """The metrics of a step that are numbers."""
    return {
        name: float(value)
        for name, value in line.items()
        if name != "step" and isinstance(value, int | float) and math.isfinite(value)
    }


class Follower:
    """Passes on the steps that another process writes down."""

    def __init__(self, file: Path, steps: int, observe: Observe | None) -> None:
        self.file, self.steps, self.observe = file, steps, observe or (lambda _progress: None)
        self.first = self.seen = len(read_steps(file))
        self.began = time.monotonic()

    def look(self) -> float:
        """Tell what is new; returns the seconds since the beginning."""
        lines, spent = read_steps(self.file), time.monotonic() - self.began
        pace = spent / max(1, len(lines) - self.first)
        for line in lines[self.seen :]:
            step = line["step"]
            self.observe(Progress(step, self.steps, numbers(line), pace * (self.steps - step)))
        self.seen = len(lines)
        return spent
