"""Engineering as a domain: a task is the evidence of a training, an answer is a change of knobs.

The reward is the share of what the best design would add to the speed at which the trainee gets
better at the target: 1 for as much or more, 0 for doing nothing, less for harm. Answers are taken
as every engineer's are: projected, and kept within the trust region.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar, TypeVar

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Message, Outcome
from coevolve.core.seeds import derive
from coevolve.core.splits import Split, check_split, split_of
from coevolve.core.task import Label, Task, whole_task
from coevolve.domains.base import Script, Statistic
from coevolve.domains.chunks import in_chunks
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.domains.registry import get_domain
from coevolve.engineering import lessons, table
from coevolve.engineering.oracle import best_design
from coevolve.engineering.trainee import Trainee, gain, kinds, tied
from coevolve.engineers import breakdown
from coevolve.engineers.base import Past, View, proposals_of
from coevolve.engineers.context import VARIANTS
from coevolve.engineers.model import EditsAnswer, WholeAnswer, messages, schema
from coevolve.engineers.reach import apply, edited, variation
from coevolve.engineers.registry import ENGINEERS, make_engineer
from coevolve.engineers.signals import standing
from coevolve.policies.form import Unusable, only_object, read_answer
from coevolve.store.cells import NOTHING, Cell, pooled

STYLES = ("chat", "table", *VARIANTS)
"""In the words of a run, answered with edits; the table of small models; the modules of one of the
paper's variants, answered with a whole configuration."""
HALF, WHOLE = 0.5, 0.95
"""Shares of that gain that a valid and an optimal answer bring at least."""
WORST = -0.5
"""What the greatest harm earns."""
CHUNK = 64
"""Lessons that a worker process makes at a time; fewer are made without one."""
Form = TypeVar("Form", EditsAnswer, WholeAnswer)


@cache
def space_of(target: str) -> KnobSpace:
    return get_domain(target).space


def view_of(task: Task) -> View:
    """A task as any engineer sees a run."""
    return view_in(task.data)


def view_in(data: Mapping[str, Any]) -> View:
    """The same from the data of a task."""
    space, past = space_of(data["target"]), data["rounds"]
    history = tuple(
        Past(
            number=number,
            knobs=dict(knobs_of(space, found["knobs"])),
            train=tuple(map(Cell.model_validate, found["train"])),
            explored=tuple(map(Cell.model_validate, found["explored"])),
            dev=tuple(map(Cell.model_validate, found["dev"])),
            verdict="kept",
        )
        for number, found in enumerate(past)
    )
    training = {"round": len(past) - 1, "rounds": len(past) + 1}
    incumbent = knobs_of(space, past[-1]["knobs"])
    target = told(knobs_of(space, data["wanted"]))
    return View(space, incumbent, history, training, target, reach=lessons.REACH)


def told(target: Knobs) -> dict[str, Statistic]:
    """What tasks of a target look like, as engineers are told."""
    found: dict[str, Statistic] = {}
    for share in {knob.name: knob for kind in kinds(target) for knob in kind.shares}.values():
        for knob in (share, *tied(target, share)):
            found[knob.name] = Statistic(target[knob.name], lessons.DEV)
    return found


def knobs_of(space: KnobSpace, sparse: Mapping[str, float]) -> Knobs:
    return Knobs(space, {**space.defaults(), **sparse})


def rule(name: str) -> Script:
    """A rule as a policy: its first proposal, written as an answer."""

    def answer(task: Task, rng: random.Random, style: str) -> str:
        view = view_of(task)
        proposal = proposals_of(make_engineer(name).propose(view, rng.getrandbits(40)))[0]
        values = proposal.patch.value if proposal.patch else {}
        if style == "table":
            return table.write(view, apply(values, view.incumbent, view.reach))
        changed = {name: value for name, value in values.items() if name in view.space.knobs}
        return in_json(changed, proposal.words[:600] or name)

    return answer


