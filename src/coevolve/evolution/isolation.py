"""What a run depends on besides its plan: the code, and the weights that it begins with.

Both are recorded when a tree is begun and with every version, so that a version can be told to have
been made by something else, and a run does not go on from other weights than it began with.
"""

from functools import cache
from pathlib import Path

import coevolve
from coevolve.core.errors import UserError
from coevolve.core.seeds import digest
from coevolve.evolution.tree import Tree
from coevolve.policies.weights import weights_of

CODE = (".py", ".toml")


@cache
def code_hash() -> str:
    """Of everything in the package that decides something."""
    folder = Path(coevolve.__file__).parent
    files = sorted(path for path in folder.rglob("*") if path.suffix in CODE)
    parts = [part for file in files for part in (str(file.relative_to(folder)), file.read_bytes())]
    return digest(*parts).hex()


def hold_to(tree: Tree) -> None:
    """Refuse to go on from other weights; say so where the code is another."""
    now = {"code": code_hash(), "policy": weights_of(tree.evolution.policy)}
    begun = tree.ledger.phase(0, "hashes", lambda: now)
    if begun["policy"] != now["policy"]:
        raise UserError(
            f"the weights of {tree.evolution.policy} are not those that this run began with; put "
            "them back, or begin another run"
        )
    if begun["code"] != now["code"]:
        tree.say("the code has changed since this run was begun: versions may differ by that, too")
