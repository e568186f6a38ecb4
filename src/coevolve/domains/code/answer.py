"""Finding the program in an answer: the last code block, and nothing that is only half there."""

import re
from typing import NamedTuple

FENCE = re.compile(r" {0,3}```+[ \t]*+([A-Za-z0-9_+.-]*+)[ \t\r]*+")
LANGUAGES = ("python", "python3", "py")
LONGEST = 100_000
"""Characters that a program may have."""


class AnswerError(ValueError):
    """Why a text holds no program."""

    def __init__(self, failure: str, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class Block(NamedTuple):
    language: str
    code: str


def blocks(text: str) -> tuple[list[Block], bool]:
    """The code blocks of a text, and whether the last one was never closed."""
    found: list[Block] = []
    language: str | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        mark = FENCE.fullmatch(line)
        if mark is None:
            lines.append(line)
        elif language is None:
            language, lines = mark[1].lower(), []
        else:
            found.append(Block(language, "\n".join(lines) + "\n"))
            language = None
    return found, language is not None


def extract(text: str) -> str:
    """The program of an answer: of the last block that says it is Python, else of the last."""
    found, open_ended = blocks(text)
    if open_ended:
        raise AnswerError("truncated", "the last code block is never closed")
    marked = [block.code for block in found if block.language in LANGUAGES]
    plain = [block.code for block in found if not block.language]
    for code in (*reversed(marked), *reversed(plain)):
        if code.strip():
            if len(code) > LONGEST:
                raise AnswerError("no_code", f"{len(code)} characters; at most {LONGEST} are read")
            return code
    raise AnswerError("no_code", "no code block" if not found else "no block of Python")


def fenced(code: str) -> str:
    """A program as an answer."""
    return f"```python\n{code.rstrip()}\n```"
