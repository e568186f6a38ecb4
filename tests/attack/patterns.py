"""Every regular expression of the package, found in its source, and texts made to trouble them."""

import ast
import importlib
import re
import string
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import coevolve
from coevolve.core.overtime import Overtime, within
from coevolve.domains.reasoning.score import ALPHABETS

SOURCE = Path(coevolve.__file__).parent
METHODS = ("match", "search", "fullmatch", "findall", "finditer", "sub", "subn", "split")
MADE = {
    "f'(?:{alphabet})*+'": [f"(?:{alphabet})*+" for alphabet in ALPHABETS.values()],
    r"f'\\[{name}:([^|]*)\\|([^]]*)\\]'": [],  # statements of ours, when a task is made
    "pattern": [],  # code of packages, when a task is made
    r"f'\\b{wanted}\\b'": [r"\bwanted\b", r"\b(?:a|b c)\b"],
}
"""Patterns that are put together where they are used, and examples of them; none for those that
meet no text of a model."""


class Found(NamedTuple):
    """A pattern and how it is used."""

    where: str
    pattern: re.Pattern[str]
    method: str


def patterns() -> Iterator[Found]:
    """All patterns in the source."""
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text("utf-8")
        tree = ast.parse(text)
        named = {
            id(node.value): node.targets[0].id
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "re":
                raise AssertionError(f"{file}: say `import re`, so that patterns can be found")
            if not (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and ast.unparse(node.func.value) == "re"
                and node.func.attr in (*METHODS, "compile")
            ):
                continue
            where = f"{file.relative_to(SOURCE)}:{node.lineno}"
            if id(node) in named:
                name = named[id(node)]
                parts = file.relative_to(SOURCE.parent).with_suffix("").parts
                pattern = getattr(importlib.import_module(".".join(parts)), name)
                used = re.findall(rf"\b{name}\.({'|'.join(METHODS)})\(", text)
                for method in dict.fromkeys(used or ["search"]):
                    yield Found(f"{where} {name}", pattern, method)
                continue
            method = "search" if node.func.attr == "compile" else node.func.attr
            for source in sources(node.args[0], where):
                yield Found(where, re.compile(source), method)


def sources(node: ast.expr, where: str) -> list[str]:
    """The pattern of a call, or examples of it."""
    if isinstance(node, ast.Constant):
        return [node.value.decode() if isinstance(node.value, bytes) else node.value]
    written = ast.unparse(node)
    assert written in MADE, f"{where}: give examples of the pattern {written} in MADE"
    return MADE[written]


def atoms(pattern: re.Pattern[str]) -> list[str]:
    """Single characters and words that a pattern is about."""
    source = pattern.pattern
    words = re.findall(r"[A-Za-z]{3,}", source)
    plain = [mark for mark in dict.fromkeys(source) if mark in string.punctuation]
    few = [*" a0\n_.,-", *plain]
    return list(dict.fromkeys([*few, *words[:6]]))


def texts(pattern: re.Pattern[str]) -> Iterator[Callable[[int], str]]:
    """Texts of any length that a pattern may have trouble with."""
    every = atoms(pattern)
    words = [one for one in every if len(one) > 1]
    heads = ["", "^", "{", "```", "\\text{", "\\frac{", "(a", "0x", "10^{", "x_", "python ", "<<",
             *words, *(f"\\{word}{{" for word in words)]  # fmt: skip
    for atom in every:
        for head in heads:
            for tail in ("", "!"):
                yield lambda n, h=head, a=atom, t=tail: h + a * (n // len(a)) + t  # type: ignore[misc]
    for one in few_of(every):
        for other in few_of(every):
            yield lambda n, a=one, b=other: (a + b) * (n // len(a + b))  # type: ignore[misc]
    for head in heads[1:]:
        for gap in (" ", "a", "1", " a", ""):
            yield lambda n, h=head, g=gap: (h + g * 20) * (n // (len(h) + 20 * len(g)))  # type: ignore[misc]


STEPS, NOTICED_S, MOST_S = (2_000, 8_000, 32_000), 0.004, 1.0
"""Characters; CPU seconds that are worth a second look, and that nothing linear takes."""
STEEPEST = 1.5
"""Time may grow with this power of the length. Linear is 1, and noise adds to it; a square is 2."""


def spent(work: Callable[[str], object], text: str) -> float:
    """CPU seconds, or more than the most."""
    began = time.thread_time()
    try:
        within(MOST_S, 600.0, lambda: work(text))
    except Overtime:
        return 2 * MOST_S
    return time.thread_time() - began


def steep(work: Callable[[str], object], text: Callable[[int], str]) -> str:
    """How the time grows with the length, where it does too much each time that it is looked at;
    empty where it does not."""
    found = ""
    for _ in range(4):
        found = growth(work, text)
        if not found:
            break
    return found


def growth(work: Callable[[str], object], text: Callable[[int], str]) -> str:
    if spent(work, text(STEPS[1])) < NOTICED_S:
        return ""
    times: list[float] = []
    for size in STEPS:
        given = text(size)
        times.append(min(spent(work, given) for _ in range(3)))
        if times[-1] > MOST_S:
            return f"{size} characters take over {MOST_S} s"
        if len(times) > 1 and times[-1] > 3 * NOTICED_S and times[-1] / times[-2] > 4**STEEPEST:
            return f"{STEPS[: len(times)]} characters take {times} s"
    return ""


def few_of(every: list[str]) -> list[str]:
    """Those that texts of two pieces are made of."""
    return every[:16]
