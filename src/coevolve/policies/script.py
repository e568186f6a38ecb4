"""Policies that are programs: a domain's own baselines, from its oracle to random answers."""

import random
import time

from coevolve.core.errors import PolicyError
from coevolve.core.names import lookup
from coevolve.core.seeds import derive
from coevolve.domains.base import Domain
from coevolve.domains.turns import players
from coevolve.policies.base import Completion, Prompt, Sampling


class ScriptedPolicy:
    """Answers with one of the domain's scripts."""

    def __init__(self, domain: Domain, name: str, style: str = "") -> None:
        self.name = name
        self.script = lookup("scripted policy", name, domain.scripts)
        self.player = players(domain).get(name)
        self.style = style

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        completions = []
        for prompt in prompts:
            began = time.perf_counter()
            if prompt.task is None:
                raise PolicyError(f"script '{self.name}' answers tasks, not free prompts")
            rng = random.Random(derive(sampling.seed, "script", prompt.task.id, prompt.sample))
            if self.player is None:
                text = self.script(prompt.task, rng, self.style)
            else:
                text = self.player(prompt.task, rng, prompt.messages)
            completions.append(Completion(text=text, seconds=time.perf_counter() - began))
        return completions
