"""Designs for a person to read."""

from collections.abc import Sequence

from coevolve.domains.change import knob_words
from coevolve.domains.knobs import Knobs
from coevolve.engineering.table import is_table
from coevolve.harness.patch import Patch


def described(designs: Sequence[tuple[str, Patch]], incumbent: Knobs) -> dict[str, str]:
    """By author: what it comes to in a sentence, what was said, and all that would change."""
    found: dict[str, str] = {}
    for author, patch in designs:
        same = sum(other == author for other, _ in designs[: len(found)])
        short, changes = "", f"{patch.factor}: {patch.value}"
        if patch.factor == "knobs":
            after = incumbent.space.parse(patch.value)
            short = knob_words(incumbent, after)
            changes = "\n".join(
                f"{name}: {old:.4g} → {new:.4g}"
                for name, (old, new) in after.difference(incumbent).items()
            )
        name = f"{author} {same + 1}" if same else author
        said = "" if is_table(patch.hypothesis) else patch.hypothesis
        found[name] = "\n".join(filter(None, (short, said, changes)))
    return found
