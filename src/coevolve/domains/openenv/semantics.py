"""The checks that OpenEnv's own `validate` names and leaves open, made on a running server.

What each id means is written in OpenEnv's RFC 008. Invariant: a check that cannot be made is
skipped with its reason, never passed; without determinism none of the meaning is judged.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from coevolve.core.errors import DomainError
from coevolve.domains.check import GARBAGE
from coevolve.domains.openenv.connection import Line, Refused, ask, timeless
from coevolve.domains.openenv.declaration import SCRIPT, USAGE, Resources
from coevolve.domains.openenv.domain import ServedDomain
from coevolve.domains.openenv.trials import Actions, Solution, Trial, attempt

MARGIN = 0.1
"""Least gap between doing nothing and the full reward, as OpenEnv's policy has it."""
CANARIES = ("0", "null", "yes", "<answer></answer>", "\\boxed{42}", "I cannot solve this task.")
UNKNOWN = "no solution is known: set COEVOLVE_ORACLE_TOKEN on both sides, or give --solutions FILE"
PRECONDITIONS = ("runtime.seed_control", "runtime.episode_determinism")


class Result(NamedTuple):
    """One check, in the words of OpenEnv's reports."""

    check_id: str
    status: Literal["pass", "fail", "skip"]
    measured: dict[str, Any]
    evidence: str


class Skip(Exception):
    """A check that cannot be made here."""


class Found(NamedTuple):
    """What a check saw, and what it has to complain about."""

    measured: dict[str, Any]
    complaint: str = ""
    praise: str = ""


class Subject(NamedTuple):
    """A server with what is known about it."""

    domain: ServedDomain
    solutions: list[Solution]
    other: ServedDomain | None
    """The same environment served somewhere else."""
    resources: Resources
    tolerance: float = 0.0

    def texts(self) -> bool:
        return self.domain.answers.field is not None

    def saying(self, text: str) -> Actions:
        """Nothing but this text, until it is over."""
        field = self.domain.answers.field
        if field is None:
            return []
        if self.domain.own:
            return [{field: text, "final": True}]
        return [{field: text}] * self.domain.turns

    def known(self) -> list[Solution]:
        if not self.solutions:
            raise Skip(UNKNOWN)
        return self.solutions

    def begin(self) -> list[dict[str, Any]]:
        return [s.reset for s in self.solutions] or [{"seed": seed} for seed in range(8)]

    def floor(self) -> float:
        """The most that doing nothing earns."""
        return max(attempt(self.domain, reset, self.saying("")).reward for reset in self.begin())


def examine(subject: Subject) -> Iterator[Result]:
    """All checks in order."""
    sound = True
    for name, check in CHECKS.items():
        result = one(name, check, subject, sound)
        if name in PRECONDITIONS:
            sound = sound and result.status == "pass"
        yield result


def one(name: str, check: Callable[[Subject], Found], subject: Subject, sound: bool) -> Result:
    if not sound and name.startswith("semantic."):
        return Result(name, "skip", {}, f"needs {' and '.join(PRECONDITIONS)} to pass")
    try:
        found = check(subject)
    except Skip as reason:
        return Result(name, "skip", {}, str(reason))
    except (DomainError, Refused) as error:
        return Result(name, "fail", {}, str(error))
    if found.complaint:
        return Result(name, "fail", found.measured, found.complaint)
    return Result(name, "pass", found.measured, found.praise)


def seed_control(subject: Subject) -> Found:
    shown = [attempt(subject.domain, reset, []).first.observation for reset in subject.begin()]
    again = [attempt(subject.domain, reset, []).first.observation for reset in subject.begin()]
    differing = len({json.dumps(one, sort_keys=True) for one in shown})
    measured = {"seeds": len(shown), "different_tasks": differing}
    if shown != again:
        return Found(measured, "the same seed showed another task the second time")
    if differing == 1 < len(shown):
        return Found(measured, "all seeds show the same task")
    return Found(measured, praise=f"{len(shown)} seeds, {differing} tasks, the same twice")


def episode_determinism(subject: Subject) -> Found:
    changed = [
        r for r, a in trajectories(subject) if not same(subject.domain, subject.domain, r, a)
    ]
    count = len(trajectories(subject))
    measured = {"trajectories": count, "changed": len(changed)}
    complaint = f"the same actions went another way: {changed[0]}" if changed else ""
    return Found(measured, complaint, f"{count} trajectories, the same twice")


