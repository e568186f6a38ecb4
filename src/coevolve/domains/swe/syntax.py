"""Source as a syntax tree, one at a time.

CPython 3.11 counts the depth of trees in one place for all threads: two that parse at once may both
fail with a SystemError.
"""

import ast
from threading import Lock

PARSING = Lock()


def parse(source: str | bytes) -> ast.Module:
    """The tree of a module; a SyntaxError or ValueError if it is none."""
    with PARSING:
        return ast.parse(source)