def oracle(task: Task, _rng: random.Random, style: str) -> str:
    view, design = view_of(task), task.data["design"]
    said = table.write(view, design)
    if style == "table":
        return said
    exact = {
        name: value
        for name, value in table.read(view, said).items()
        if value or view.incumbent[name]
    }
    for digits in (2, 3, 4):  # as few as earn all of the reward
        values = {name: round(value, digits) for name, value in exact.items()}
        if outcome_of(task, view, values).reward == EngineeringDomain.full_reward:
            break
    reasons = "; ".join(weighed(view, design))
    return in_json(values, f"weights by target and solved on dev: {reasons}")


def weighed(view: View, design: Mapping[str, float]) -> list[str]:
    """What decided the weight of each share, in the numbers of the evidence, and what the weights
    of a group add up to: who learns to design from such answers learns one step at a time."""
    now, found = standing(view), []
    for group in view.space.groups:
        made = table.choices(view, design, group)
        for row, weight, actions in made:
            target = table.aimed(view, row.share)
            if not weight and not target:
                continue
            dev = pooled(now.dev, row.share.label) if row.share.label else NOTHING
            solved = breakdown.percent(dev) or "untried"
            moved = [
                f", {knob.suffix} {action}"
                for knob, action in zip(row.difficulties, actions, strict=True)
                if action != "same"
            ]
            found.append(
                f"{row.name} {breakdown.shown(target)}, {solved}: {weight}{''.join(moved)}"
            )
        found.append(f"{group} in all {sum(one.weight for one in made)}")
    return found


def in_json(values: Mapping[str, float], explanation: str) -> str:
    rounded = {name: round(value, 4) for name, value in values.items()}
    if not rounded:
        return json.dumps({"explanation": explanation, "edits": []})
    return json.dumps({"explanation": explanation, "knobs": rounded})


class EngineeringDomain:
    """Implements the `Domain` protocol, for engineers of one other domain."""

    name: ClassVar[str] = "engineering"
    summary: ClassVar[str] = "redesigning the tasks of a training from the evidence it left"
    space: KnobSpace = lessons.SPACE
    failures: ClassVar[Mapping[str, str]] = {
        "parse": "no table of actions and no JSON object with edits or knobs",
        "unknown": "names no knob that exists",
        "nothing": "changes nothing",
        "harm": "leaves the trainee less to learn for the target",
        "weak": "brings less than half of what could be gained",
    }
    components: ClassVar[Mapping[str, str]] = {
        "gain": "share of what the best design would gain; 0 for no change, less for harm",
    }
    buckets: ClassVar[tuple[str, ...]] = ("rounds", "rate", "rollouts")
    styles: ClassVar[tuple[str, ...]] = STYLES
    panels: ClassVar[tuple[str, ...]] = ("rate", "rollouts", "rounds")
    full_reward: ClassVar[float] = 1.0
    scripts: ClassVar[Mapping[str, Script]] = {
        "oracle": oracle,
        **{name: rule(name) for name in ENGINEERS},
    }
    suites: ClassVar[Mapping[str, Callable[[], Iterator[Task]]]] = {}

    def __init__(self, target: str = "lake") -> None:
        self.target = target

    def generate(
        self, knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1
    ) -> Iterator[Task]:
        make = partial(made, self.target, dict(knobs), seed, split)
        return in_chunks(make, count, workers, CHUNK)

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        view, style = view_of(task), self.style(style)
        if style == "table":
            return (Message(role="user", content=table.prompt(view)),)
        return messages(view, (style,), "whole") if style in VARIANTS else messages(view, ("V6",))

    def schema(self, style: str) -> str | None:
        """In plain words a model is held to edits of knobs that exist, as it is in a run; what is
        taught on lessons has learned its form."""
        if self.style(style) != "chat":
            return None
        return schema("edits", tuple(space_of(self.target).knobs))

    def style(self, style: str) -> str:
        return lookup("prompt style", style or STYLES[0], {name: name for name in STYLES})

    def oracle(self, task: Task, style: str = "") -> str:
        return oracle(task, random.Random(0), self.style(style))

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        view = view_of(task)
        try:
            values, named = read(view, text)
        except (table.TableError, Unusable, RecursionError) as error:
            return outcome(0.0, "parse", {"reason": str(error)})
        if named and not named & view.space.knobs.keys():
            return outcome(0.0, "unknown", {"reason": f"no knob is called {sorted(named)[0][:60]}"})
        return outcome_of(task, view, values)

    def fingerprint(self, task: Task) -> int:
        return fingerprint(task.data)

    def statistics(self, tasks: Sequence[Task]) -> dict[str, Statistic]:
        return measure(tasks)

    def solve(self, data: Mapping[str, Any]) -> dict[str, Any]:
        task = self.load(data)
        return {name: task.data[name] for name in ("design", "now", "best")}

    def draw(self, task: Task, text: str | None = None) -> str:
        """The evidence, and what an answer would make of the learning signal."""
        shown = "\n".join(message.content for message in messages(view_of(task), ("F", "H"))[1:])
        if text is None:
            return shown
        found = self.verify(task, text)
        verdict = found.failure or ("optimal" if found.optimal else "valid")
        return f"{shown}\n\n{text}\n\n{verdict}: {found.reward:.2f} of what the best design gains"

    def picture(self, task: Task, text: str | None, path: Path) -> None:
        raise UserError(f"cannot draw {path}: tasks of {self.name} are text only")

    def load(self, data: Mapping[str, Any]) -> Task:
        """A task from JSON values; what it says of itself is computed anew."""
        given = whole_task(data, self.name)
        try:
            real = solved(given.data)
            claimed = {name: float(given.data[name]) for name in ("now", "best", "reach")}
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise UserError(f"not a task of {self.name}: {error}"[:300]) from None
        if real is None:
            raise UserError(f"task {given.id} is not a lesson: nothing can be gained in it")
        for name, value in claimed.items():
            if not abs(value - real[name]) <= 1e-9:
                raise UserError(
                    f"task {given.id} claims that {name} is {value!r}, but it is {real[name]!r}"
                )
        check_split(fingerprint(given.data), given.split, given.id)
        return given


