"""`coevolve new-domain`: the beginnings of a domain, as a package that can be installed."""

import keyword
import re
from pathlib import Path
from typing import Annotated

import typer

from coevolve.core.errors import UserError
from coevolve.core.files import replace_file

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


def new_domain(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and underscores.")],
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", help="A new folder; NAME if not given.")
    ] = None,
) -> None:
    """Write a small domain that works, to be changed into your own.

    Then: pip install -e NAME;  coevolve check NAME;  coevolve evaluate -d NAME --split dev
    """
    from coevolve.domains import template
    from coevolve.domains.registry import FAMILIES, names

    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", name) or keyword.iskeyword(name):
        raise UserError(f"'{name}' cannot name a domain; use letters a-z, digits and underscores")
    if name in names() or name in FAMILIES:
        raise UserError(f"there is a domain '{name}' already; choose another name")
    place = folder or Path(name)
    if place.exists():
        raise UserError(f"{place} exists; name a new folder with --output")
    title = "".join(part.capitalize() for part in name.split("_"))
    source = Path(template.__file__).read_text("utf-8")
    source = source.replace("TemplateDomain", f"{title}Domain").replace('"template"', f'"{name}"')
    source = re.sub(r"\n`coevolve new-domain NAME` copies this file\. Change", "\nChange", source)
    source = source.replace("check NAME`", f"check {name}`")
    try:
        replace_file(place / f"{name}_domain.py", source.encode())
        replace_file(place / "pyproject.toml", PACKAGE.format(name=name, title=title).encode())
    except OSError as error:
        raise UserError(f"cannot write {place}: {error.strerror}") from None
    print(f"{place / f'{name}_domain.py'}: the domain, to be changed")
    print(f"next: pip install -e {place}; coevolve check {name}")
