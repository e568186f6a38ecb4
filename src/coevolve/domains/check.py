"""The conformance suite: does a domain keep the promises of the protocol?

It ships with the package so that anybody's domain can be held to it: `coevolve check NAME`, or
`conformance(domain)`. Each finding says what was looked at and, if it failed, what was expected.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from operator import contains
from typing import NamedTuple

from coevolve.core.errors import place_of
from coevolve.core.names import several
from coevolve.core.rollout import Message, Outcome
from coevolve.core.seeds import derive
from coevolve.core.splits import Split, split_of
from coevolve.core.task import Task
from coevolve.domains.base import Domain, together
from coevolve.domains.giveaway import given_away
from coevolve.domains.knobs import Knob, Knobs
from coevolve.domains.turns import (
    TurnDomain,
    has_turns,
    insisted,
    is_game,
    played,
    players,
    turn_limit,
)

GIVEN = 0.8
"""Share of tasks that may be solved by what stands at one place of the prompt."""
GARBAGE = (
    "",
    " ",
    "0",
    "null",
    "[]",
    "{}",
    "yes",
    "<answer></answer>",
    "<answer>",
    "</answer><answer>",
    "\\boxed{42}",
    "[" * 5_000,
    "9" * 5_000,
    "\x00\ud7ff\U0001f9ca",
    "NaN",
    "I cannot solve this task.",
)


class Finding(NamedTuple):
    """The result of one check."""

    name: str
    passed: bool
    message: str


class Counts(NamedTuple):
    """How many tasks the suite looks at. A domain whose tasks are slow says so in `counts`."""

    sample: int = 60
    """For most checks."""
    many: int = 600
    """To compare seeds and workers."""
    split: int = 150
    """Of each split."""
    pushed: int = 80
    """At each end of each knob."""


def counts_of(domain: Domain) -> Counts:
    return getattr(domain, "counts", Counts())


class Failure(Exception):
    """What a check found wrong."""


def conformance(domain: Domain, seed: int = 0) -> Iterator[Finding]:
    """Run every check; a check that fails or breaks does not keep the others from running."""

    @cache
    def tasks() -> list[Task]:
        """What most checks look at; none of them can pass without any."""
        count = counts_of(domain).sample
        made = list(domain.generate(domain.space.defaults(), count, seed, Split.DEV))
        expect(bool(made), "there are no tasks to look at")
        return made

    return examined(
        {
            "declarations": lambda: declarations(domain, tasks()),
            "same seed, same tasks": lambda: same_tasks(domain, seed),
            "splits are disjoint": lambda: disjoint_splits(domain, seed),
            "the oracle earns full reward": lambda: oracle(domain, tasks()),
            "empty, constant and garbage answers earn nothing": lambda: garbage(domain, tasks()),
            "answers to other tasks earn little": lambda: swapped(domain, tasks()),
            "verifying twice agrees": lambda: verify_twice(domain, tasks()),
            "the prompt does not leak the solution": lambda: no_leak(domain, tasks()),
            "tasks survive a round trip": lambda: round_trip(domain, tasks()),
            "episodes come to a verdict": lambda: episodes(domain, tasks()),
            "random and projected knobs are valid": lambda: knobs_valid(domain, seed),
            "every knob moves its statistic": lambda: knobs_move(domain, seed),
        }
    )


def examined(checks: Mapping[str, Callable[[], str]]) -> Iterator[Finding]:
    """The findings of checks; each says what it looked at, or raises what is wrong. What breaks
    several in the same way is told once."""
    raised = dict[str, str]()
    for name, check in checks.items():
        try:
            yield Finding(name, True, check())
        except Failure as failure:
            yield Finding(name, False, str(failure))
        except Exception as error:  # the capture point of a suite: what breaks is a finding
            told = f"raised {type(error).__name__}: {error}{place_of(error)}"
            first = raised.setdefault(told, name)
            yield Finding(name, False, told if first == name else f"raised the same as '{first}'")


def expect(holds: bool, message: str) -> None:
    if not holds:
        raise Failure(message)


def declarations(domain: Domain, tasks: list[Task]) -> str:
    expect("oracle" in domain.scripts, "scripts has no 'oracle'")
    expect(bool(domain.styles), "styles is empty; name at least one prompt style")
    count = counts_of(domain).sample
    expect(len(tasks) == count, f"asked for {count} tasks, got {len(tasks)}")
    for task in tasks:
        missing = set(domain.buckets) - set(task.bucket)
        expect(not missing, f"task {task.id} lacks the bucket labels {sorted(missing)}")
        expect(task.domain == domain.name, f"task {task.id} says domain '{task.domain}'")
    knobs, failures = len(domain.space.knobs), len(domain.failures)
    return f"{several(knobs, 'knob')}, {several(failures, 'failure class')}"


def same_tasks(domain: Domain, seed: int) -> str:
    knobs, count = domain.space.defaults(), counts_of(domain).many
    alone = list(domain.generate(knobs, count, seed, Split.TRAIN, workers=1))
    together = list(domain.generate(knobs, count, seed, Split.TRAIN, workers=2))
    expect(alone == together, "one and two worker processes gave different tasks")
    few = min(7, count)
    fewer = list(domain.generate(knobs, few, seed, Split.TRAIN))
    expect(alone[:few] == fewer, f"asking for {few} tasks is no beginning of asking for {count}")
    other = list(domain.generate(knobs, count, derive(seed, "other"), Split.TRAIN))
    common = {task.id for task in alone} & {task.id for task in other}
    expect(len(common) < count // 2, f"another seed gave {len(common)} of {count} equal tasks")
    return f"{count} tasks with 1 and 2 workers"


def disjoint_splits(domain: Domain, seed: int) -> str:
    knobs = domain.space.defaults()
    homes: dict[int, Split] = {}
    for split in Split:
        for task in domain.generate(knobs, counts_of(domain).split, seed, split):
            mark = domain.fingerprint(task)
            expect(split_of(mark) is split, f"task {task.id} in '{split}' belongs elsewhere")
            expect(homes.setdefault(mark, split) is split, f"task {task.id} is in two splits")
    return f"{len(homes)} distinct tasks in 4 splits"


def oracle(domain: Domain, tasks: list[Task]) -> str:
    if is_game(domain, tasks):
        for task in tasks:
            won(domain, task)
        return f"{len(tasks)} games that its player `oracle` wins"
    given = {domain.oracle(task) for task in tasks}
    expect(
        len(given) > 1,
        f"all {len(tasks)} tasks have the same solution, {min(given)!r:.60}: a policy that always "
        "says that is always right. Where no single answer wins, name a scripted player `oracle` "
        "in `players`",
    )
    for task in tasks:
        for style in domain.styles:
            outcome = domain.verify(task, domain.oracle(task, style))
            right = outcome.valid and outcome.optimal and outcome.failure is None
            expect(right, f"task {task.id}, style {style}: the oracle failed: {outcome.failure}")
            expect(
                abs(outcome.reward - domain.full_reward) < 1e-9,
                f"task {task.id}: the oracle earned {outcome.reward}, not {domain.full_reward}",
            )
            unknown = set(outcome.components) - set(domain.components)
            expect(not unknown, f"undeclared reward components {sorted(unknown)}")
    return f"{several(len(tasks), 'task')} in {several(len(domain.styles), 'style')}"


def garbage(domain: Domain, tasks: list[Task]) -> str:
    """A constant may happen to be right; for more than one task in ten it may not."""
    rng = random.Random(0)
    answers = [*GARBAGE, "".join(chr(rng.randrange(32, 0x2FF)) for _ in range(300))]
    lucky = Counter[str]()
    for task in tasks[:20]:
        for text in (*answers, domain.prompt(task)[-1].content):
            outcome = domain.verify(task, text)
            if outcome.valid and outcome.failure is None and text in GARBAGE:
                lucky[text] += 1
                continue
            expect(
                not outcome.valid and outcome.reward <= 0 and outcome.failure in domain.failures,
                f"task {task.id}: the answer {text[:40]!r} gave reward {outcome.reward} and "
                f"failure {outcome.failure!r}",
            )
    if has_turns(domain) and not domain.tools:  # what an episode pays is not what `verify` says
        for task in tasks[:20]:
            lucky.update(text for text in answers if insisted(domain, task, text).valid)
    for text, count in lucky.items():
        expect(count <= 2, f"{count} of {len(tasks[:20])} tasks accept the answer {text[:40]!r}")
    return f"{len(answers) + 1} answers to each of {len(tasks[:20])} tasks"


def swapped(domain: Domain, tasks: list[Task]) -> str:
    """Tasks whose answer is the same, as where it is yes or no, do not count."""
    pairs = list(zip(tasks, tasks[1:] + tasks[:1], strict=True))
    lucky = sum(
        domain.oracle(other) != domain.oracle(task)
        and domain.verify(task, domain.oracle(other)).valid
        for task, other in pairs
    )
    expect(lucky <= len(tasks) // 4, f"{lucky} of {len(tasks)} accept another task's solution")
    return f"{lucky} of {len(tasks)} tasks accept the solution of another"


def verify_twice(domain: Domain, tasks: list[Task]) -> str:
    verify_all = together(domain)
    for name, script in domain.scripts.items():
        texts = [script(task, random.Random(derive(0, task.id)), "") for task in tasks]
        at_once = verify_all(tasks, texts, [None] * len(tasks)) if verify_all else None
        for place, (task, text) in enumerate(zip(tasks, texts, strict=True)):
            found = domain.verify(task, text)
            again = at_once[place] if at_once else domain.verify(task, text)
            expect(
                found == again, f"task {task.id}, policy {name}: two verdicts on one answer differ"
            )
    return f"{len(tasks)} tasks, {len(domain.scripts)} scripted policies"


def no_leak(domain: Domain, tasks: list[Task]) -> str:
    """A short solution may happen to stand in a prompt; that of one task in ten may not. Nor may
    what stands at one place of the prompt solve the tasks."""
    texts = {
        style: [
            "\n".join(message.content for message in domain.prompt(task, style)) for task in tasks
        ]
        for style in domain.styles
    }
    for answer_style in domain.styles:
        solutions = [domain.oracle(task, answer_style) for task in tasks]
        for style, prompts in texts.items():
            leaks = sum(map(contains, prompts, solutions))
            expect(
                leaks <= len(tasks) // 10,
                f"style {style}: {leaks} of {len(tasks)} prompts hold the solution",
            )
            before, answers = given_away(prompts, solutions)
            tried = zip(tasks, answers, strict=False)  # none where no prompt holds its solution
            right = sum(domain.verify(task, answer).optimal for task, answer in tried)
            expect(
                right <= GIVEN * len(tasks),
                f"style {style}: what stands behind '{before}' in the prompt solves {right} of "
                f"{len(tasks)} tasks; leave the answer out of the prompt",
            )
    return f"{several(len(tasks), 'prompt')} in {several(len(domain.styles), 'style')}"


def round_trip(domain: Domain, tasks: list[Task]) -> str:
    for task in tasks[:20]:
        back = domain.load(Task.model_validate_json(task.model_dump_json()).model_dump(mode="json"))
        same = (back.id, back.split) == (task.id, task.split)
        expect(same, f"task {task.id} came back as {back.id} in {back.split}")
        expect(
            domain.verify(back, domain.oracle(task)).optimal,
            f"task {task.id}: after a round trip its solution is no longer optimal",
        )
    return f"{len(tasks[:20])} tasks"


def episodes(domain: Domain, tasks: list[Task]) -> str:
    """Of a domain whose tasks take several turns: played with the oracle's answer, and without."""
    if not has_turns(domain):
        return "one turn each"
    turns, tools = getattr(domain, "turns", None), getattr(domain, "tools", None)
    expect(
        isinstance(turns, int) and turns > 0,
        f"it has `begin`, but turns = {turns!r}: say how many turns a policy may take at most",
    )
    expect(
        isinstance(tools, tuple),
        f"it has `begin`, but tools = {tools!r}: name the methods of an episode that a policy may "
        "call, or () where it speaks in plain text",
    )
    few, others = tasks[:3], tasks[1:4]
    took = [
        repeated(domain, task, text)
        for task, other in zip(few, others, strict=False)
        for text in ("0", domain.oracle(other), domain.oracle(task))
    ]
    for task in few if not domain.tools else ():
        said = won(domain, task)
        took.append(len(said))
        took += [repeated(domain, task, GARBAGE[0], said[:turn]) for turn in range(1, len(said))]
    return f"{len(took)} episodes of up to {max(took, default=0)} turns"


