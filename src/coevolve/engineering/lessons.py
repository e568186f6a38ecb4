"""Lessons: simulated trainees with a history of rounds, and what would have been best to do next.

Invariant: a lesson follows from its seed and the knobs alone, and holds only what real runs hold,
beside the truth that it is judged by.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from coevolve.core.seeds import derive, digest
from coevolve.core.splits import Split, split_of
from coevolve.core.task import Task
from coevolve.domains.knobs import Knob, Knobs, KnobSpace
from coevolve.domains.registry import get_domain
from coevolve.engineering.oracle import best_edits
from coevolve.engineering.trainee import (
    Trainee,
    difficulty,
    free,
    kinds,
    learned,
    signal,
    slope,
    tied,
    tried,
)
from coevolve.engineers.base import Edit
from coevolve.engineers.reach import with_edits

SPACE = KnobSpace(
    (
        Knob("rate.mean", 0.1, 0.9, 0.5, "share of rollouts", "valid rate of the evidence"),
        Knob("rollouts", 64, 4096, 1024, "rollouts", "rollouts in a round", integer=True),
        Knob("rounds", 1, 4, 3, "rounds", "rounds that are known", integer=True),
        Knob("irregular", 0, 2, 0.7, "logits", "differences between neighbouring shares"),
        Knob("spread", 0.2, 3, 1.2, "logits", "differences between tasks of one kind"),
        Knob("lopsided", 0, 1, 0.5, "share of tasks", "distance of shares from being even"),
        Knob("several", 0, 1, 0.5, "share of lessons",
             "shares beside those that are in use by default"),
        Knob("fewer", 0, 1, 0.3, "share of lessons", "only some shares in use"),
    )
)  # fmt: skip
REACH = 0.15
ATTEMPTS = 8
DEV = 200
WORTH = 1.05
"""A lesson is one only if its best answer offers so many times the signal of the incumbent."""
NEVER = 5_000
"""Draws after which no lesson is to be expected."""


def with_lessons(tasks: list[Task], count: int, seed: int, workers: int = 1) -> list[Task]:
    """These tasks, and lessons up to a count of all: a trainee learns to be a trainer, or does not
    forget it."""
    missing = count - len(tasks)
    if missing <= 0:
        return tasks
    domain = get_domain("engineering")
    knobs, own = domain.space.parse({}), derive(seed, "lessons")
    return [*tasks, *domain.generate(knobs, missing, own, Split.TRAIN, workers)]


def draw_lesson(
    knobs: Knobs, target: KnobSpace, name: str, seed: int, split: Split
) -> dict[str, Any]:
    """The data of a task that belongs to a split."""
    for attempt in range(NEVER):
        rng = np.random.default_rng(derive(seed, "lesson", attempt))
        start = draw_knobs(knobs, target, rng)
        if split_of(fingerprint(sparse(start))) is not split:
            continue
        if (lesson := drawn(knobs, start, name, rng)) is not None:
            return lesson
    raise AssertionError(f"no lesson in {NEVER} draws from {dict(knobs)}")


def fingerprint(start: Mapping[str, float]) -> int:
    """Of a lesson, by the knobs that its first round began with: known before anything is tried."""
    return int.from_bytes(digest(json.dumps(start, sort_keys=True), size=8), "big")


def drawn(
    knobs: Knobs, incumbent: Knobs, name: str, rng: np.random.Generator
) -> dict[str, Any] | None:
    """One lesson, unless there is nothing to gain in it."""
    trainee = draw_trainee(knobs, incumbent, rng)
    rounds = []
    groups = max(8, round(knobs["rollouts"] * 2 ** rng.uniform(-1, 1) / ATTEMPTS))
    for number in range(int(rng.integers(1, int(knobs["rounds"]) + 1))):
        if number:
            incumbent = wandered(incumbent, rng)
        train = tried(trainee, incumbent, groups, ATTEMPTS, rng)
        trainee = learned(trainee, incumbent, amount=rng.uniform(0, 3))
        dev = tried(trainee, incumbent.space.defaults(), DEV, 1, rng)
        rounds.append({
            "knobs": sparse(incumbent),
            "train": [cell.model_dump(exclude_defaults=True) for cell in train],
            "dev": [cell.model_dump(exclude_defaults=True) for cell in dev],
        })  # fmt: skip
    now, (edits, best) = signal(trainee, incumbent), aim(trainee, incumbent)
    if best < WORTH * now or now < 1e-4:
        return None
    return {
        "target": name,
        "reach": REACH,
        "rounds": rounds,
        "trainee": trainee.model_dump(),
        "signal": now,
        "best": best,
        "edits": [[edit.knob, edit.action] for edit in edits],
    }


def aim(trainee: Trainee, incumbent: Knobs) -> tuple[tuple[Edit, ...], float]:
    """The best edits, and the signal that they bring."""
    edits = best_edits(trainee, incumbent, REACH)
    return edits, signal(trainee, with_edits(edits, incumbent, REACH))


def draw_knobs(knobs: Knobs, target: KnobSpace, rng: np.random.Generator) -> Knobs:
    """What the trainee is trained on."""
    values: dict[str, float] = {}
    for members in target.groups.values():
        used = [place for place, name in enumerate(members) if target.knobs[name].default > 0]
        if rng.random() < knobs["several"]:
            beside = [p for p in range(len(members)) if p > max(used)][: max(0, 5 - len(used))]
            used += beside[: int(rng.integers(0, len(beside) + 1))]
        # Nothing is drawn where it is 0, so that the lessons of the pocket policy stay the same.
        if knobs["fewer"] and len(used) > 1 and rng.random() < knobs["fewer"]:
            used = sorted(rng.choice(used, size=int(rng.integers(1, len(used))), replace=False))
        uneven = rng.exponential(size=len(used)) ** (2 * knobs["lopsided"])
        values |= dict.fromkeys(members, 0.0)
        values |= {members[p]: float(u) for p, u in zip(used, uneven / uneven.sum(), strict=True)}
    for name, knob in target.knobs.items():
        if knob.harder and not knob.group:
            # Mostly as it is by default or thereabouts, sometimes anywhere.
            width = (knob.high - knob.low) * rng.choice((0.15, 0.6))
            values[name] = float(np.clip(rng.normal(knob.default, width), knob.low, knob.high))
    return target.project(values)


def draw_trainee(knobs: Knobs, incumbent: Knobs, rng: np.random.Generator) -> Trainee:
    """A trainee that succeeds about as often as is asked for."""
    harder: dict[str, float] = {}
    slopes: dict[str, float] = {}
    for members in incumbent.space.groups.values():
        steep, places = rng.uniform(0, 8), np.linspace(-0.5, 0.5, max(2, len(members)))
        if len(members) > 10:  # only the first of many are ever in use
            places = np.linspace(-0.5, 0.5, 8)
        for place, name in enumerate(members):
            harder[name] = float(steep * places[min(place, len(places) - 1)])
            if incumbent[name] > 0 or incumbent.space.knobs[name].default > 0:
                harder[name] += float(knobs["irregular"] * rng.standard_normal())
                for knob in tied(incumbent, incumbent.space.knobs[name]):
                    slopes.setdefault(knob.suffix, float(rng.uniform(0.2, 4)))
    for knob in free(incumbent):
        slopes[knob.suffix] = float(rng.uniform(0.2, 4))
    spread = float(knobs["spread"] * 2 ** rng.uniform(-0.5, 0.5))
    bare = Trainee(skill=0.0, harder=harder, slopes=slopes, spread=spread)
    made = kinds(incumbent)
    mean = sum(
        kind.share * sum(difficulty(bare, incumbent, knob) for knob in kind.shares) for kind in made
    ) + slope(bare, incumbent, free(incumbent))
    rate = float(np.clip(knobs["rate.mean"] + rng.uniform(-0.4, 0.4), 0.02, 0.98))
    wide = math.sqrt(1 + 0.35 * (spread**2 + 2))
    return bare.model_copy(update={"skill": wide * math.log(rate / (1 - rate)) + mean})


def wandered(knobs: Knobs, rng: np.random.Generator) -> Knobs:
    """Knobs after some engineer's edits."""
    names = [knob.name for knob in knobs.in_use() if knob.harder or knob.group]
    some = rng.choice(names, size=min(len(names), 4), replace=False)
    edits = tuple(
        Edit.model_validate({"knob": str(name), "action": str(rng.choice(("raise", "lower")))})
        for name in some
    )
    return with_edits(edits, knobs, REACH)


def sparse(knobs: Knobs) -> dict[str, float]:
    """Where knobs differ from the defaults."""
    return {name: after for name, (_, after) in knobs.difference(knobs.space.defaults()).items()}
