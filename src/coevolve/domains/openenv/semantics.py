"""The checks that OpenEnv's own `validate` names and leaves open, made on a running server.

What each id means is written in OpenEnv's RFC 008. Invariant: a check that cannot be made is
skipped with its reason, never passed; without determinism none of the meaning is judged.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from coevolve.core.errors import DomainError
from coevolve.domains.check import GARBAGE, Failure, expect
from coevolve.domains.openenv.connection import Line, Refused, Step, ask, timeless
from coevolve.domains.openenv.declaration import SCRIPT, USAGE, Resources
from coevolve.domains.openenv.domain import ServedDomain
from coevolve.domains.openenv.trials import Actions, Solution, Trial, attempt

MARGIN = 0.1
"""Least gap between doing nothing and the full reward, as OpenEnv's policy has it."""
UNKNOWN = "no solution is known: set COEVOLVE_ORACLE_TOKEN on both sides, or give --solutions FILE"
PRECONDITIONS = ("runtime.seed_control", "runtime.episode_determinism")
Measured = dict[str, Any]


class Result(NamedTuple):
    """One check, in the words of OpenEnv's reports."""

    check_id: str
    status: Literal["pass", "fail", "skip"]
    measured: Measured
    evidence: str


class Skip(Exception):
    """A check that cannot be made here."""


class Subject(NamedTuple):
    """A server with what is known about it."""

    domain: ServedDomain
    solutions: list[Solution]
    other: ServedDomain | None
    """The same environment served somewhere else."""
    resources: Resources

    def saying(self, text: str) -> Actions:
        """Nothing but this text, until it is over."""
        field = self.domain.answers.field
        if field is None:
            return []
        if self.domain.own:
            return [{field: text, "final": True}]
        return [{field: text}] * self.domain.turns

    def begin(self) -> list[dict[str, Any]]:
        return [s.reset for s in self.solutions] or [{"seed": seed} for seed in range(8)]

    def floor(self) -> float:
        """The most that doing nothing earns."""
        return max(attempt(self.domain, reset, self.saying("")).reward for reset in self.begin())


def examine(subject: Subject) -> Iterator[Result]:
    """All checks in order. Each fills in what it measured, and says what it looked at or raises
    what is wrong."""
    sound = True
    for name, check in CHECKS.items():
        measured: Measured = {}
        try:
            if not sound and name.startswith("semantic."):
                raise Skip(f"needs {' and '.join(PRECONDITIONS)} to pass")
            result = Result(name, "pass", measured, check(subject, measured))
        except Skip as reason:
            result = Result(name, "skip", {}, str(reason))
        except (Failure, DomainError, Refused) as error:
            result = Result(name, "fail", measured, str(error))
        if name in PRECONDITIONS:
            sound = sound and result.status == "pass"
        yield result


def seed_control(subject: Subject, measured: Measured) -> str:
    shown = [attempt(subject.domain, reset, []).first.observation for reset in subject.begin()]
    again = [attempt(subject.domain, reset, []).first.observation for reset in subject.begin()]
    differing = len({json.dumps(one, sort_keys=True) for one in shown})
    measured.update(seeds=len(shown), different_tasks=differing)
    expect(shown == again, "the same seed showed another task the second time")
    expect(differing > 1 or len(shown) == 1, "all seeds show the same task")
    return f"{len(shown)} seeds, {differing} tasks, the same twice"


def episode_determinism(subject: Subject, measured: Measured) -> str:
    pairs, domain = trajectories(subject), subject.domain
    twice = [[attempt(domain, *pair).written() for _ in range(2)] for pair in pairs]
    changed = [pair for pair, (one, two) in zip(pairs, twice, strict=True) if one != two]
    measured.update(trajectories=len(pairs), changed=len(changed))
    for reset, _ in changed:
        raise Failure(f"the same actions went another way: {reset}")
    return f"{len(pairs)} trajectories, the same twice"


