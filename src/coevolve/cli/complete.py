"""What a shell offers for a word that was begun: names of plans, domains, policies, engineers, and
settings, and folders of runs. Nothing heavy is imported for it."""

from collections.abc import Callable, Iterable
from pathlib import Path

from typer.models import ParameterInfo

Names = Callable[[], Iterable[str]]
MODELS = ("pocket", "smollm2")


def plans() -> Iterable[str]:
    from coevolve.harness.plan import PRESETS

    return PRESETS


def comparisons() -> Iterable[str]:
    from coevolve.harness.comparison import SHIPPED

    return SHIPPED


def domains() -> Iterable[str]:
    from coevolve.domains.registry import names

    return (name for name in names() if name.islower())  # not data:FILE


def policies() -> Iterable[str]:
    return (*MODELS, "oracle", "small")


def engineers() -> Iterable[str]:
    from coevolve.engineers.registry import known_engineers

    known = ("policy", "base", "rules", "random-search", "grid-search", *known_engineers())
    return (name for name in known if not name.startswith("bad-"))


def recipe() -> Iterable[str]:
    from coevolve.harness.recipe import Recipe

    return (f"{name}=" for name in Recipe.model_fields)


def runs() -> Iterable[str]:
    """Below the folder that runs go to."""
    found = [
        file for depth in ("*", "*/*", "*/*/*") for file in Path("runs").glob(f"{depth}/ledger.db")
    ]
    return sorted(str(file.parent) for file in found)


NAMES: dict[str, Names] = {
    "plan": plans, "domain": domains, "policy": policies, "engineer": engineers, "recipe": recipe,
    "folder": runs, "one": runs, "other": runs, "comparison": comparisons,
}  # fmt: skip
"""By the parameter of a command."""


def offer(command: Callable[..., object]) -> None:
    """Have the parameters of a command completed."""
    for name, kind in command.__annotations__.items():
        for info in getattr(kind, "__metadata__", ()):
            if isinstance(info, ParameterInfo) and name in NAMES and not info.autocompletion:
                info.autocompletion = beginning(NAMES[name])


def beginning(names: Names) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete
