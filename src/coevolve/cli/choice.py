"""Choosing tasks and policies, for commands that put one to the other.

Invariant: a word that cannot be right is refused before anything slow is loaded, and no command
that chooses here draws tasks of the test split; a frozen suite, or a file, may hold some.
"""

import math
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from coevolve.cli.tasks import parse_changes, parse_split
from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.splits import Split

if TYPE_CHECKING:
    from coevolve.core.task import Task
    from coevolve.domains.base import Domain
    from coevolve.policies.base import Policy, Sampling
    from coevolve.store.lineage import Lineage

COUNT = 100
"""Tasks generated where --count does not say."""
MODELS = ("pocket", "smollm2")
OTHERS = "a model folder, FILE.gguf, vllm:MODEL, http://HOST/v1#MODEL or a hub id"

Style = Annotated[
    str, typer.Option(help="Prompt style. Default: the one that the model was taught.")
]
Samples = Annotated[int, typer.Option("--samples", "-n", min=1, help="Attempts per task.")]
Temperature = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Default: 0 (the most likely answer) for one sample of a model, else 1. "
        "Scripts take no notice.",
    ),
]
MaxTokens = Annotated[
    int, typer.Option(min=1, help="Most tokens of an answer; the model's context may allow fewer.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:N or mps. Default: the fastest.")]
Seed = Annotated[int, typer.Option(help="Random seed of answers and of generated tasks.")]
KnobValues = Annotated[
    list[str] | None,
    typer.Option("--knob", "-k", help="NAME=VALUE for generated tasks; repeatable."),
]


class Settings(NamedTuple):
    """How tasks are attempted."""

    samples: int
    temperature: float | None
    max_tokens: int
    seed: int
    style: str
    device: str
    batch: int = 64

    def sampling(self, scripted: bool) -> "Sampling":
        """How answers are drawn: of a model, one answer is its likeliest and several are drawn."""
        from coevolve.policies.base import Sampling

        temperature = self.temperature
        if temperature is None:
            temperature = 0.0 if self.samples == 1 and not scripted else 1.0
        if not math.isfinite(temperature):
            raise UserError(f"--temperature {temperature} is not a temperature; use 0 or more")
        return Sampling(temperature=temperature, max_tokens=self.max_tokens, seed=self.seed)


class TaskList(NamedTuple):
    """The tasks that were found."""

    domain: "Domain"
    name: str
    """What to call them in a title."""
    origin: dict[str, Any]
    """Where they come from: enough to get them again."""
    tasks: "list[Task]"


def find_tasks(
    domain: "Domain", suite: str = "", tasks: Path | None = None, split: str = "",
    count: int | None = None, knobs: list[str] | None = None, seed: int = 0,
) -> TaskList:  # fmt: skip
    """`count` fresh tasks of a split, or the first so many of a suite or a file, or all of it; the
    domain's first suite if none is named."""
    given = [f"--{name}" for name, value in
             (("suite", suite), ("tasks", tasks), ("split", split)) if value]  # fmt: skip
    if suite and len(given) > 1:
        raise UserError(f"{given[0]} and {given[1]} both name tasks; give one of them")
    made_of_split = given == ["--split"]
    if knobs and not made_of_split:
        raise UserError("--knob makes tasks of a split; add --split dev and no --tasks")
    if made_of_split:
        changes = parse_changes(knobs or [])
        found = generated(domain, open_split(split), count, changes, seed)
    else:
        found = listed(domain, suite, tasks, split, count)
    if not found.tasks:
        raise UserError(f"{found.name} holds no task")
    return found


def listed(
    domain: "Domain", suite: str, file: Path | None, among: str, count: int | None
) -> TaskList:
    """Tasks that exist: those of a file, or of one split in it, or of a suite."""
    from coevolve.cli.show import progress
    from coevolve.domains.files import read_tasks

    if file is not None:
        made, kind, name = read_tasks(domain, file), "tasks", str(file)
        if among:
            split = open_split(among)
            made = (task for task in made if task.split is split)
            name = f"{name}, {split}"
    else:
        if not suite and not domain.suites:
            raise UserError(f"{domain.name} has no suite; give --split dev, or --tasks FILE")
        kind, name = "suite", suite or next(iter(domain.suites))
        made = progress(lookup("suite", name, domain.suites)(), 0, f"building {name}")
    return TaskList(domain, name, {kind: name}, list(islice(made, count)))


def generated(
    domain: "Domain", split: Split, count: int | None, changes: dict[str, float], seed: int
) -> TaskList:
    """Fresh tasks of a split that may be looked at any number of times: as many as there are, where
    these are fewer than usual and nobody asked for more."""
    from coevolve.cli.show import PLAIN, notes, progress
    from coevolve.domains.base import tasks_in

    if count is None:
        there = tasks_in(domain, split)
        count = min(COUNT, there or COUNT)
        if there == count and not changes:
            notes.print(f"the split '{split}' has {there:,} tasks; all are asked", **PLAIN)
    made = domain.generate(domain.space.parse(changes), count, seed, split, os.cpu_count() or 1)
    origin = {"split": str(split), "count": count, "seed": seed, "knobs": changes}
    return TaskList(domain, str(split), origin, list(progress(made, count, "generating")))


def open_split(name: str) -> Split:
    """A split that may be looked at."""
    split = parse_split(name)
    if split is Split.TEST:
        raise UserError(
            "the test split is looked at once, by `coevolve final`; use --split dev or gate"
        )
    return split


def check_policy(domain: "Domain", name: str) -> None:
    """Refuse a plain word that is no script, no shipped model and no folder."""
    if set("/.:") & set(name) or (name and Path(name).is_dir()):
        return
    if name == "small":
        raise UserError(
            "only `run`, `evolve` and `compare` make a small policy by the way: make it with "
            f"coevolve small-policy -d '{domain.name}', and name the folder that this tells"
        )
    try:
        lookup("policy", name, dict.fromkeys((*domain.scripts, *MODELS)))
    except UserError as error:
        raise UserError(f"{error}; or give {OTHERS}") from None


def check_style(domain: "Domain", style: str) -> None:
    if style:
        lookup("prompt style", style, dict.fromkeys(domain.styles))


def as_options(knobs: list[str]) -> str:
    """The same knobs for a command that is suggested."""
    return "".join(f" -k {shlex.quote(word)}" for word in knobs)


def recipe_fields(words: list[str]) -> dict[str, str]:
    """Fields of a recipe from NAME=VALUE words."""
    from coevolve.harness.recipe import Recipe

    found = {}
    for word in words:
        name, equals, value = (part.strip() for part in word.partition("="))
        if not equals:
            raise UserError(f"--recipe {word!r} is not NAME=VALUE")
        lookup("recipe field", name, Recipe.model_fields)
        found[name] = value
    return found


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Those options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def lineage_in(folder: Path) -> "Lineage":
    """The lineage of the run in a folder."""
    from coevolve.store.ledger import Ledger
    from coevolve.store.lineage import lineage_of

    if not folder.is_dir():
        raise UserError(f"{folder} is not the folder of a run; `coevolve list` shows the runs")
    with Ledger.open(folder) as ledger:
        return lineage_of(ledger)


@contextmanager
def opened(name: str, domain: "Domain", how: Settings) -> "Iterator[tuple[Policy, str]]":
    """A policy and the style it is asked in; servers and connections end with the block."""
    from coevolve.policies.registry import get_policy

    policy, style = get_policy(name, domain, how.style, how.device)
    try:
        yield policy, style or domain.styles[0]
    finally:
        close = getattr(policy, "close", None)
        if close is not None:
            close()
