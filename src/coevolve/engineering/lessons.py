"""Lessons: simulated trainees with a history of rounds, and what would have been best to do next.

Invariant: a lesson follows from its seed and the knobs alone, and holds only what real runs hold,
beside the truth that it is judged by.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from coevolve.core.seeds import derive, digest
from coevolve.core.splits import Split, split_of
from coevolve.core.task import Task
from coevolve.domains.knobs import Knob, Knobs, KnobSpace
from coevolve.domains.registry import get_domain
from coevolve.engineering.trainee import (
    Trainee,
    difficulty,
    free,
    kinds,
    learned,
    slope,
    tied,
    tried,
)
from coevolve.engineers.reach import evenly

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
        Knob("apart", 0, 1, 0.8, "share of lessons", "a target unlike what is trained on"),
    )
)  # fmt: skip
REACH = 1.0
"""Lessons teach whole designs; a run with a shorter reach goes part of the way."""
ATTEMPTS = 8
EXPLORED = 32
DEV = 400
WORTH = 1.05
"""A lesson is one only if its best answer gains so many times what the incumbent does."""
NEVER = 5_000
"""Draws after which no lesson is to be expected."""
MANY = 8
"""Of more shares in a group only the first so many are ever in use."""
END = 0.35
"""Part of the lessons that begin at one end of their shares."""


def with_lessons(tasks: list[Task], count: int, seed: int, workers: int = 1) -> list[Task]:
    """These tasks, and lessons up to a count of all: a trainee learns to be a trainer, or does not
    forget it."""
    missing = count - len(tasks)
    if missing <= 0:
        return tasks
    domain = get_domain("engineering")
    knobs, own = domain.space.parse({}), derive(seed, "lessons")
    return [*tasks, *domain.generate(knobs, missing, own, Split.TRAIN, workers)]


def draw_lessons(
    knobs: Knobs, target: KnobSpace, name: str, seed: int, split: Split
) -> Iterator[dict[str, Any]]:
    """The data of tasks that belong to a split, without what is best in them."""
    for attempt in range(NEVER):
        rng = np.random.default_rng(derive(seed, "lesson", attempt))
        start = draw_knobs(knobs, target, rng)
        if rng.random() < END * knobs["apart"]:
            start = ended(start, rng)
        if split_of(fingerprint(sparse(start))) is split:
            yield drawn(knobs, start, name, rng)


def fingerprint(start: Mapping[str, float]) -> int:
    """Of a lesson, by the knobs that its first round began with: known before anything is tried."""
    return int.from_bytes(digest(json.dumps(start, sort_keys=True), size=8), "big")


def drawn(knobs: Knobs, incumbent: Knobs, name: str, rng: np.random.Generator) -> dict[str, Any]:
    """What is known of one training."""
    target = draw_knobs(knobs, incumbent.space, rng)
    if rng.random() >= knobs["apart"]:
        target = mixed(incumbent, target, rng.uniform(0, 0.5))
    trainee = draw_trainee(knobs, incumbent, rng)
    rounds = []
    groups = max(8, round(knobs["rollouts"] * 2 ** rng.uniform(-1, 1) / ATTEMPTS))
    explored = EXPLORED if rng.random() < 0.7 else 0
    for number in range(int(rng.integers(1, int(knobs["rounds"]) + 1))):
        if number:
            incumbent = mixed(incumbent, target, rng.uniform(-0.2, 0.8))
        train = tried(trainee, incumbent, groups, ATTEMPTS, rng)
        trainee = learned(trainee, incumbent, amount=rng.uniform(0, 3))
        dev = tried(trainee, target, DEV, 1, rng)
        rare = evenly(incumbent, [cell.labels for cell in dev])
        more = tried(trainee, rare, explored, ATTEMPTS, rng) if explored and rare else []
        rounds.append({
            "knobs": sparse(incumbent),
            "train": [cell.model_dump(exclude_defaults=True) for cell in train],
            "explored": [cell.model_dump(exclude_defaults=True) for cell in more],
            "dev": [cell.model_dump(exclude_defaults=True) for cell in dev],
        })  # fmt: skip
    return {
        "target": name,
        "rounds": rounds,
        "wanted": sparse(target),
        "trainee": trainee.model_dump(),
    }


def mixed(first: Knobs, second: Knobs, part: float) -> Knobs:
    """Knobs on the way from some to others, or a little the other way."""
    values = {name: value + part * (second[name] - value) for name, value in first.items()}
    groups = {name for members in first.space.groups.values() for name in members}
    held = {name: max(0.0, value) if name in groups else value for name, value in values.items()}
    return first.space.project(held)


def ended(knobs: Knobs, rng: np.random.Generator) -> Knobs:
    """Knobs with all shares at the first or at the last few of each group: too easy, too hard."""
    values: dict[str, float] = {}
    last = rng.random() < 0.5
    for members in knobs.space.groups.values():
        few = int(rng.integers(1, 4))
        usable = members[:MANY]
        chosen = usable[-few:] if last else usable[:few]
        values |= dict.fromkeys(members, 0.0) | dict.fromkeys(chosen, 1 / len(chosen))
    return knobs.space.project(values, base=knobs)


def draw_knobs(knobs: Knobs, target: KnobSpace, rng: np.random.Generator) -> Knobs:
    """What the trainee is trained on."""
    values: dict[str, float] = {}
    for members in target.groups.values():
        used = [place for place, name in enumerate(members) if target.knobs[name].default > 0]
        if rng.random() < knobs["several"]:
            beside = [p for p in range(len(members[:MANY])) if p > max(used)]
            used += beside[: int(rng.integers(0, len(beside) + 1))]
        if len(used) > 1 and rng.random() < knobs["fewer"]:
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
        if len(members) > MANY:
            places = np.linspace(-0.5, 0.5, MANY)
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
    rate = float(np.clip(knobs["rate.mean"] + rng.uniform(-0.5, 0.5), 0.005, 0.995))
    wide = math.sqrt(1 + 0.35 * (spread**2 + 2))
    return bare.model_copy(update={"skill": wide * math.log(rate / (1 - rate)) + mean})


def sparse(knobs: Knobs) -> dict[str, float]:
    """Where knobs differ from the defaults."""
    return {name: after for name, (_, after) in knobs.difference(knobs.space.defaults()).items()}
