"""Rewards and weights as Python: one function over what is recorded of a rollout.

    def reward(rollout):
        early = rollout["tokens"] < 60
        return rollout["reward"] + 0.1 * (rollout["valid"] and early)

    def weight(rollout):
        return 0 if rollout["truncated"] else 2 - rollout["group_valid"]

Whoever wrote it, it is only ever run in a sandbox. Invariant: what is refused here is refused
before anything runs, with the line that is wrong.
"""

import ast
import re

from coevolve.core.errors import UserError

MOST_CHARACTERS = 8_000
MODULES = ("collections", "functools", "itertools", "json", "math", "re", "statistics", "string")
"""What it may import."""
KNOWN = {
    "components": "the domain's reward components, by name",
    "failure": "class of the failure, or None",
    "stop": "why it ended: end, length, turns, timeout",
    "text": "the last answer",
    "messages": "all of the dialogue, as pairs of role and text",
    "calls": "of tools, as pairs of the tool's name and whether it went well",
    "files": "that were edited",
    "tests_run": "how often the policy ran tests",
}
"""Keys of the rollout beside those that expressions know by name."""
GROUPED = {
    "earned": "what the harness's reward pays for it",
    "group_valid": "share of its group that is valid",
    "group_mean": "what its group earned on average",
    "group_spread": "standard deviation of that",
}
"""Keys that are known once all of a step is rewarded, for weights."""
LINE = re.compile(r"^[ \t]*(?:def|import|from)[ \t]", re.MULTILINE)


def is_code(text: str) -> bool:
    """Whether a reward is Python rather than an expression."""
    return LINE.search(text) is not None


def check_code(text: str, name: str = "reward") -> None:
    """Refuse what is not one function of a rollout, with helpers and constants."""
    if len(text) > MOST_CHARACTERS:
        raise UserError(f"the {name} has {len(text):,} characters; {MOST_CHARACTERS:,} are enough")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"the {name} is not Python: {error}") from None
    found = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == name]
    arguments = ast.unparse(found[0].args) if found else ""
    if len(found) != 1 or not arguments.isidentifier():
        raise UserError(f"a {name} in Python has one function `def {name}(rollout):`")
    for one in tree.body:
        if not isinstance(one, ast.FunctionDef | ast.Import | ast.ImportFrom | ast.Assign):
            raise UserError(
                f"line {one.lineno} of the {name}: besides functions, only imports and constants "
                "may stand here"
            )
    for node in ast.walk(tree):
        imported = []
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [node.module or "."]
        for module in imported:
            if module not in MODULES:
                raise UserError(
                    f"the {name} imports {module[:60]}; it may import {', '.join(MODULES)}"
                )