def read(view: View, text: str) -> tuple[dict[str, float], set[str]]:
    """The values in an answer, whichever form it has, and the knobs that it names."""
    if text.split(maxsplit=1)[:1] == [table.rows(view)[0].name]:
        values = table.read(view, text)
        return values, set(values)
    if "knobs" in only_object(text):
        values = whole(text, WholeAnswer).knobs
        return values, set(values)
    edits = whole(text, EditsAnswer).edits
    return edited(edits, view.incumbent, view.reach), {edit.knob for edit in edits}


def whole(text: str, form: type[Form]) -> Form:
    """An answer of some form."""
    found, failure = read_answer(text, form)
    if found is None:
        raise Unusable(failure)
    return found


def outcome(gain: float, failure: str | None, details: dict[str, Any]) -> Outcome:
    reward = min(max(gain, WORST), 1.0)
    return Outcome(
        valid=failure is None,
        optimal=failure is None and gain >= WHOLE,
        reward=reward,
        components={"gain": reward},
        failure=failure,
        details=details,
    )


def fingerprint(data: Mapping[str, Any]) -> int:
    return lessons.fingerprint(data["rounds"][0]["knobs"])


def made(
    target: str, values: Mapping[str, float], seed: int, split: Split, begin: int, end: int
) -> list[Task]:
    """The lessons number begin to end - 1."""
    knobs, space = Knobs(lessons.SPACE, values), space_of(target)
    seeds = [derive(seed, "engineering", place) for place in range(begin, end)]
    return [make(knobs, space, target, own, split) for own in seeds]


def make(knobs: Knobs, space: KnobSpace, target: str, seed: int, split: Split) -> Task:
    """The first lesson that the seed leads to in which anything can be gained."""
    for data in lessons.draw_lessons(knobs, space, target, seed, split):
        if found := solved(data):
            return task_of(data | found, seed)
    raise AssertionError(f"no lesson in {lessons.NEVER} draws from {dict(knobs)}")