def episode_isolation(subject: Subject, measured: Measured) -> str:
    """Two episodes at once must go as each goes alone."""
    pairs = trajectories(subject)
    (reset, actions), (other_reset, other_actions) = pairs[0], pairs[-1]
    alone = [attempt(subject.domain, *pair).written() for pair in (pairs[0], pairs[-1])]
    lines = [Line(subject.domain.address) for _ in range(2)]
    try:
        firsts = [lines[0].reset(reset), lines[1].reset(other_reset)]
        steps: list[list[Step]] = [[], []]
        for turn in range(max(len(actions), len(other_actions))):
            for side, wanted in enumerate((actions, other_actions)):
                if turn < len(wanted) and not (steps[side] and steps[side][-1].done):
                    steps[side].append(lines[side].step(wanted[turn]))
    except Refused as error:
        raise Failure(f"an action was refused in one of two sessions: {error}") from None
    except Exception as error:  # `Full`, or whatever else keeps a second session from existing
        raise Skip(f"two sessions at once are not possible: {type(error).__name__}") from None
    finally:
        for line in lines:
            line.close()
    together = [timeless([f, s, ""]) for f, s in zip(firsts, steps, strict=True)]
    measured.update(sessions=2)
    expect(together == alone, "two episodes at once went other ways than alone")
    return "two sessions by turns, as each alone"


def oracle_containment(subject: Subject, measured: Measured) -> str:
    if not subject.domain.own:
        raise Skip("the server keeps no solutions of its own")
    asked = {"script": "oracle", "reset": subject.begin()[0]}
    for guess in ("", "guess"):
        try:
            ask(subject.domain.address.base, SCRIPT, asked, guess)
        except DomainError:
            continue
        raise Failure("the oracle answers who does not know the token")
    return "the oracle is refused without the token, and with a wrong one"


def oracle_max(subject: Subject, measured: Measured) -> str:
    """Without a solution it fails: only what can be solved can be trusted to judge."""
    full = subject.domain.full_reward
    expect(bool(subject.solutions), UNKNOWN)
    rewards = [attempt(subject.domain, s.reset, s.actions).reward for s in subject.solutions]
    measured.update(episodes=len(rewards), least=min(rewards), full_reward=full)
    short = sum(reward < full - 1e-9 for reward in rewards)
    expect(not short, f"{short} of {len(rewards)} known solutions earn less than {full:g}")
    return f"{len(rewards)} known solutions earn {full:g}"


def floor_gap(subject: Subject, measured: Measured) -> str:
    floor, full = subject.floor(), subject.domain.full_reward
    measured.update(floor=floor, full_reward=full, margin=MARGIN)
    expect(full - floor >= MARGIN, f"doing nothing earns {floor:g} of {full:g}")
    return f"doing nothing earns {floor:g}, a solution {full:g}"


