"""The conformance suite for engines: does one keep the promises that runs are built on?

It ships with the package so that anybody's engine can be held to it:
`check_engine(get_engine("command:./train.sh"), "pocket", get_domain("lake"), folder)`. Each finding
says what was looked at and, if it failed, what was expected. Invariant: an engine that breaks is a
finding, never an error of the suite.
"""

from collections import Counter
from functools import cached_property, partial
from pathlib import Path

from coevolve.core.errors import CoevolveError, SplitError, UserError
from coevolve.core.rollout import Rollout
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.capture import verify
from coevolve.domains.check import Failure, Finding, examined, expect
from coevolve.domains.turns import has_turns
from coevolve.engines.base import Engine, Progress, Result, Stage
from coevolve.engines.stage import decided
from coevolve.evaluation.shape import shaped
from coevolve.harness.recipe import Recipe
from coevolve.policies.models import find

RECIPE = Recipe(steps=2, tasks=2, group=4, learning_rate=1e-4, max_tokens=40)
REWARD = "2 * reward - 0.001 * tokens"
"""Not the domain's own, so that an engine which trains on that is found out."""
TASKS = 3
"""Fewer than the steps want, so that some come twice."""
Looked = dict[str, tuple[int, int]]


def check_engine(
    engine: Engine, model: str, domain: Domain, folder: Path, recipe: Recipe = RECIPE
) -> list[Finding]:
    """All checks, in order; `folder` must be new or empty. A first stage that does not come to its
    end fails every check that looks at it."""
    subject = Subject(engine, model, domain, folder, recipe)
    checks = {
        "scripts are refused, models are not": scripts,
        "nothing is written outside the folder": stays_inside,
        "a stage ends with a policy in its folder": trains,
        "progress counts the steps": progress,
        "the policy loads and answers": answers,
        "every rollout is stored": stored,
        "stored verdicts are the domain's": verdicts,
        "shaped rewards are the harness's": shapes,
        "a finished stage is not trained again": again,
        "another stage in its folder is refused": refused,
        "tasks of another split are refused": other_split,
        "the same stage elsewhere gives the same policy": same_policy,
        "a stage ends when its tokens are used up": limited,
        "several updates on a batch draw it once": iterated,
    }
    return list(examined({name: partial(check, subject) for name, check in checks.items()}))


class Subject:
    """One engine under examination. Its first stage is trained when somebody first looks at it."""

    def __init__(
        self, engine: Engine, model: str, domain: Domain, folder: Path, recipe: Recipe
    ) -> None:
        self.engine, self.model, self.domain = engine, model, domain
        self.folder, self.recipe = folder.absolute(), decided(recipe, model, "")
        self.seen: list[Progress] = []

    def stage(self, name: str, seed: int = 0) -> Stage:
        return Stage(
            kind="grpo", model=self.model, recipe=self.recipe, reward=REWARD, seed=seed,
            folder=self.folder / name,
        )  # fmt: skip

    def tasks_of(self, split: Split) -> list[Task]:
        return list(self.domain.generate(self.domain.space.defaults(), TASKS, 0, split))

    @cached_property
    def tasks(self) -> list[Task]:
        return self.tasks_of(Split.TRAIN)

    @cached_property
    def first(self) -> "Result | Failure":
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            return self.engine.train(self.stage("first"), self.tasks, self.seen.append)
        except Exception as error:  # kept, so that it is not tried again for every check
            return Failure(f"the stage failed: {type(error).__name__}: {error}")

    @property
    def result(self) -> Result:
        """What came of the first stage."""
        if isinstance(self.first, Failure):
            raise self.first
        return self.first

    @cached_property
    def rollouts(self) -> list[Rollout]:
        """What the first stage has stored."""
        from coevolve.store.stages import stage_rollouts

        return list(stage_rollouts(Path(self.result.policy).parent, self.tasks))


