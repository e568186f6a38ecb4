"""`coevolve new-domain`: the beginnings of a domain, as a package that can be installed."""

import inspect
import keyword
import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from coevolve.core.errors import UserError
from coevolve.core.files import replace_file
from coevolve.core.names import typed

PACKAGE = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "coevolve-{name}"
version = "0.1.0"
dependencies = ["coevolve"]

[project.entry-points."coevolve.domains"]
{name} = "{name}_domain:{title}Domain"

[tool.setuptools]
py-modules = ["{name}_domain"]
"""


TESTS = '''\
"""What every domain promises, asked of this one."""

import pytest
from {name}_domain import {title}Domain

from coevolve.domains.check import conformance


@pytest.mark.parametrize("finding", list(conformance({title}Domain())), ids=lambda one: one.name)
def test_promises(finding):
    assert finding.passed, finding.message
'''

PLAN = """\
# {run}: three versions, on two cores in a few minutes.
name = "{name}"
domain = "{domain}"
policy = "small"       # a tiny model, made for these tasks and taught first; put your own here
engineers = ["aim"]    # a rule: more room for what can be learned; or policy, or an address
versions = 3

[recipe]
steps = 15
tasks = 16
group = 8
learning_rate = 3e-4
max_tokens = 64

[target]               # what counts
dev = 100
gate = 200
samples = 2
temperature = 1.0      # as in training
max_tokens = 64

[backtest]
tasks = 16
samples = 4
"""

JUDGE = '''\
"""Who judges answers to the rows of a data set. Change it into what counts for you."""


def judge(row, answer):
    """1 or True for a right answer, a number below 1 for a part of it. `row` has the columns."""
    return answer.strip().lower() == str(row["answer"]).strip().lower()
'''


def new_domain(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and underscores.")],
    turns: Annotated[
        bool, typer.Option("--turns", help="Write a domain with tasks of several turns.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Write a judge for this data set (JSONL, JSON, CSV, Parquet)."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", help="The new folder. Default: NAME.")
    ] = None,
) -> None:
    """Write a small working domain, with a test and a plan, for you to change.

    Then: pip install -e NAME;  coevolve check NAME;  coevolve run NAME/plan.toml

    With --data you get a file with the judge and a plan that uses it. Nothing needs installing.

    Examples: coevolve new-domain mine;  coevolve new-domain mine --turns

      coevolve new-domain mine --data problems.jsonl
    """
    from coevolve.domains.registry import FAMILIES, names

    if keyword.iskeyword(name):
        raise UserError(
            f"'{name}' cannot name a domain: it is a word of Python; use another, such as "
            f"{name.lower()}_1"
        )
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", name):
        raise UserError(f"'{name}' cannot name a domain; use letters a-z, digits and underscores")
    if name in names() or name in FAMILIES:
        raise UserError(f"there is a domain '{name}' already; choose another name")
    if turns and data:
        raise UserError("--turns and --data: rows of a data set are asked once; give one of them")
    place = folder or Path(name)
    if place.exists():
        raise UserError(f"{place} exists; name a new folder with --output")
    files, after = judged(name, data, place) if data else packaged(name, turns, place)
    try:
        for file, text in files.items():
            replace_file(place / file, text.encode())
    except OSError as error:
        raise UserError(f"cannot write {place}: {error.strerror}") from None
    print(f"{place}: {', '.join(files)}")
    print(f"next: {after}")


def packaged(name: str, turns: bool, place: Path) -> tuple[dict[str, str], str]:
    """The files of a package with a domain, and what to do with them."""
    from coevolve.domains import template, template_turns

    title = "".join(part.capitalize() for part in name.split("_"))
    source = inspect.getsource(template_turns if turns else template)
    source = source.replace("TemplateDomain", f"{title}Domain").replace('"template"', f'"{name}"')
    source = re.sub(
        r"\n`coevolve new-domain NAME[^`]*` copies this file\. Change", "\nChange", source
    )
    source = source.replace("check NAME`", f"check {name}`")
    return {
        f"{name}_domain.py": source,
        f"test_{name}.py": TESTS.format(name=name, title=title),
        "plan.toml": PLAN.format(name=name, domain=name, run=typed("run", place / "plan.toml")),
        "pyproject.toml": PACKAGE.format(name=name, title=title),
    }, (
        f"pip install -e {shlex.quote(str(place))}; {typed('check', name)}; "
        f"{typed('run', place / 'plan.toml')}"
    )


def judged(name: str, data: Path, place: Path) -> tuple[dict[str, str], str]:
    """A judge for a data set and a plan, and what to do with them."""
    from coevolve.domains.registry import get_domain

    rows = str(data).removeprefix("data:")
    rows += "&" if "?" in rows else "?"  # it may name columns
    domain, run = f"data:{rows}judge={place}/judge.py", typed("run", place / "plan.toml")
    get_domain(f"data:{rows}judge=exact")  # refuses what cannot be read
    return {
        "judge.py": JUDGE,
        "plan.toml": PLAN.format(name=name, domain=domain, run=run),
    }, f"{typed('check', domain)}; {run}"
