"""Every data set of reasoning-gym as a domain: `reasoning.NAME`, with its curriculum as knobs.

Invariant: a task is its data set, its levels and its seed; everything else is made from these, so
that what a task says of itself need not be believed.
"""

import random
from typing import Any

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.task import Label
from coevolve.domains.check import Counts
from coevolve.domains.knobs import Knobs, around
from coevolve.domains.simple import Data, SimpleDomain

try:
    from coevolve.domains.reasoning import levels as curriculum
    from coevolve.domains.reasoning import score
except ImportError as error:
    raise UserError(
        f"domains of reasoning-gym need it ({error.name}): pip install 'coevolve[reasoning]'"
    ) from None

OTHERS = "the same seed gives other tasks in another process"
SLOW = "a task takes seconds or minutes to make"
EXCLUDED = {
    "boxnet": "it has no reference answer",
    "codeio": "its programs read files and do not always give the same answer",
    "composite": "it is a mixture of the others",
    "game_of_life_halting": "at some levels all tasks are the same",
    "isomorphic_strings": OTHERS,
    "knight_swap": SLOW,
    "list_functions": OTHERS,
    "polynomial_multiplication": OTHERS,
    "propositional_logic": "most conclusions that it takes follow from other premises too",
    "ransom_note": OTHERS,
    "rubiks_cube": "some cubes are solved already, and moves that do not exist are taken",
    "rush_hour": "it has no reference answer",
    "sokoban": SLOW,
}
"""Data sets that are no domains, and why."""
LEISURELY = (
    "arc_agi", "bf", "countdown", "futoshiki", "group_anagrams", "intermediate_integration",
    "puzzle24", "rearc", "word_ladder",
)  # fmt: skip
"""A task takes a twentieth of a second or more to make; the conformance suite looks at fewer."""
FEWER = Counts(sample=20, many=60, split=20, pushed=24)
SEED_BITS = 31


def names() -> list[str]:
    """The data sets that can be used."""
    return [name for name in curriculum.datasets() if name not in EXCLUDED]


class ReasoningDomain(SimpleDomain):
    """Implements the `Domain` protocol for one data set."""

    chunk = 1_024
    judge_cpu_s = 20.0
    """Scorers of the library may simplify what a model wrote."""

    def __init__(self, dataset: str) -> None:
        if dataset in EXCLUDED:
            raise UserError(f"'{dataset}' of reasoning-gym cannot be used: {EXCLUDED[dataset]}")
        lookup("data set of reasoning-gym", dataset, dict.fromkeys(names()))
        self.dataset = dataset
        self.name = f"reasoning.{dataset}"
        self.summary = f"reasoning-gym: {dataset.replace('_', ' ')}"
        self.attributes = curriculum.attributes_of(dataset)
        self.space = curriculum.space_of(self.attributes)
        self.buckets = tuple(attribute.name for attribute in self.attributes)
        self.counts = FEWER if dataset in LEISURELY else Counts()

    def __reduce__(self) -> tuple[type["ReasoningDomain"], tuple[str]]:
        return ReasoningDomain, (self.dataset,)

    def make(self, knobs: Knobs, rng: random.Random) -> Data:
        wanted = {attribute.name: drawn(attribute, knobs, rng) for attribute in self.attributes}
        seed = rng.getrandbits(SEED_BITS)
        levels, entry = curriculum.nearest_entry(self.dataset, wanted, self.attributes, seed)
        return self.data_of(entry, levels, seed)

    def data_of(self, entry: dict[str, Any], levels: dict[str, int], seed: int) -> Data:
        return {"question": entry["question"], "answer": entry["answer"], "seed": seed, **levels}

    def question(self, data: Data) -> str:
        return str(data["question"])

    def answer(self, data: Data) -> str:
        return str(data["answer"])

    def right(self, data: Data, answer: str) -> bool:
        levels = tuple(self.levels(data).items())
        entry = curriculum.entry_of(self.dataset, levels, int(data["seed"]))
        return score.right(self.dataset, curriculum.opened(self.dataset, levels), entry, answer)

    def levels(self, data: Data) -> dict[str, int]:
        return {name: int(data[name]) for name in self.buckets}

    def labels(self, data: Data) -> dict[str, Label]:
        return {**self.levels(data)}

    def complete(self, data: Data) -> Data:
        """Made anew from its levels and its seed."""
        for attribute in self.attributes:
            if data.get(attribute.name) not in range(attribute.levels):
                raise UserError(
                    f"a task of {self.name} needs {attribute.name} from 0 to "
                    f"{attribute.levels - 1}, not {data.get(attribute.name)!r:.40}"
                )
        if not isinstance(data.get("seed"), int):
            raise UserError(f"a task of {self.name} needs a whole number as `seed`")
        levels = self.levels(data)
        try:
            entry = curriculum.entry_of(self.dataset, tuple(levels.items()), data["seed"])
        except curriculum.REFUSALS as error:
            raise UserError(f"reasoning-gym has no task at {levels}: {error!s:.80}") from None
        found = self.data_of(entry, levels, data["seed"])
        for key in ("question", "answer"):
            if data.get(key, found[key]) != found[key]:
                raise UserError(f"the task claims another {key} than its seed gives")
        return found


def drawn(attribute: curriculum.Attribute, knobs: Knobs, rng: random.Random) -> int:
    """A level: by its share, or beside the mean that is asked for."""
    if attribute.categorical:
        shares = [knobs[f"{attribute.name}{level}.share"] for level in range(attribute.levels)]
        return rng.choices(range(attribute.levels), shares)[0]
    return around(rng, knobs[attribute.name])
