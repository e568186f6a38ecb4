"""Every command in README and docs is one: its name, its options and their values are known. What
Python needs is there."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from coevolve.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = typer.main.get_command(app)
Bad = typer.BadParameter.__mro__[1]
"""What typer raises for words that cannot be understood."""


def commands(text: str) -> Iterator[str]:
    """In blocks of code, indented or fenced, and within sentences."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").split("\n")]
    lines += [line for line in text.split("\n") if line.startswith("    ")]
    lines += re.findall(r"`(coevolve [^`]+)`", text.replace("\n", " "))
    parts = (part.strip().removeprefix("$ ") for line in lines for part in line.split(" | "))
    found = (part for part in parts if part.startswith("coevolve "))
    # `coevolve approve|abort RUN` stands for several, of which the first is looked at.
    return (re.sub(r"^coevolve ([\w-]+)\|\S+", r"coevolve \1", part) for part in found)


def understood(line: str) -> None:
    """Read the words of a command as the program would, and run nothing."""
    command, context = COMMAND, None
    words, name = shlex.split(line, comments=True)[1:], "coevolve"
    while True:
        try:
            context = command.make_context(name, words, parent=context)
        except typer.Exit:  # as after --help
            return
        if not isinstance(command, TyperGroup):
            return
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        found, command, words = command.resolve_command(context, rest)
        name = found or ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_understood(page: Path) -> None:
    for line in commands(page.read_text("utf-8")):
        try:
            understood(line)
        except (Bad, ValueError) as error:
            # A sentence may name a command without what it needs.
            if type(error).__name__ != "MissingParameter" or " -" in line:
                pytest.fail(f"{line}: {error}")


def python(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


SNIPPETS = [(page.name, block) for page in PAGES for block in python(page.read_text("utf-8"))]


@pytest.mark.parametrize(("name", "block"), SNIPPETS, ids=lambda part: str(part)[:20])
def test_imports_are_there(name: str, block: str) -> None:
    tree = ast.parse(block)
    found = [one for one in ast.walk(tree) if isinstance(one, ast.Import | ast.ImportFrom)]
    for one in found:
        module = one.module if isinstance(one, ast.ImportFrom) else one.names[0].name
        if module and module.partition(".")[0] in ("openenv", "verifiers"):
            pytest.importorskip(module, reason=f"{module} is in an environment of its own")
        exec(compile(ast.Module([one], []), name, "exec"), {})


@pytest.mark.parametrize(
    "line", ["coevolve run --nonsense", "coevolve nothing", "coevolve run --versions many",
             "coevolve tasks generate --counts 3"],
)  # fmt: skip
def test_what_is_no_command_is_seen(line: str) -> None:
    with pytest.raises(Bad):
        understood(line)
