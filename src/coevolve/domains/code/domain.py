"""Programming: functions to write and programs that read and print, judged by hidden tests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, ClassVar

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Message, Outcome
from coevolve.core.seeds import digest
from coevolve.core.splits import Split, check_split
from coevolve.core.task import Task, whole_task
from coevolve.domains.base import Script, Statistic
from coevolve.domains.code import answer, prompt, scripts
from coevolve.domains.code.generate import (
    benchmark,
    bucket_of,
    fingerprint,
    generate,
    measure,
)
from coevolve.domains.code.judge import FAILURES, Checked, Judged, judge, total_of
from coevolve.domains.code.knobs import SPACE
from coevolve.domains.code.load import load_humaneval, load_stdin, number_of, read_generated
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.domains.lines import draw_file, svg_of
from coevolve.domains.simple import task_of

WIDTH = 96
"""Characters of a line in a terminal."""
WEIGHTS = {"tests": 0.4, "solved": 0.6, "format": 0.1}


class CodeDomain:
    """Implements the `Domain` protocol."""

    name: ClassVar[str] = "code"
    summary: ClassVar[str] = "programs and functions, judged by hidden tests in a sandbox"
    space: KnobSpace = SPACE
    failures: ClassVar[Mapping[str, str]] = FAILURES
    components: ClassVar[Mapping[str, str]] = {
        "tests": "share of the hidden tests that pass",
        "solved": "1 if all of them pass",
        "format": "-1 without a whole code block",
    }
    buckets: ClassVar[tuple[str, ...]] = ("topic", "form", "large", "steps")
    styles: ClassVar[tuple[str, ...]] = ("chat",)
    scripts: ClassVar[Mapping[str, Script]] = scripts.SCRIPTS
    suites: ClassVar[Mapping[str, Callable[[], Iterator[Task]]]] = {"benchmark": benchmark}
    panels: ClassVar[tuple[str, ...]] = ("topic", "form", "large")
    full_reward: ClassVar[float] = 1.0
    waits: ClassVar[bool] = True
    """Answers are judged by processes of their own, so several can be at once."""

    def generate(
        self, knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1
    ) -> Iterator[Task]:
        return generate(knobs, count, seed, split, workers)

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        lookup("prompt style", style or self.styles[0], dict.fromkeys(self.styles))
        return prompt.chat(task)

    def oracle(self, task: Task, style: str = "") -> str:
        return answer.fenced(scripts.solution(task))

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        """Run the hidden tests; the first that fails names the failure class."""
        whole = True
        try:
            judged = judge(task, answer.extract(text))
        except answer.AnswerError as error:
            whole = False
            judged = Judged([Checked("format", error.failure, str(error))], total_of(task))
        passed, total, first = judged.passed, judged.total, judged.first
        valid = passed == total
        components = {
            "tests": passed / total,
            "solved": float(valid),
            "format": 0.0 if whole else -1.0,
        }
        details: dict[str, Any] = {"passed": passed, "total": total}
        if first is not None:
            details["reason"] = f"{first.kind}: {first.message}"
        return Outcome(
            valid=valid,
            optimal=valid,
            reward=sum(WEIGHTS[name] * value for name, value in components.items()),
            components=components,
            failure=first.failure if first else None,
            details=details,
        )

    def fingerprint(self, task: Task) -> int:
        data = task.data
        if data["source"] == "generated":
            return fingerprint(data)
        content = data["prompt"] if data["source"] == "humaneval" else data["statement"]
        return number_of(digest("code", data["source"], content))

    def statistics(self, tasks: Sequence[Task]) -> dict[str, Statistic]:
        return measure(tasks)

    def solve(self, data: Mapping[str, Any]) -> dict[str, Any]:
        task = self.load(data)
        outcome = self.verify(task, self.oracle(task))
        return {**outcome.details, "solution": scripts.solution(task)}

    def draw(self, task: Task, text: str | None = None) -> str:
        return "\n".join(lines(task, text)) + "\n"

    def picture(self, task: Task, text: str | None, path: Path) -> None:
        draw_file(path, {".svg": lambda: svg_of(lines(task, text))})

    def load(self, data: Mapping[str, Any]) -> Task:
        """A task from a line of JSON: HumanEval's format, one with `statement` and `tests`, or a
        whole task as `coevolve tasks generate` writes it.

        What a task says of itself is worked out anew.
        """
        if "data" in data:
            return self.load_whole(data)
        if "entry_point" in data or "canonical_solution" in data:
            return load_humaneval(data)
        if "statement" in data:
            return load_stdin(data)
        fields = ", ".join(sorted(data)) or "nothing"
        raise UserError(
            "not a programming task: it needs `prompt`, `entry_point`, `canonical_solution` and "
            f"`test` (HumanEval) or `statement` and `tests`; it has {fields:.100}"
        )

    def load_whole(self, data: Mapping[str, Any]) -> Task:
        given = whole_task(data, self.name)
        task = self.again(given)
        check_split(self.fingerprint(task), given.split, given.id)
        return task.model_copy(update={"id": given.id, "seed": given.seed})

    def again(self, given: Task) -> Task:
        """A task built anew from the data of one."""
        data = given.data
        if data.get("source") == "humaneval":
            solution = str(data.get("reference", "")).removeprefix(str(data.get("prompt", "")))
            return load_humaneval(
                {
                    "task_id": given.id,
                    "prompt": data.get("prompt"),
                    "entry_point": data.get("entry"),
                    "canonical_solution": solution,
                    "test": data.get("check"),
                }
            )
        if data.get("source") == "stdin":
            kept = {key: value for key, value in data.items() if key not in ("source", "form")}
            return load_stdin({"id": given.id, **kept, "solution": kept.pop("reference", "")})
        made = read_generated(given.id, data)
        return task_of(self.name, made, fingerprint(made), bucket_of(made), given.seed)


def lines(task: Task, text: str | None) -> list[str]:
    """The task, the program in the answer, and a line for each test."""
    found = [
        part for line in prompt.question(task).split("\n") for part in wrap(line, WIDTH) or [""]
    ]
    found += ["", f"{total_of(task)} hidden tests"]
    if text is None:
        return found
    try:
        code = answer.extract(text)
    except answer.AnswerError as error:
        return [*found, "", f"- {error.failure}: {error}"]
    found += ["", *(f"    {line}" for line in code.rstrip().split("\n")), ""]
    return found + results(judge(task, code))


def results(judged: Judged) -> list[str]:
    found = []
    for number, verdict in enumerate(judged.verdicts, 1):
        if verdict.failure is None:
            found.append(f"+ test {number} ({verdict.kind})")
        else:
            found.append(f"- test {number} ({verdict.kind}): {verdict.failure}: {verdict.message}")
    left = judged.total - len(judged.verdicts)
    if left:
        found.append(f"- {left} more tests were not reached and count as failed")
    return [*found, f"{judged.passed} of {judged.total} tests passed"]
