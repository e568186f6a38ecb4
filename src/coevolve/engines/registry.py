"""All engines by name. Adding one is a line here, or an entry point in another package.

Invariant: nothing is imported until an engine is asked for, so that a machine without torch can
list them and train with a program of its own.
"""

from collections.abc import Callable
from importlib.util import find_spec

from coevolve.core.entry import offers
from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.engines.base import Engine

GROUP = "coevolve.engines"
"""Entry points of this group in other packages are engines too: something to call without
arguments that gives an `Engine`."""
COMMAND = "command:"
"""What stands before the program in the name of that engine."""


def trl() -> Engine:
    """TRL in this process, or in several."""
    if find_spec("trl") is None:
        raise UserError("engine 'trl' needs packages: pip install 'coevolve[train]'")
    from coevolve.engines.trl.engine import TrlEngine

    return TrlEngine()


def command(program: str = "") -> Engine:
    """A program of somebody's own."""
    from coevolve.engines.command import CommandEngine

    return CommandEngine(program)


ENGINES: dict[str, Callable[[], Engine]] = {"trl": trl, "command": command}
"""Those that come with the package."""


def names() -> dict[str, Callable[[], Engine]]:
    """Every known engine and how to make it."""
    known: dict[str, Callable[[], Engine]] = {
        name: offer.make for name, offer in offers(GROUP).items()
    }
    return known | ENGINES


def get_engine(name: str) -> Engine:
    """The engine called `name`: trl, command:PROGRAM ARGS, or one of another package."""
    if name.startswith(COMMAND):
        return command(name.removeprefix(COMMAND))
    if name in ENGINES:
        return ENGINES[name]()
    known = names()
    if name not in known:
        lookup("engine", name, dict.fromkeys([*known, f"{COMMAND}PROGRAM"]))
    return known[name]()
