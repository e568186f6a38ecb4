"""What a harness makes of the rollouts of a step: their rewards, by an expression or by Python in a
sandbox, and their weights, by Python.

Invariant: a function sees one rollout at a time and nothing of the judge; what it raises, and what
is no finite number, is a failure that is told, and earns nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from coevolve.core.rollout import Outcome
from coevolve.harness.code import is_code
from coevolve.harness.expression import LARGEST, Numbers, expression
from coevolve.harness.filters import HEAVIEST, Filter, codes_of
from coevolve.harness.reward import SHORT, Judged, facts_of
from coevolve.sandbox.judge import program
from coevolve.sandbox.limits import Limits

BATCH = 128
"""Rollouts that a sandbox is given at a time."""
LIMITS = Limits(cpu_s=10, wall_s=60.0, memory_mb=1_024, processes=1, output_kb=4_096)
RUNNER = """

def values_of(name, rollouts):
    found = []
    for one in rollouts:
        try:
            found.append(float(globals()[name](one)))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}"[:200])
    return found
"""

Facts = dict[str, Any]
"""What a function is given of one rollout."""


class Shaped(NamedTuple):
    """What a reward, or a weight, makes of rollouts."""

    values: Numbers
    failures: tuple[str, ...] = ()
    """One for every rollout that it failed on."""


def shaped(
    text: str, rollouts: Sequence[Judged], components: Mapping[str, object], short: float = SHORT
) -> Shaped:
    """The rewards that training uses in a step."""
    known = facts_of(rollouts, components, short)
    if is_code(text):
        return coded(text, (facts(one, known, n) for n, one in enumerate(rollouts)))
    return Shaped(np.broadcast_to(expression(text).value(known), (len(rollouts),)))


def weighed(
    filters: tuple[Filter, ...],
    rollouts: Sequence[Judged],
    components: Mapping[str, object],
    short: float = SHORT,
    groups: Mapping[str, Numbers] | None = None,
) -> Shaped:
    """How much rollouts of a step are to teach by the functions among filters, all together;
    `groups` has what is known of the group of each."""
    if not (codes := codes_of(filters)):
        return Shaped(np.ones(len(rollouts)))
    known = {**facts_of(rollouts, components, short), **(groups or {})}
    told = [facts(one, known, place) for place, one in enumerate(rollouts)]
    return product([coded(code, told, "weight") for code in codes])


def product(found: Sequence[Shaped]) -> Shaped:
    """Weights by several functions as one."""
    values = np.prod([np.clip(one.values, 0.0, HEAVIEST) for one in found], axis=0)
    return Shaped(values, tuple(failure for one in found for failure in one.failures))


def facts(rollout: Judged, named: Mapping[str, Numbers], place: int) -> Facts:
    """All that a function may know of a rollout of a step."""
    messages = [(message.role, message.content) for message in rollout.messages]
    numbers = {name: float(column[place]) for name, column in named.items()}
    outcome: Outcome = rollout.outcome
    return numbers | recorded(
        dict(outcome.components), outcome.failure, str(rollout.stop), messages, outcome.details
    )


def recorded(
    components: dict[str, float], failure: str | None, stop: str,
    messages: Sequence[tuple[str, str]], details: Mapping[str, Any],
) -> Facts:  # fmt: skip
    """The facts that are no numbers; of the details those that tell what the policy did."""
    calls = [
        (str(one.get("tool", "")), bool(one.get("ok")))
        for one in details.get("calls") or ()
        if isinstance(one, dict)
    ]
    said = [text for role, text in messages if role == "assistant"]
    return {
        "components": components,
        "failure": failure,
        "stop": stop,
        "text": said[-1] if said else "",
        "messages": list(messages),
        "calls": calls,
        "files": [str(one) for one in details.get("files") or ()],
        "tests_run": int(details.get("tests_run") or 0),
    }


def coded(source: str, rollouts: Iterable[Facts], name: str = "reward") -> Shaped:
    """What a function of that name gives for rollouts, in order."""
    numbers: list[float] = []
    failures: list[str] = []
    rest = iter(rollouts)
    while batch := list(islice(rest, BATCH)):
        with program(source + RUNNER, LIMITS) as running:
            found = running.call("values_of", [name, batch])
        values = found.value if isinstance(found.value, list) else []
        if len(values) != len(batch):
            why = found.error or f"it was stopped ({found.stop})"
            values = [why[:200]] * len(batch)
        for value in values:
            good = isinstance(value, float) and bool(np.isfinite(value))
            numbers.append(min(max(value, -LARGEST), LARGEST) if good else 0.0)
            if not good:
                failures.append(value if isinstance(value, str) else f"it gave {value!r:.40}")
    return Shaped(np.array(numbers, dtype=np.float64), tuple(failures))
