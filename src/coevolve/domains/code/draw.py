"""A task, an answer to it and what the tests found, for a terminal and as a picture."""

from textwrap import wrap

from coevolve.core.task import Task
from coevolve.domains.code import answer
from coevolve.domains.code.judge import Judged, judge, total_of
from coevolve.domains.code.prompt import question
from coevolve.domains.lines import svg_of

WIDTH = 96


def draw_text(task: Task, text: str | None) -> str:
    return "\n".join(lines(task, text)) + "\n"


def lines(task: Task, text: str | None) -> list[str]:
    """The task, the program in the answer, and a line for each test."""
    found = [part for line in question(task).split("\n") for part in wrap(line, WIDTH) or [""]]
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


def draw_svg(task: Task, text: str | None) -> str:
    """The same lines as a picture."""
    return svg_of(lines(task, text))