def limited(subject: Subject) -> str:
    recipe = subject.recipe.model_copy(update={"tokens": 1})
    stage = subject.stage("limited").model_copy(update={"recipe": recipe})
    result = subject.engine.train(stage, subject.tasks)
    expect(result.stopped is None, f"the stage was stopped: {result.stopped}")
    expect(result.steps == 1, f"{result.steps} steps with tokens = 1, not 1")
    each = recipe.tasks * recipe.group
    expect(result.rollouts == each, f"{result.rollouts} rollouts in a step, not {each}")
    return f"over after {result.tokens} tokens"


def iterated(subject: Subject) -> str:
    """An engine may refuse them, but not pass them over."""
    from coevolve.policies.models import hash_of_weights

    recipe = subject.recipe.model_copy(update={"iterations": 2})
    stage = subject.stage("iterated").model_copy(update={"recipe": recipe})
    first, told = subject.result, list[Progress]()
    try:
        result = subject.engine.train(stage, subject.tasks, told.append)
    except CoevolveError as error:
        return f"refused: {error}"
    steps, drawn = (first.steps, first.rollouts), (result.steps, result.rollouts)
    expect(drawn == steps, f"{drawn} steps and rollouts with iterations = 2, not {steps}")
    expect(all(one.step <= recipe.steps for one in told), "progress counts updates, not steps")
    if getattr(subject.engine, "repeats", True):
        same = hash_of_weights(Path(first.policy)) == hash_of_weights(Path(result.policy))
        expect(not same, "iterations = 2 gives the policy of iterations = 1")
    return f"{result.rollouts} rollouts in {result.steps} steps, each learned from twice"


def scripts(subject: Subject) -> str:
    names = list(subject.domain.scripts)
    for name in names:
        try:
            subject.engine.check(name, names)
        except UserError:
            continue
        raise Failure(f"check('{name}') passes, but '{name}' is a script and has no weights")
    subject.engine.check(subject.model, names)
    return f"{len(names)} scripts refused, {subject.model} taken"


def stays_inside(subject: Subject) -> str:
    """Looks at what is near: the folder around the stage's, the working directory, the model.
    Nobody else may write there meanwhile."""
    subject.folder.mkdir(parents=True, exist_ok=True)
    places = [Path.cwd(), subject.folder]
    model = Path(find(subject.model))
    before, weights = [names_in(place) for place in places], looked(model)
    _ = subject.result
    for place, names in zip(places, before, strict=True):
        new = names_in(place) - names - {str(subject.folder), str(subject.folder / "first")}
        expect(not new, f"new beside the stage's folder: {', '.join(sorted(new))}")
    expect(looked(model) == weights, f"the model in {model} was changed")
    return f"the folders around it and the {len(weights)} files of the model are as before"


def names_in(place: Path) -> set[str]:
    return {str(path) for path in place.iterdir()}


def looked(folder: Path) -> Looked:
    """Every file below a folder with its size and time."""
    every = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in every}


def trains(subject: Subject) -> str:
    result, recipe = subject.result, subject.recipe
    home = subject.stage("first").folder
    expect(Path(result.policy).is_dir(), f"the policy {result.policy} is not a folder")
    expect(home in Path(result.policy).parents, f"the policy {result.policy} is not in {home}")
    expect(result.stopped is None, f"the stage was stopped: {result.stopped}")
    expect(result.steps == recipe.steps, f"{result.steps} steps, not {recipe.steps}")
    wanted = recipe.steps * recipe.tasks * recipe.group
    expect(result.rollouts == wanted, f"{result.rollouts} rollouts, not {wanted}")
    return f"{result.steps} steps, {result.rollouts} rollouts, {result.tokens} tokens"


def progress(subject: Subject) -> str:
    steps, last = subject.recipe.steps, 0
    _ = subject.result
    for one in subject.seen:
        expect(one.steps == steps, f"progress tells of {one.steps} steps, not {steps}")
        expect(last < one.step <= steps, f"step {one.step} was told after step {last} of {steps}")
        last = one.step
    return f"{len(subject.seen)} of {steps} steps told"


