"""Math: exact arithmetic, bare or told as a story, from knobs; and problems from public data sets.

Invariant: a wrong answer never earns as much as a right one, however long either is.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from coevolve.core.errors import UserError
from coevolve.core.rollout import Message, Outcome
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Label, Task
from coevolve.domains.base import Script, Statistic, mean
from coevolve.domains.knobs import Knobs
from coevolve.domains.math.answer import MARK, read_number
from coevolve.domains.math.chain import chain_of
from coevolve.domains.math.formats import convert
from coevolve.domains.math.judge import FAILURES, judge
from coevolve.domains.math.knobs import FORMS, OPERATIONS, SPACE
from coevolve.domains.math.make import digits_of, make, result, working
from coevolve.domains.math.scripts import SCRIPTS
from coevolve.domains.simple import Data, SimpleDomain, length, verdict

LENGTH_WEIGHT = 0.2
STYLES = {
    "boxed": "Solve the problem step by step. Put the final answer alone in \\boxed{}.",
    "plain": f"Solve the problem step by step. Then write the final answer alone after {MARK}.",
}
GIVEN = {"operation": "any", "text": "word", "unit": "no"}
"""Labels of tasks that were not generated."""
SEED = 2606_17682
STEPS, TASKS = (1, 2, 4), 10
"""Of the benchmark: numbers of steps, and tasks of each kind."""


def benchmark() -> Iterator[Task]:
    """480 tasks over operations, forms of answers and numbers of steps, in a fixed order."""
    domain = MathDomain()
    for operation, form, steps in product(OPERATIONS, FORMS, STEPS):
        changes = {f"{operation}.share": 1.0, f"{form}.share": 1.0, "steps": float(steps)}
        seed = derive(SEED, "benchmark", operation, form, steps)
        yield from domain.generate(SPACE.parse(changes), TASKS, seed, Split.TEST)


class MathDomain(SimpleDomain):
    """Implements the `Domain` protocol."""

    name = "math"
    summary = "exact arithmetic and word problems; GSM8K- and AIME-style files"
    space = SPACE
    failures: Mapping[str, str] = FAILURES
    components: Mapping[str, str] = {
        "accuracy": "1 for the right answer, else 0",
        "length": "0 up to 1,500 tokens, falling to -1 at 4,096",
    }
    buckets: tuple[str, ...] = ("operation", "form", "text", "unit", "steps")
    styles: tuple[str, ...] = tuple(STYLES)
    suites = {"benchmark": benchmark}

    @property
    def scripts(self) -> Mapping[str, Script]:
        return {"oracle": self.scripted_oracle, **SCRIPTS}

    def make(self, knobs: Knobs, rng: random.Random) -> Data:
        return make(knobs, rng)

    def question(self, data: Data) -> str:
        return str(data["question"])

    def answer(self, data: Data) -> str:
        return str(data["answer"])

    def content(self, data: Data) -> str:
        """The chain, however it is told; the question itself where there is none."""
        if "chain" in data:
            return chain_of(data["chain"]).canonical()
        return " ".join(data["question"].lower().split())

    def labels(self, data: Data) -> dict[str, Label]:
        if "chain" not in data:
            steps = data["solution"].count("<<")
            return {**GIVEN, "form": data["form"], "steps": steps}
        first = data["chain"][1].partition(" ")[0]
        told = {name: data[name] for name in ("form", "text", "unit")}
        return {"operation": first, **told, "steps": len(data["chain"]) - 1}

    def complete(self, data: Data) -> Data:
        """A generated task is computed anew, any other is read in its public format."""
        if "chain" not in data:
            return convert(data)
        found = result(data)
        if data["answer"] != found:
            raise UserError(f"the task claims the answer {data['answer']!r}, but it is {found!r}")
        return data

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        return (
            Message(role="system", content=STYLES[self.style(style)]),
            Message(role="user", content=self.question(task.data)),
        )

    def oracle(self, task: Task, style: str = "") -> str:
        data = task.data
        lines = working(data) if "chain" in data else [plain(data["solution"])]
        if self.style(style) == "boxed":
            return "\n".join((*lines, f"\\boxed{{{latex(data['answer'])}}}")).lstrip()
        return "\n".join((*lines, f"{MARK} {data['answer']}")).lstrip()

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        failure, reason = judge(task.data, text)
        components = {
            "accuracy": float(not failure),
            "length": 0.0 if tokens is None else length(tokens),
        }
        reward = components["accuracy"] + LENGTH_WEIGHT * components["length"]
        return verdict(failure or None, reason, components, reward)

    def statistics(self, tasks: Sequence[Task]) -> dict[str, Statistic]:
        """Digits and steps are counted in the chains themselves."""
        chains = [chain_of(task.data["chain"]) for task in tasks if "chain" in task.data]
        found = super().statistics(tasks)
        found["digits"] = mean([digits_of(chain) for chain in chains])
        found["steps"] = mean([len(chain.steps) for chain in chains])
        return found

    def solve(self, data: Mapping[str, Any]) -> dict[str, Any]:
        task = self.load(data)
        return {"answer": task.data["answer"], "form": task.data["form"]}


def plain(solution: str) -> str:
    """A solution without its mark and its answer."""
    return solution.partition(MARK)[0].replace("\\boxed", "").strip()


def latex(answer: str) -> str:
    """A number with its unit or sign, as LaTeX; a formula is LaTeX already."""
    read = read_number(answer)
    if read is None:
        return answer
    number, _, words = answer.partition(" ")
    if "/" in number and read.kind == "fraction":
        top, _, bottom = number.lstrip("-").partition("/")
        number = f"{'-' if number[0] == '-' else ''}\\frac{{{top}}}{{{bottom}}}"
    number = number.replace("%", "\\%")
    return f"{number}\\text{{ {words}}}" if words else number
