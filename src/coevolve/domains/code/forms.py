"""The two forms of a task: a function to write, or a program that reads and prints."""

import math
from typing import Any

from coevolve.domains.code.template import Argument

FUNCTION, STDIN = "function", "stdin"
TYPES = {
    "int": "int",
    "text": "str",
    "ints": "list[int]",
    "words": "list[str]",
    "rows": "list[list[int]]",
}
READS = {
    "int": "a line with the whole number `{name}`",
    "text": "a line with the text `{name}`",
    "ints": "a line with the length of `{name}`, then a line with its numbers, separated by blanks "
    "(empty if there are none)",
    "words": "a line with the number of rows of `{name}`, then each row on a line of its own",
    "rows": "a line with the number of entries of `{name}`, then each entry on a line of its own, "
    "its numbers separated by blanks",
}
PRINTS = {
    "int": "Print the result, a whole number.",
    "text": "Print the result, a text, on one line.",
    "ints": "Print the numbers of the result on one line, separated by blanks.",
}
CODE = {
    "int": "{name} = int(next(lines))",
    "text": "{name} = next(lines)",
    "ints": "count = int(next(lines))\n{name} = [int(word) for word in next(lines).split()]",
    "words": "{name} = [next(lines) for _ in range(int(next(lines)))]",
    "rows": "count = int(next(lines))\n"
    "{name} = [[int(word) for word in next(lines).split()] for _ in range(count)]",
}
SHOW = {"int": "print({call})", "text": "print({call})", "ints": "print(*{call})"}


def write_input(takes: tuple[Argument, ...], values: list[Any]) -> str:
    """Arguments as the standard input of a program."""
    lines: list[str] = []
    for argument, value in zip(takes, values, strict=True):
        if argument.kind in ("int", "text"):
            lines.append(str(value))
            continue
        lines.append(str(len(value)))
        if argument.kind == "ints":
            lines.append(" ".join(map(str, value)))
        elif argument.kind == "words":
            lines += value
        else:
            lines += [" ".join(map(str, row)) for row in value]
    return "\n".join(lines) + "\n"


def write_output(gives: str, value: Any) -> str:
    """What a program ought to print."""
    return " ".join(map(str, value)) if gives == "ints" else str(value)


def signature(takes: tuple[Argument, ...], gives: str) -> str:
    arguments = ", ".join(f"{argument.name}: {TYPES[argument.kind]}" for argument in takes)
    return f"def solve({arguments}) -> {TYPES[gives]}"


def as_program(takes: tuple[Argument, ...], gives: str, source: str) -> str:
    """A solution in the form of a function, made into a program."""
    reads = "\n".join(CODE[argument.kind].format(name=argument.name) for argument in takes)
    call = f"solve({', '.join(argument.name for argument in takes)})"
    shows = SHOW[gives].format(call=call)
    lines = 'lines = iter(sys.stdin.read().split("\\n"))'
    return f"import sys\n\n\n{source}\n\n{lines}\n{reads}\n{shows}\n"


def ask(form: str, takes: tuple[Argument, ...], gives: str) -> str:
    """What is to be written, in words."""
    if form == FUNCTION:
        head = signature(takes, gives)
        return f"Write the Python function\n\n    {head}\n\nthat returns the result."
    lines = [f"- {READS[argument.kind].format(name=argument.name)}" for argument in takes]
    reads = "\n".join(lines)
    return (
        f"Write a Python program that reads from standard input\n{reads}\n\n{PRINTS[gives]} "
        "Print nothing else."
    )


def same_output(printed: str, wanted: str, tolerance: float = 0.0) -> bool:
    """Whether two outputs say the same: blanks at line ends and empty lines at the end are free.

    With a tolerance, words that are numbers may differ by that much, absolutely or relatively.
    """
    lines, goal = lines_of(printed), lines_of(wanted)
    if lines == goal:
        return True
    if not tolerance or len(lines) != len(goal):
        return False
    for line, aim in zip(lines, goal, strict=True):
        words, aims = line.split(), aim.split()
        if len(words) != len(aims):
            return False
        if not all(close(w, a, tolerance) for w, a in zip(words, aims, strict=True)):
            return False
    return True


def lines_of(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def close(word: str, aim: str, tolerance: float) -> bool:
    if word == aim:
        return True
    try:
        value, goal = float(word), float(aim)
    except ValueError:
        return False
    if not math.isfinite(goal):
        return value == goal
    return abs(value - goal) <= tolerance * max(1.0, abs(goal))