def answers(subject: Subject) -> str:
    from coevolve.policies.base import Prompt, Sampling
    from coevolve.policies.registry import get_policy

    policy, style = get_policy(subject.result.policy, subject.domain)
    prompts = [Prompt(subject.domain.prompt(task, style), task) for task in subject.tasks]
    found = policy.answer(prompts, Sampling(temperature=0.0, max_tokens=subject.recipe.max_tokens))
    expect(len(found) == len(prompts), f"{len(found)} answers to {len(prompts)} prompts")
    expect(all(one.completion_tokens for one in found), "an answer has no tokens")
    return f"{len(found)} answers, {sum(one.completion_tokens for one in found)} tokens"


def stored(subject: Subject) -> str:
    recipe, found, count = subject.recipe, subject.rollouts, subject.result.rollouts
    expect(len(found) == count, f"{len(found)} stored, {count} told")
    groups: dict[str, list[Rollout]] = {}
    for one in found:
        expect(0 <= one.step < recipe.steps, f"a rollout is of step {one.step}")
        groups.setdefault(one.group, []).append(one)
    for name, members in groups.items():
        expect(len({(one.step, one.task_id) for one in members}) == 1, f"group {name} is mixed")
        places = sorted(one.sample for one in members)
        expect(places == list(range(recipe.group)), f"group {name} holds the samples {places}")
    per_step = Counter(members[0].step for members in groups.values())
    for step in range(recipe.steps):
        count = per_step[step]
        expect(count == recipe.tasks, f"step {step} has {count} groups, not {recipe.tasks}")
    expect(any(one.completion_tokens for one in found), "no rollout tells its tokens")
    return f"{len(found)} rollouts in {len(groups)} groups"


def verdicts(subject: Subject) -> str:
    if has_turns(subject.domain):
        return "not looked at: the tasks take several turns"
    tasks = {task.id: task for task in subject.tasks}
    for one in subject.rollouts:
        text, tokens = one.messages[-1].content, one.completion_tokens or None
        outcome = verify(subject.domain, tasks[one.task_id], text, tokens)
        for name in ("reward", "valid", "optimal", "failure"):
            is_, was = getattr(one.outcome, name), getattr(outcome, name)
            expect(is_ == was, f"task {one.task_id}: {name} {is_} is stored, the domain says {was}")
    return f"{len(subject.rollouts)} verdicts"


def shapes(subject: Subject) -> str:
    wanted = shaped(REWARD, subject.rollouts, subject.domain.components).values
    for one, value in zip(subject.rollouts, wanted, strict=True):
        near = one.shaped is not None and abs(one.shaped - value) < 1e-9
        expect(near, f"task {one.task_id}: shaped {one.shaped}, and '{REWARD}' is {value}")
    return f"{len(wanted)} rewards by '{REWARD}'"


def again(subject: Subject) -> str:
    result, told = subject.result, list[Progress]()
    before = looked(Path(result.policy))
    second = subject.engine.train(subject.stage("first"), subject.tasks, told.append)
    expect(second == result, f"the second time gave {second}, not {result}")
    expect(not told, f"{len(told)} steps were told the second time")
    expect(looked(Path(result.policy)) == before, "the policy was written again")
    return "the same result, and nothing was done"


def refused(subject: Subject) -> str:
    _ = subject.result
    try:
        subject.engine.train(subject.stage("first", seed=1), subject.tasks)
    except UserError as error:
        return str(error)
    raise Failure("a stage with another seed was taken in the same folder; raise a UserError")


def other_split(subject: Subject) -> str:
    try:
        subject.engine.train(subject.stage("split"), subject.tasks_of(Split.DEV))
    except SplitError:
        return f"{TASKS} tasks of the split dev"
    raise Failure("tasks of the split dev were trained on; raise what `check_split` raises")


def same_policy(subject: Subject) -> str:
    from coevolve.policies.models import hash_of_weights

    first = Path(subject.result.policy)
    if not getattr(subject.engine, "repeats", True):
        return "not looked at: the engine says that it does not repeat"
    second = Path(subject.engine.train(subject.stage("second"), subject.tasks).policy)
    same = hash_of_weights(first) == hash_of_weights(second)
    expect(same, f"{first} and {second} differ; an engine that cannot repeat sets repeats = False")
    return "bit for bit"
