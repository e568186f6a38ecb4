"""Tasks from elsewhere: GSM8K (`question`, `answer` with ####), AIME (`problem`, `answer`).

An answer that is a number is compared exactly; anything else is a formula, for math-verify.
"""

from collections.abc import Mapping
from typing import Any

from coevolve.core.errors import UserError
from coevolve.domains.math import symbolic
from coevolve.domains.math.answer import LONGEST, MARK, NoAnswer, find, read_number

QUESTIONS = ("question", "problem", "Problem", "prompt")
ANSWERS = ("answer", "Answer", "solution", "expected_answer")
MOST = 20_000
"""Characters of a question."""


def convert(row: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a task from a row of some data set."""
    question, answer = first(row, QUESTIONS), first(row, ANSWERS)
    if not isinstance(question, str) or not question.strip():
        raise UserError(
            f"a math task needs text under one of {', '.join(QUESTIONS)}{seen(row, QUESTIONS)}"
        )
    if len(question) > MOST:
        raise UserError(f"a question of {len(question)} characters; {MOST} at most")
    if isinstance(answer, int | float) and not isinstance(answer, bool):
        answer = str(answer)
    if not isinstance(answer, str) or not answer.strip():
        raise UserError(
            f"a math task needs its answer, as a number or text, under one of {', '.join(ANSWERS)}"
            f"{seen(row, ANSWERS)}"
        )
    final = final_answer(answer)
    number = read_number(final)
    if number is None:
        symbolic.require()
        if problem := symbolic.refused(final):
            raise UserError(f"the answer {final[:60]!r} cannot be checked: {problem}")
    return {
        "question": question,
        "answer": final,
        "form": "any" if number else "expression",
        "solution": answer if answer != final else str(row.get("solution") or ""),
    }


def first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def seen(row: Mapping[str, Any], names: tuple[str, ...]) -> str:
    if there := next((name for name in names if name in row), None):
        return f"; here {there} is {row[there]!r:.60}"
    return f"; this line has {', '.join(map(repr, list(row)[:8])) or 'nothing'}"


def final_answer(answer: str) -> str:
    """The answer proper: what a solution marks as it, or all of a short text."""
    if MARK in answer or "\\boxed" in answer:
        try:
            return find(answer)
        except NoAnswer as error:
            raise UserError(f"no answer in the solution {answer[-60:]!r}: {error}") from None
    if len(answer) > LONGEST:
        raise UserError(f"an answer of {len(answer)} characters without {MARK} or \\boxed{{}}")
    return answer.strip()