def solved(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """The best design of a lesson and what it gains; None where that is hardly anything."""
    view = view_in(data)
    trainee = Trainee.model_validate(data["trainee"])
    wanted, reach = knobs_of(view.space, data["wanted"]), lessons.REACH
    offered = [row.share.name for row in table.rows(view)]
    design = best_design(trainee, view.incumbent, wanted, offered, reach)
    design = table.read(view, table.write(view, design))
    now, best = (
        gain(trainee, knobs, wanted)
        for knobs in (view.incumbent, apply(design, view.incumbent, reach))
    )
    if best < lessons.WORTH * now:
        return None
    return {"reach": reach, "now": now, "best": best, "design": design}


def outcome_of(task: Task, view: View, values: Mapping[str, float]) -> Outcome:
    """What some values of knobs are worth in a lesson that looks like that."""
    knobs = apply(values, view.incumbent, view.reach)
    if not knobs.difference(view.incumbent):
        return outcome(0.0, "nothing", {"reason": "no knob changes"})
    now, best, reached = task.data["now"], task.data["best"], worth(task, knobs)
    share = round((reached - now) / (best - now), 2)
    failure = "harm" if share < 0 else "weak" if share < HALF else None
    return outcome(share, failure, {"speed": reached, "before": now, "best": best})


def worth(task: Task, knobs: Knobs) -> float:
    """How fast the trainee of a lesson gets better at its target by training on some knobs."""
    trainee = Trainee.model_validate(task.data["trainee"])
    return gain(trainee, knobs, knobs_of(knobs.space, task.data["wanted"]))


def task_of(data: dict[str, Any], seed: int) -> Task:
    mark = fingerprint(data)
    return Task(
        id=f"engineering-{mark:016x}", domain="engineering", split=split_of(mark), seed=seed,
        bucket=bucket_of(data), data=data,
    )  # fmt: skip


def bucket_of(data: Mapping[str, Any]) -> dict[str, Label]:
    """Labels: how much was tried, how often it succeeded, and how many rounds are known."""
    n = sum(cell["n"] for cell in data["rounds"][-1]["train"])
    share = rate(data)
    return {
        "rounds": len(data["rounds"]),
        "rate": "low" if share < 1 / 3 else "high" if share > 2 / 3 else "middle",
        "rollouts": "few" if n < 400 else "many" if n > 1_600 else "some",
    }


def measure(tasks: Sequence[Task]) -> dict[str, Statistic]:
    """What lessons look like: for each knob, the statistic that it moves."""

    def over(value: Callable[[Task], float]) -> Statistic:
        return Statistic(sum(map(value, tasks)) / max(len(tasks), 1), len(tasks))

    def shares(task: Task) -> list[float]:
        """Of the first group, in use now or by default."""
        space, last = space_of(task.data["target"]), task.data["rounds"][-1]["knobs"]
        knobs = [space.knobs[name] for name in next(iter(space.groups.values()))]
        found = [(knob, last.get(knob.name, knob.default)) for knob in knobs]
        return [share for knob, share in found if share > 0 or knob.default > 0]

    def uneven(task: Task) -> float:
        used = [share for share in shares(task) if share > 0]
        return sum(abs(share - 1 / len(used)) for share in used) / 2

    def apart(task: Task) -> float:
        """How much of the first group the target has elsewhere than the first round."""
        space, data = space_of(task.data["target"]), task.data
        first, wanted = (knobs_of(space, k) for k in (data["rounds"][0]["knobs"], data["wanted"]))
        return variation(next(iter(space.groups.values())), first, wanted)

    def rough(task: Task) -> float:
        """How far shares are from the mean of their neighbours; unused ones are not."""
        hard: list[float] = list(task.data["trainee"]["harder"].values())
        middles = zip(hard, hard[1:], hard[2:], strict=False)
        return mean(abs(b - (a + c) / 2) for a, b, c in middles)

    return {
        "rate.mean": over(lambda task: rate(task.data)),
        "rollouts": over(lambda task: sum(c["n"] for c in task.data["rounds"][-1]["train"])),
        "rounds": over(lambda task: len(task.data["rounds"])),
        "irregular": over(rough),
        "spread": over(lambda task: task.data["trainee"]["spread"]),
        "lopsided": over(uneven),
        "several": over(lambda task: len(task.data["rounds"][-1]["train"])),
        "fewer": over(lambda task: mean(share == 0 for share in shares(task))),
        "apart": over(apart),
    }


def rate(data: Mapping[str, Any]) -> float:
    """The valid rate in the last round."""
    cells = data["rounds"][-1]["train"]
    return float(sum(cell["valid"] for cell in cells) / sum(cell["n"] for cell in cells))