def episode_isolation(subject: Subject) -> Found:
    """Two episodes at once must go as each goes alone."""
    pairs = trajectories(subject)
    (reset, actions), (other_reset, other_actions) = pairs[0], pairs[-1]
    alone = [attempt(subject.domain, *pair).written() for pair in (pairs[0], pairs[-1])]
    lines = [Line(subject.domain.address) for _ in range(2)]
    try:
        firsts = [lines[0].reset(reset), lines[1].reset(other_reset)]
        steps: list[list[Any]] = [[], []]
        for turn in range(max(len(actions), len(other_actions))):
            for side, wanted in enumerate((actions, other_actions)):
                if turn < len(wanted) and not (steps[side] and steps[side][-1].done):
                    steps[side].append(lines[side].step(wanted[turn]))
    except Refused as error:
        return Found({}, f"an action was refused in one of two sessions: {error}")
    except Exception as error:  # `Full`, or whatever else keeps a second session from existing
        raise Skip(f"two sessions at once are not possible: {type(error).__name__}") from None
    finally:
        for line in lines:
            line.close()
    together = [timeless([f, s, ""]) for f, s in zip(firsts, steps, strict=True)]
    complaint = "" if together == alone else "two episodes at once went other ways than alone"
    return Found({"sessions": 2}, complaint, "two sessions by turns, as each alone")


def oracle_containment(subject: Subject) -> Found:
    if not subject.domain.own:
        raise Skip("the server keeps no solutions of its own")
    asked = {"script": "oracle", "reset": subject.begin()[0]}
    for guess in ("", "guess"):
        try:
            ask(subject.domain.address.base, SCRIPT, asked, guess)
        except DomainError:
            continue
        return Found({}, "the oracle answers who does not know the token")
    return Found({}, praise="the oracle is refused without the token, and with a wrong one")


def oracle_max(subject: Subject) -> Found:
    """Without a solution it fails: only what can be solved can be trusted to judge."""
    full = subject.domain.full_reward
    if not subject.solutions:
        return Found({}, UNKNOWN)
    rewards = [attempt(subject.domain, s.reset, s.actions).reward for s in subject.solutions]
    measured = {"episodes": len(rewards), "least": min(rewards), "full_reward": full}
    short = sum(reward < full - subject.tolerance - 1e-9 for reward in rewards)
    complaint = f"{short} of {len(rewards)} known solutions earn less than {full:g}"
    return Found(
        measured, complaint if short else "", f"{len(rewards)} known solutions earn {full:g}"
    )


def floor_gap(subject: Subject) -> Found:
    floor, full = subject.floor(), subject.domain.full_reward
    measured = {"floor": floor, "full_reward": full, "margin": MARGIN}
    if full - floor < MARGIN:
        return Found(measured, f"doing nothing earns {floor:g} of {full:g}")
    return Found(measured, praise=f"doing nothing earns {floor:g}, a solution {full:g}")