def canary_floor(subject: Subject, measured: Measured) -> str:
    """Answers that are known to be none may be right by accident: for one task in ten, not more."""
    floor, begins = subject.floor(), subject.begin()
    tried, high = 0, Counter[str]()
    for text in GARBAGE if subject.domain.answers.field is not None else ():
        rewards = [attempt(subject.domain, reset, subject.saying(text)).reward for reset in begins]
        tried += len(rewards)
        high[text] = sum(reward > floor for reward in rewards)
    for mine, theirs in zip(subject.solutions, subject.solutions[1:], strict=False):
        if mine.actions != theirs.actions:
            tried += 1
            reward = attempt(subject.domain, mine.reset, theirs.actions).reward
            high["another task's solution"] += reward >= subject.domain.full_reward
    if not tried:
        raise Skip("actions are not text and no solutions are known: there is nothing to try")
    measured.update(episodes=tried, floor=floor, above_by_accident=high.total())
    for worst, times in high.most_common(1):
        few = times <= max(1, len(begins) // 10)
        expect(few, f"{worst[:40]!r} earns more than nothing in {times} episodes")
    return f"{tried} episodes of canaries stay at the floor"


def no_solution_leakage(subject: Subject, measured: Measured) -> str:
    if not subject.solutions:
        raise Skip(UNKNOWN)
    leaks, count = 0, len(subject.solutions)
    for solution in subject.solutions:
        leaks += longest(solution) in attempt(subject.domain, solution.reset, []).seen()
    measured.update(episodes=count, leaks=leaks)
    few = leaks <= count // 10
    expect(few, f"{leaks} of {count} solutions stand in what is shown before the first action")
    return f"{count} solutions, none in what is shown before"


def longest(solution: Solution) -> str:
    """The longest text of a solution, as it would stand in JSON: short ones are commands."""
    texts = [v for action in solution.actions for v in action.values() if isinstance(v, str)]
    whole = json.dumps(list(solution.actions), ensure_ascii=False)
    return json.dumps(max(texts, key=len), ensure_ascii=False)[1:-1] if texts else whole


def verifier_determinism(subject: Subject, measured: Measured) -> str:
    verdicts, differing = 0, 0
    for reset, actions in trajectories(subject):
        found = [verdict(attempt(subject.domain, reset, actions)) for _ in range(3)]
        verdicts += len(found)
        differing += any(one != found[0] for one in found)
    measured.update(verdicts=verdicts, differing=differing)
    expect(not differing, f"{differing} trajectories were judged differently")
    return f"{verdicts} verdicts, three on each trajectory"


def verifier_portability(subject: Subject, measured: Measured) -> str:
    """Another process, in another folder, with another order of sets, language and time zone."""
    if subject.other is None:
        raise Skip("the environment runs in one place only: give --other URL")
    pairs = trajectories(subject)
    differing = [
        pair
        for pair in pairs
        if verdict(attempt(subject.domain, *pair)) != verdict(attempt(subject.other, *pair))
    ]
    measured.update(trajectories=len(pairs), differing=len(differing))
    for reset, _ in differing:
        raise Failure(f"judged differently elsewhere: {reset}")
    return f"{len(pairs)} trajectories judged alike in two places"


def resource_envelope(subject: Subject, measured: Measured) -> str:
    allowed = subject.resources
    seconds = max(attempt(subject.domain, r, a).seconds for r, a in trajectories(subject))
    used = ask(subject.domain.address.base, USAGE) if subject.domain.own else None
    memory = used["memory_mb"] if used else 0.0
    measured.update(episode_s=round(seconds, 3), memory_mb=round(memory))
    within = seconds <= allowed.episode_timeout_s and memory <= allowed.memory_mb
    expect(within, f"more than the declared {allowed.model_dump()}")
    told = f", {memory:.0f} MB of {allowed.memory_mb}" if used else "; its memory is not told"
    return f"{seconds:.2f} s of {allowed.episode_timeout_s:g}{told}"


def replayability(subject: Subject, measured: Measured) -> str:
    """What was written down of an episode is enough to have it again, in a new session."""
    count, changed = 0, 0
    for reset, actions in trajectories(subject):
        written = json.dumps([reset, actions, attempt(subject.domain, reset, actions).written()])
        again_reset, again_actions, before = json.loads(written)
        subject.domain.close()
        count += 1
        changed += attempt(subject.domain, again_reset, again_actions).written() != before
    measured.update(records=count)
    expect(not changed, f"{changed} of {count} records gave another episode")
    return f"{count} records, each played again as written"


def trajectories(subject: Subject) -> list[tuple[dict[str, Any], Actions]]:
    """What is known to be right, and what is known to be wrong."""
    right: list[tuple[dict[str, Any], Actions]] = [(s.reset, s.actions) for s in subject.solutions]
    wrong = [(reset, subject.saying(GARBAGE[-1])) for reset in subject.begin()[:4]]
    return right + [(reset, actions) for reset, actions in wrong if actions or not right]


def verdict(trial: Trial) -> Any:
    last = trial.steps[-1].observation if trial.steps else {}
    over = bool(trial.steps and trial.steps[-1].done)
    return timeless([trial.reward, over, last.get("outcome")])


CHECKS: dict[str, Callable[[Subject, Measured], str]] = {
    "runtime.seed_control": seed_control,
    "runtime.episode_determinism": episode_determinism,
    "runtime.episode_isolation": episode_isolation,
    "runtime.oracle_containment": oracle_containment,
    "semantic.oracle_max": oracle_max,
    "semantic.floor_gap": floor_gap,
    "semantic.canary_floor": canary_floor,
    "semantic.no_solution_leakage": no_solution_leakage,
    "semantic.verifier_determinism": verifier_determinism,
    "semantic.verifier_portability": verifier_portability,
    "semantic.resource_envelope": resource_envelope,
    "semantic.replayability": replayability,
}