def won(domain: TurnDomain, task: Task) -> list[str]:
    """What is said in an episode that the oracle plays: the player of that name, or its answer at
    every turn."""
    player, rng = players(domain).get("oracle"), random.Random(derive(0, task.id))
    episode = domain.begin(task)

    def turn(messages: tuple[Message, ...]) -> str:
        return player(task, rng, messages) if player else domain.oracle(task)

    said = played(episode, turn_limit(domain, task), turn, domain.prompt(task))
    found = episode.outcome(said[-1].text)
    expect(
        found.valid and abs(found.reward - domain.full_reward) < 1e-9,
        f"task {task.id}: an episode that the oracle plays ends with {found.failure or 'valid'} "
        f"and reward {found.reward:g}, not {domain.full_reward:g}. Where no single answer wins, "
        "name a scripted player `oracle` in `players`",
    )
    return [one.text for one in said]


def repeated(domain: TurnDomain, task: Task, text: str, first: Sequence[str] = ()) -> int:
    """Turns until an episode is over in which the same is said again and again, after a good
    beginning."""
    episode, limit = domain.begin(task), turn_limit(domain, task)
    for name in domain.tools:
        expect(callable(getattr(episode, name, None)), f"its episodes have no tool '{name}'")
    turns = 0
    heard: str | None = ""
    while turns < limit and heard is not None:
        turns, heard = turns + 1, episode.reply(first[turns] if turns < len(first) else text)
        wanted = heard is None or isinstance(heard, str)
        expect(wanted, f"`reply` gave {heard!r:.60}: text, or None at the end")
    found = episode.outcome(text)
    expect(isinstance(found, Outcome), f"`outcome` gave {found!r:.60}, no Outcome")
    expect(
        found.valid if found.failure is None else found.failure in domain.failures,
        f"task {task.id}: an episode ended with valid = {found.valid}, failure = {found.failure!r}",
    )
    return turns


