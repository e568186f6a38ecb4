"""`coevolve doctor`: what is installed here, and what works."""

import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

EXTRAS = {
    "pillow": ("draw", "GIF pictures"),
    "matplotlib": ("draw", "heat maps"),
    "gymnasium": ("envs", "the Gymnasium environment"),
    "pettingzoo": ("envs", "the PettingZoo environment"),
    "math-verify": ("math", "math answers that are formulas"),
    "reasoning-gym": ("reasoning", "the data sets of reasoning-gym as domains"),
    "openenv": ("openenv", "`coevolve serve-domain` and OpenEnv servers as domains"),
    "verifiers": ("verifiers", "tasksets of verifiers; it cannot be installed beside openenv"),
    "torch": ("train", "local policies and training"),
    "trl": ("train", "training"),
    "duckdb": ("train", "`coevolve diagnose`"),
    "ray": ("cluster", "arms, versions and stages on several machines"),
    "fastapi": ("serve", "the dashboard"),
    "openai": ("endpoint", "policies behind an address"),
    "xllamacpp": ("gguf", "policies that are .gguf files"),
}
COMES_WITH = {"PIL": "pillow", "safetensors": "transformers"}
"""Packages of modules that are named otherwise."""


class Finding(NamedTuple):
    name: str
    state: str
    """ok, optional (missing, not needed) or broken."""
    message: str


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Check this machine: what is installed, what works, and how to get what is missing."""
    from coevolve.cli.show import show_finding

    findings = []
    for finding in examine():
        findings.append(finding)
        if not as_json:
            state = "missing" if finding.state == "optional" else finding.state
            show_finding(f"{state:7}", finding.name, finding.message)
    if as_json:
        print(json.dumps([finding._asdict() for finding in findings]))
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    """All findings, the basics first, each as soon as it is known."""
    basics: dict[str, Callable[[], str]] = {
        "python": lambda: f"{platform.python_version()} at {sys.executable}",
        "machine": lambda: f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "compiled code": lambda: (
            f"numba {import_module('numba').__version__}; the first use of the lake, which comes "
            "next, compiles it for a minute or two; later uses are quick"
        ),
        "solver": solver,
        "generator": generator,
        "temporary files": temporary_files,
    }
    yield from (look(name, found) for name, found in basics.items())
    yield sandbox()
    yield from map(package, EXTRAS)
    yield look("gpu", gpu)


def look(name: str, examination: Callable[[], str]) -> Finding:
    """Run one examination; whatever it raises is the finding."""
    try:
        return Finding(name, "ok", examination())
    except Exception as error:  # the capture point of `doctor`
        return Finding(name, "broken", f"{type(error).__name__}: {error}")


def solver() -> str:
    from coevolve.domains.lake.board import Board
    from coevolve.domains.lake.solver.certify import solve

    board = Board(rows=("...", "O.O", "..."), starts=((0, 0), (2, 2)), goals=((2, 2), (0, 0)))
    found = solve(board)
    if found.cost != 11:
        raise AssertionError(f"a board of cost 11 was solved at {found.cost}")
    return "solves a board to the known optimum"


def generator() -> str:
    from coevolve.core.splits import Split
    from coevolve.domains.registry import get_domain

    lake = get_domain("lake")
    for task in lake.generate(lake.space.parse({}), 2, 0, Split.DEV):
        if not lake.verify(task, lake.oracle(task)).optimal:
            raise AssertionError(f"the solution of {task.id} does not pass")
    return "makes tasks whose solutions pass"


def temporary_files() -> str:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x")
    return f"{Path(tempfile.gettempdir())} is writable"


def sandbox() -> Finding:
    from coevolve.core.errors import UserError
    from coevolve.sandbox.run import run

    try:
        run(["true"])
    except UserError as error:
        return Finding("sandbox", "optional", f"for the domains code and swe: {error}")
    return Finding("sandbox", "ok", "runs a program")


def gpu() -> str:
    if find_spec("torch") is None:
        return "not looked for: torch is missing"
    import torch

    names = (torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count()))
    return ", ".join(names) or "none that torch can use, so local models run on the CPU"


def package(name: str) -> Finding:
    extra, purpose = EXTRAS[name]
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, "optional", f"for {purpose}: pip install 'coevolve[{extra}]'")


def extra_for(module: str) -> str:
    """The first extra of ours that brings a module; empty if none does."""
    wanted = COMES_WITH.get(module, module).replace("_", "-")
    for requirement in requires("coevolve") or ():
        found = re.match(r"([\w-]++)[^;]*+; extra == ['\"](\w+)", requirement)
        if found and found[1] == wanted:
            return found[2]
    return ""
