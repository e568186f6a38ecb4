"""A policy small enough to watch: a mixture of scripts, each drawn by its share.

It plays whole episodes in the real domain. Invariant: which script attempts a task follows from
the shares, the temperature, the seed, the task and the number of the attempt, and nothing else.
"""

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from coevolve.core.errors import PolicyError
from coevolve.core.files import replace_file
from coevolve.core.rollout import Value
from coevolve.core.seeds import derive
from coevolve.core.task import Task
from coevolve.domains.base import Domain, Script
from coevolve.domains.turns import Player, players
from coevolve.policies.base import Completion, Prompt, Sampling

FILE = "mixture.json"


class Mixture(Value):
    """The weights of the policy."""

    shares: dict[str, float]
    """Of each script, at temperature 1."""
    memory: dict[str, str] = {}
    """Answers that were found valid in training, by task."""


Scripts = Callable[[Mapping[str, str]], Mapping[str, Player]]
"""The scripts that a mixture may have shares of, given what it remembers."""


def scripts_of(domain: Domain) -> dict[str, Player]:
    """The scripts that a domain brings, as players."""
    found = {name: single(script) for name, script in domain.scripts.items()}
    return {**found, **players(domain)}


def single(script: Script) -> Player:
    return lambda task, rng, _messages: script(task, rng, "")


class MixturePolicy:
    """Answers with the scripts of a mixture; a word counts as a token."""

    def __init__(self, name: str, mixture: Mixture, scripts: Scripts) -> None:
        self.name, self.mixture = name, mixture
        self.scripts = scripts(mixture.memory)

    def chances(self, temperature: float) -> dict[str, float]:
        """How likely each script is drawn; at 0 the likeliest always is."""
        names = list(self.mixture.shares)
        logits = np.log(np.maximum([self.mixture.shares[name] for name in names], 1e-12))
        scaled = (logits - logits.max()) / max(temperature, 1e-6)
        weights = np.exp(scaled) / np.exp(scaled).sum()
        return dict(zip(names, weights.tolist(), strict=True))

    def pick(self, task: str, sample: int, sampling: Sampling) -> str:
        """The script that makes an attempt, the same for all its turns."""
        chances = self.chances(sampling.temperature)
        rng = random.Random(derive(sampling.seed, "mixture", task, sample))
        return rng.choices(list(chances), list(chances.values()))[0]

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        return [self.turn(prompt, sampling) for prompt in prompts]

    def turn(self, prompt: Prompt, sampling: Sampling) -> Completion:
        task: Task | None = prompt.task
        if task is None:
            raise PolicyError("a mixture of scripts answers tasks, not free prompts")
        rng = random.Random(derive(sampling.seed, "script", task.id, prompt.sample))
        script = self.scripts[self.pick(task.id, prompt.sample, sampling)]
        text = script(task, rng, prompt.messages)
        return Completion(text=text, completion_tokens=max(1, len(text.split())))


def save(mixture: Mixture, folder: Path) -> None:
    replace_file(folder / FILE, mixture.model_dump_json(indent=1).encode("utf-8"))


def load(folder: Path) -> Mixture:
    return Mixture.model_validate_json((folder / FILE).read_bytes())