def knobs_valid(domain: Domain, seed: int) -> str:
    space = domain.space
    hostile: list[dict[str, object]] = [
        dict.fromkeys(space.knobs, value)
        for value in (float("nan"), 1e308, -1e308, 0.0, 1, "0.5", None, [1], 10**400)
    ]
    for index in range(10):
        knobs = space.random(derive(seed, index))
        expect(dict(space.parse(dict(knobs))) == dict(knobs), "random knobs do not parse")
        hostile.append(dict.fromkeys(islice(space.knobs, index), (-1.0) ** index * 10.0**index))
    for changes in hostile:
        knobs = space.project(changes)
        again = space.project(dict(knobs))
        drift = max((abs(knobs[name] - again[name]) for name in knobs), default=0.0)
        expect(drift < 1e-9, "projecting twice is not the same as projecting once")
        space.parse(dict(knobs))
        made = list(domain.generate(knobs, 3, seed, Split.TRAIN))
        expect(len(made) == 3, "projected knobs generate nothing")
    return f"10 random and {len(hostile)} projected settings, all generate"


def knobs_move(domain: Domain, seed: int) -> str:
    """Push each knob down and up in a setting where it matters, and watch what it names."""
    defaults, count = domain.space.defaults(), counts_of(domain).pushed
    for knob in domain.space.knobs.values():
        values = {}
        for end in ("low", "high"):
            knobs = pushed(domain, defaults, knob, end)
            tasks = list(domain.generate(knobs, count, derive(seed, knob.name), Split.TRAIN))
            found = domain.statistics(tasks).get(knob.name)
            values[end] = (knobs[knob.name], found.value if found else 0.0)
        (low, low_value), (high, high_value) = values["low"], values["high"]
        expect(high > low, f"{knob.name} cannot be pushed: {low:g} to {high:g}")
        expect(
            high_value > low_value,
            f"{knob.name} from {low:g} to {high:g} moved '{knob.moves}' from {low_value:.3g} to "
            f"{high_value:.3g}",
        )
    return f"{several(len(domain.space.knobs), 'knob')} pushed, {several(count, 'task')} each way"


def pushed(domain: Domain, base: Knobs, knob: Knob, end: str) -> Knobs:
    """Knobs near `base` with one knob at an end of its range and its own group in use."""
    target = knob.low if end == "low" else knob.high
    changes: dict[str, float] = dict(base)
    prefix = f"{knob.prefix}."
    for members in domain.space.groups.values():
        for name in members:
            if name.startswith(prefix) and name != knob.name:
                changes.update(dict.fromkeys(members, 0.0))
                changes[name] = 1.0
    changes[knob.name] = target
    if knob.group:
        members = domain.space.groups[knob.group]
        if end == "high":
            changes.update(dict.fromkeys(members, 0.0))
            changes[knob.name] = 1.0
        elif not any(changes[name] for name in members):
            changes[next(name for name in members if name != knob.name)] = 1.0
    return domain.space.project(changes)
