"""A generated task, unfolded: its tests, what they ought to give, its words and its solution.

A task holds a template's name, parameters and seeds. Everything else follows, so a task with inputs
of a hundred thousand numbers still takes a line of a few hundred characters.
"""

import copy
import json
import random
from functools import lru_cache
from typing import Any, NamedTuple

from coevolve.core.seeds import derive, digest
from coevolve.domains.code import forms
from coevolve.domains.code.steps import sentences, source_of
from coevolve.domains.code.template import worded
from coevolve.domains.code.topics import BY_NAME


class Test(NamedTuple):
    """One hidden test."""

    kind: str
    values: list[Any]
    wanted: Any


class Problem:
    """What a task's data stand for."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.template = BY_NAME[data["template"]]
        self.source = self.around(self.template.reference)

    def around(self, core: str) -> str:
        """A whole solution from a core, as a function."""
        return source_of(self.template, self.data["parameters"], self.data["steps"], core)

    def answer(self, core: str) -> str:
        """A whole solution in the task's form."""
        source = self.around(core)
        if self.data["form"] == forms.FUNCTION:
            return source
        return forms.as_program(self.template.takes, self.template.gives, source)

    def values(self, kind: str, size: int, seed: int) -> list[Any]:
        rng = random.Random(derive(seed, "test", kind, size))
        return self.template.inputs(rng, size, kind, self.data["parameters"])

    def tests(self, which: str = "tests") -> list[Test]:
        """The hidden tests, or the examples, with what they ought to give."""
        space: dict[str, Any] = {}
        exec(self.source, space)
        found = []
        for kind, size, seed in self.data[which]:
            values = self.values(kind, size, seed)
            found.append(Test(kind, values, space["solve"](*copy.deepcopy(values))))
        return found

    def statement(self) -> str:
        """The task in words, without examples."""
        template, steps = self.template, self.data["steps"]
        names = ", ".join(f"`{argument.name}`" for argument in template.takes)
        before = sentences(steps, "before", template.gives)
        after = sentences(steps, "after", template.gives)
        parts = [f"Given: {names}."]
        if before:
            parts.append(f"First, {'; then '.join(before)}. With the list that this gives:")
        parts.append(worded(template.statement, self.data["parameters"]))
        if after:
            parts.append(f"At last, {'; then '.join(after)}: that is the final result.")
        return " ".join(parts)


@lru_cache(maxsize=64)
def cached(text: str) -> tuple[Problem, list[Test], list[Test]]:
    """A problem with its tests and examples, by the JSON text of its data."""
    problem = Problem(json.loads(text))
    return problem, problem.tests(), problem.tests("examples")


def unfold(data: dict[str, Any]) -> tuple[Problem, list[Test], list[Test]]:
    return cached(json.dumps(data, sort_keys=True))


def mark(data: dict[str, Any]) -> bytes:
    """What makes a problem another problem: neither its form nor its tests do."""
    kept = (data["template"], data["parameters"], data["steps"])
    return digest("code", json.dumps(kept, sort_keys=True))
