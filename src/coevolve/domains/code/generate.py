"""Programming tasks from knobs, what they look like, and the benchmark."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from coevolve.core.errors import KnobError
from coevolve.core.seeds import derive
from coevolve.core.splits import Split, split_of
from coevolve.core.task import Label, Task
from coevolve.domains.base import Statistic, means, shares_of
from coevolve.domains.chunks import in_chunks
from coevolve.domains.code import forms
from coevolve.domains.code.knobs import FORMS, MOST_STEPS, SPACE
from coevolve.domains.code.problem import Problem, mark
from coevolve.domains.code.steps import draw_steps
from coevolve.domains.code.topics import TOPIC_OF, TOPICS
from coevolve.domains.knobs import Knobs, draws, pick
from coevolve.domains.simple import distinct, task_of

ATTEMPTS = 400
CHUNK = 64
EXAMPLE_SIZE = 6
CPU_S, MEMORY_MB = 1, 256
SEED = 2606_03108
TASKS = 20
"""Of each topic in the benchmark."""


def generate(knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1) -> Iterator[Task]:
    """Tasks drawn from `knobs`, in order; a smaller count gives the beginning of a larger one."""
    return in_chunks(partial(make_chunk, dict(knobs), seed, split), count, workers, CHUNK)


def make_chunk(
    values: dict[str, float], seed: int, split: Split, begin: int, end: int
) -> list[Task]:
    return [
        make_task(values, derive(seed, "code", split.value, index), split)
        for index in range(begin, end)
    ]


def make_task(values: dict[str, float], seed: int, split: Split) -> Task:
    """One task; what belongs to another split, or could be answered by a constant, is drawn again.

    What the knobs decide is drawn once, so that neither reason to draw again can move it.
    """
    rng = random.Random(seed)
    topic, form = pick(rng, values, TOPICS), pick(rng, values, FORMS)
    large = rng.random() < values["large.share"]
    steps = draws(rng, values["steps.mean"], MOST_STEPS)
    for _ in range(ATTEMPTS):
        template = rng.choice(TOPICS[topic])
        data: dict[str, Any] = {
            "source": "generated",
            "template": template.name,
            "parameters": template.draw(rng),
            "steps": draw_steps(rng, template, steps),
            "form": form,
            "tests": draw_tests(rng, values, template.large if large else 0),
            "examples": [
                ("plain", min(EXAMPLE_SIZE, int(values["input.size"])), rng.getrandbits(40))
                for _ in range(int(values["examples.count"]))
            ],
            "cpu_s": CPU_S,
            "memory_mb": MEMORY_MB,
        }
        data = json.loads(json.dumps(data))
        if split_of(fingerprint(data)) is split and telling(data):
            return task_of("code", data, fingerprint(data), bucket_of(data), seed)
    raise KnobError(
        f"no task about {topic} with {steps} extra steps in the split '{split}' in {ATTEMPTS} "
        f"tries; lower edge.share = {values['edge.share']:g} or raise steps.mean"
    )


def draw_tests(
    rng: random.Random, values: dict[str, float], large: int
) -> list[tuple[str, int, int]]:
    """Hidden tests as (kind, size, seed): small before large."""
    count, size = int(values["tests.count"]), int(values["input.size"])
    many = max(1, count // 4) if large else 0
    edges = int((count - many) * values["edge.share"] + rng.random())
    kinds = ["plain"] * (count - many - edges) + ["edge"] * edges
    rng.shuffle(kinds)
    tests = [(kind, size, rng.getrandbits(40)) for kind in kinds]
    return tests + [("large", large, rng.getrandbits(40)) for _ in range(many)]


def telling(data: dict[str, Any]) -> bool:
    """Whether no single result is right for more than half of the smaller tests."""
    small = [test for test in data["tests"] if test[0] != "large"]
    wanted = [repr(test.wanted) for test in Problem({**data, "tests": small}).tests()]
    return max(Counter(wanted).values()) <= max(1, len(wanted) // 2)


def fingerprint(data: dict[str, Any]) -> int:
    return int.from_bytes(mark(data)[:8], "big") >> 1


def bucket_of(data: dict[str, Any]) -> dict[str, Label]:
    return {
        "topic": TOPIC_OF[data["template"]],
        "form": data["form"],
        "large": any(test[0] == "large" for test in data["tests"]),
        "steps": len(data["steps"]),
    }


def measure(tasks: Sequence[Task]) -> dict[str, Statistic]:
    """For each knob that matters to these tasks, the statistic that it moves."""
    made = [task for task in tasks if task.data["source"] == "generated"]
    return shares_of(made, "topic", "form") | means(
        {
            "large.share": [float(task.bucket["large"]) for task in made],
            "steps.mean": [float(len(task.data["steps"])) for task in made],
            "tests.count": [float(len(task.data["tests"])) for task in made],
            "examples.count": [float(len(task.data["examples"])) for task in made],
            "edge.share": [edge_share(task) for task in made],
            "input.size": [length for task in made for length in lengths(task)],
        }
    )


def edge_share(task: Task) -> float:
    kinds = [kind for kind, _, _ in task.data["tests"] if kind != "large"]
    return kinds.count("edge") / len(kinds)


def lengths(task: Task) -> list[float]:
    """Characters of each ordinary hidden input, written out."""
    problem = Problem(task.data)
    return [
        float(len(forms.write_input(problem.template.takes, problem.values(*test))))
        for test in task.data["tests"]
        if test[0] == "plain"
    ]


def benchmark() -> Iterator[Task]:
    """The same tasks of each topic for everybody; no two are the same problem."""
    for topic in TOPICS:
        knobs = SPACE.parse({f"{topic}.share": 1.0})
        made = generate(knobs, 100 * TASKS, derive(SEED, "benchmark", topic), Split.TEST)
        yield from distinct(made, lambda task: fingerprint(task.data), TASKS)