def canary_floor(subject: Subject) -> Found:
    """Answers that are known to be none may be right by accident: for one task in ten, not more."""
    floor, begins = subject.floor(), subject.begin()
    texts = [*GARBAGE, *CANARIES] if subject.texts() else []
    tried, high = 0, dict[str, int]()
    for text in dict.fromkeys(texts):
        rewards = [attempt(subject.domain, reset, subject.saying(text)).reward for reset in begins]
        tried += len(rewards)
        high[text] = sum(reward > floor for reward in rewards)
    for mine, theirs in zip(subject.solutions, subject.solutions[1:], strict=False):
        if mine.actions != theirs.actions:
            tried += 1
            reward = attempt(subject.domain, mine.reset, theirs.actions).reward
            name = "another task's solution"
            high[name] = high.get(name, 0) + (reward >= subject.domain.full_reward)
    if not tried:
        raise Skip("actions are not text and no solutions are known: there is nothing to try")
    worst = max(high, key=lambda text: high[text], default="")
    measured = {"episodes": tried, "floor": floor, "above_by_accident": sum(high.values())}
    if high and high[worst] > max(1, len(begins) // 10):
        return Found(measured, f"{worst[:40]!r} earns more than nothing in {high[worst]} episodes")
    return Found(measured, praise=f"{tried} episodes of canaries stay at the floor")


def no_solution_leakage(subject: Subject) -> Found:
    leaks = 0
    for solution in subject.known():
        seen = attempt(subject.domain, solution.reset, []).seen()
        leaks += longest(solution) in seen
    count = len(subject.solutions)
    complaint = f"{leaks} of {count} solutions stand in what is shown before the first action"
    return Found(
        {"episodes": count, "leaks": leaks}, complaint if leaks > count // 10 else "",
        f"{count} solutions, none in what is shown before",
    )  # fmt: skip


def longest(solution: Solution) -> str:
    """The longest text of a solution, as it would stand in JSON: short ones are commands."""
    texts = [v for action in solution.actions for v in action.values() if isinstance(v, str)]
    whole = json.dumps(list(solution.actions), ensure_ascii=False)
    return json.dumps(max(texts, key=len), ensure_ascii=False)[1:-1] if texts else whole


def verifier_determinism(subject: Subject) -> Found:
    verdicts, differing = 0, 0
    for reset, actions in trajectories(subject):
        found = [verdict(attempt(subject.domain, reset, actions)) for _ in range(3)]
        verdicts += len(found)
        differing += any(one != found[0] for one in found)
    complaint = f"{differing} trajectories were judged differently" if differing else ""
    measured = {"verdicts": verdicts, "differing": differing}
    return Found(measured, complaint, f"{verdicts} verdicts, three on each trajectory")


def verifier_portability(subject: Subject) -> Found:
    """Another process, in another folder, with another order of sets, language and time zone."""
    if subject.other is None:
        raise Skip("the environment runs in one place only: give --other URL")
    differing = [
        reset
        for reset, actions in trajectories(subject)
        if verdict(attempt(subject.domain, reset, actions))
        != verdict(attempt(subject.other, reset, actions))
    ]
    count = len(trajectories(subject))
    complaint = f"judged differently elsewhere: {differing[0]}" if differing else ""
    measured = {"trajectories": count, "differing": len(differing)}
    return Found(measured, complaint, f"{count} trajectories judged alike in two places")


def resource_envelope(subject: Subject) -> Found:
    allowed = subject.resources
    seconds = max(attempt(subject.domain, r, a).seconds for r, a in trajectories(subject))
    used = ask(subject.domain.address.base, USAGE) if subject.domain.own else None
    memory = used["memory_mb"] if used else 0.0
    measured = {"episode_s": round(seconds, 3), "memory_mb": round(memory)}
    if seconds > allowed.episode_timeout_s or memory > allowed.memory_mb:
        return Found(measured, f"more than the declared {allowed.model_dump()}")
    told = f", {memory:.0f} MB of {allowed.memory_mb}" if used else "; its memory is not told"
    return Found(measured, praise=f"{seconds:.2f} s of {allowed.episode_timeout_s:g}{told}")


def replayability(subject: Subject) -> Found:
    """What was written down of an episode is enough to have it again, in a new session."""
    count, changed = 0, 0
    for reset, actions in trajectories(subject):
        written = json.dumps([reset, actions, attempt(subject.domain, reset, actions).written()])
        again_reset, again_actions, before = json.loads(written)
        subject.domain.close()
        count += 1
        changed += attempt(subject.domain, again_reset, again_actions).written() != before
    complaint = f"{changed} of {count} records gave another episode" if changed else ""
    return Found({"records": count}, complaint, f"{count} records, each played again as written")


def trajectories(subject: Subject) -> list[tuple[dict[str, Any], Actions]]:
    """What is known to be right, and what is known to be wrong."""
    right: list[tuple[dict[str, Any], Actions]] = [(s.reset, s.actions) for s in subject.solutions]
    wrong = [(reset, subject.saying(CANARIES[-1])) for reset in subject.begin()[:4]]
    return right + [(reset, actions) for reset, actions in wrong if actions or not right]


def same(one: ServedDomain, two: ServedDomain, reset: dict[str, Any], actions: Actions) -> bool:
    return bool(attempt(one, reset, actions).written() == attempt(two, reset, actions).written())


def verdict(trial: Trial) -> Any:
    last = trial.steps[-1].observation if trial.steps else {}
    over = bool(trial.steps and trial.steps[-1].done)
    return timeless([trial.reward, over, last.get("outcome")])


CHECKS: dict[str, Callable[[Subject], Found]] = {
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
