"""Names in words: looked up, with the nearest in the error for a wrong one; counted; typed."""

import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from coevolve.core.errors import UserError

Entry = TypeVar("Entry")


def did_you_mean(name: str, known: list[str]) -> str:
    """What to append to an error about an unknown name."""
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else "."


def lookup(kind: str, name: str, registry: Mapping[str, Entry]) -> Entry:
    """The entry called `name`, or an error that names the nearest one and lists them all."""
    if name not in registry:
        known = sorted(registry)
        hint = did_you_mean(name, known)
        raise UserError(f"unknown {kind} '{name}'{hint} Known: {', '.join(known)}")
    return registry[name]


def several(number: int, what: str) -> str:
    """A number of things."""
    ending = "es" if what.endswith("s") else "s"
    return f"{number:,} {what}{ending * (number != 1)}"


def typed(*words: object) -> str:
    """A command of ours as it is typed, also where a folder has gaps in its name."""
    return shlex.join(["coevolve", *map(str, words)])
