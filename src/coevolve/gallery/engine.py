"""GRPO for a mixture of scripts: real attempts, the harness's reward and filters, advantages within
groups. What a patch does to the policy is what these make of it; nothing is decided beforehand.

A step moves the logit of each script by the mean advantage of its attempts: the natural gradient of
a choice among scripts.
"""

import json
from collections.abc import Collection, Sequence

import numpy as np

from coevolve.backtests.signal import SMALLEST
from coevolve.core.files import replace_file
from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.engines.base import Observe, Progress, Result, Stage
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.shape import shaped, weighed
from coevolve.gallery.mixture import Mixture, MixturePolicy, Scripts, save
from coevolve.harness.expression import Numbers
from coevolve.harness.filters import Memory, grouped, weights
from coevolve.harness.reward import SHORT, columns_of, short_after
from coevolve.policies.base import Sampling, tokens
from coevolve.store.rollouts import write
from coevolve.store.shards import step_file


class MixtureEngine:
    """Implements the `Engine` protocol."""

    def __init__(self, domain: Domain, scripts: Scripts, start: Mixture) -> None:
        self.domain, self.scripts, self.start = domain, scripts, start

    def check(self, model: str, scripts: Collection[str]) -> None:
        """A mixture starts from shares of its own, whatever the name."""

    def train(self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        recipe, mixture, memory, short = stage.recipe, self.start, Memory(), SHORT
        lines: list[str] = []
        drawn = used = 0
        for step in range(recipe.steps):
            first = step * recipe.tasks
            batch = [tasks[(first + n) % len(tasks)] for n in range(recipe.tasks)]
            sampling = Sampling(
                temperature=recipe.temperature,
                max_tokens=recipe.max_tokens,
                seed=derive(stage.seed, "step", step),
            )
            policy = MixturePolicy("mixture", mixture, self.scripts)
            played = attempts(
                self.domain, policy, batch, sampling, samples=recipe.group,
                batch=recipe.group * len(batch),
            )  # fmt: skip
            rollouts = list(played)
            rewards = shaped(stage.reward, rollouts, self.domain.components, short).values
            numbers = np.arange(len(rollouts)) // recipe.group
            for place, (one, reward) in enumerate(zip(rollouts, rewards, strict=True)):
                facts = {"step": step, "group": f"{step}/{numbers[place]}"}
                rollouts[place] = one.model_copy(update={**facts, "shaped": float(reward)})
            write(rollouts, step_file(stage.folder / "rollouts", step))
            valid = np.array([float(one.outcome.valid) for one in rollouts])
            groups = grouped(numbers, rewards, valid)
            own = weighed(stage.filters, rollouts, self.domain.components, short, groups).values
            short = short_after(short, [one.completion_tokens for one in rollouts])
            columns = columns_of(rollouts, numbers, own)
            weight, memory = weights(stage.filters, columns, memory)
            gained = weight * advantages(rewards, recipe.group)
            picked = [policy.pick(one.task_id, one.sample, sampling) for one in rollouts]
            mixture = moved(mixture, picked, gained, recipe.learning_rate, rollouts)
            line = {
                "step": step,
                "reward": float(rewards.mean()),
                "left_out": float((weight == 0).mean()),
            }
            lines.append(json.dumps(line))
            drawn += len(rollouts)
            used += tokens(rollouts)
            if observe:
                observe(Progress(step + 1, recipe.steps, {"reward": float(rewards.mean())}, 0.0))
        replace_file(stage.folder / "steps.jsonl", "\n".join([*lines, ""]).encode("utf-8"))
        save(mixture, stage.folder / "policy")
        return Result(
            policy=str(stage.folder / "policy"), steps=recipe.steps, rollouts=drawn, tokens=used,
            metrics={f"share.{name}": share for name, share in mixture.shares.items()},
        )  # fmt: skip


def advantages(rewards: Numbers, group: int) -> Numbers:
    """As GRPO has them."""
    table = rewards.reshape(-1, group)
    apart = table - table.mean(axis=1, keepdims=True)
    spread = table.std(axis=1, ddof=1, keepdims=True)
    found: Numbers = (apart / (spread + SMALLEST)).ravel()
    return found


def moved(
    mixture: Mixture, picked: list[str], gained: Numbers, rate: float, rollouts: Sequence[Rollout]
) -> Mixture:
    """The mixture after a step."""
    names, by = list(mixture.shares), np.array(picked)
    logits = np.log(np.maximum([mixture.shares[name] for name in names], 1e-12))
    for place, name in enumerate(names):
        if (own := by == name).any():
            logits[place] += rate * float(gained[own].mean())
    weights = np.exp(logits - logits.max())
    shares = dict(zip(names, (weights / weights.sum()).tolist(), strict=True))
    found = {one.task_id: one.messages[-1].content for one in rollouts if one.outcome.valid}
    return Mixture(shares=shares, memory={**mixture.memory, **found})
