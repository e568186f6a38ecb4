"""Checkpoints of a run, measured: fixed dev and gate tasks, fresh probe tasks, kept on disk.

What was measured once is read back, never asked again: a resumed run sees the same rollouts.
Invariant: checkpoints are named as they are recorded, so that a run that was moved finds its own.
"""

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import Domain, Statistic, clean_of
from coevolve.domains.knobs import Knobs
from coevolve.domains.registry import get_domain
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.target import TargetTasks
from coevolve.harness.plan import Plan
from coevolve.harness.recipe import Recipe
from coevolve.harness.rules import BacktestRule
from coevolve.harness.wording import Wording
from coevolve.policies.base import Lazy, Policy, Sampling
from coevolve.policies.registry import get_policy
from coevolve.policies.vllm import drawn_by
from coevolve.sandbox.bubblewrap import choose
from coevolve.store.evaluations import Evaluation, EvaluationFolder, hash_of_tasks
from coevolve.store.paths import Paths

BATCH = 256


class Gauge:
    """The held-out tasks of a run, and how a checkpoint is measured on them."""

    def __init__(
        self,
        plan: Plan,
        domain: Domain,
        load: Callable[[str], tuple[Policy, str]],
        paths: Paths | None = None,
    ) -> None:
        self.plan, self.domain, self._load, self.paths = plan, domain, load, paths
        self.workers = os.cpu_count() or 1
        self.target = TargetTasks(domain, plan.target, plan.seed, self.find)

    def find(self, name: str) -> str:
        """Where a file of the run lies."""
        return self.paths.find(name) if self.paths else name

    def load(self, checkpoint: str) -> tuple[Policy, str]:
        """A checkpoint by its recorded name, and the style that it is asked in."""
        return self._load(self.paths.need(checkpoint) if self.paths else checkpoint)

    def lazy(self, checkpoint: str, wording: Wording | None = None) -> Lazy:
        """The same, loaded when it is first asked; to be asked in another wording, if one is
        given."""
        return Lazy(checkpoint, lambda: self.load(checkpoint)[0], wording)

    @cached_property
    def dev(self) -> list[Task]:
        return self.target.held_out(Split.DEV, self.plan.target.dev)

    @cached_property
    def mix(self) -> dict[str, Statistic]:
        """What dev tasks are like, knob by knob."""
        return self.domain.statistics(self.dev)

    @cached_property
    def gate(self) -> list[Task]:
        return self.target.held_out(Split.GATE, self.plan.target.gate)

    @cached_property
    def clean(self) -> list[Task]:
        """The tasks of the clean room: drawn anew from the target. None of those on the gate is
        among them, unless doors are shut that were open there."""
        room, chosen = clean_of(self.domain), self.plan.target
        if chosen.tasks:
            return [] if room is self.domain else self.gate[: chosen.clean]
        drawn = TargetTasks(room, chosen, self.plan.seed, self.find)
        found = drawn.held_out(Split.GATE, chosen.clean, "clean room")
        if room is not self.domain:
            return found
        known = set(map(self.domain.fingerprint, self.gate))
        return [task for task in found if self.domain.fingerprint(task) not in known]

    def measure_clean(self, checkpoint: str, folder: Path) -> list[Rollout]:
        """Attempts at every task of the clean room, in it."""
        return self.measure(checkpoint, self.clean, folder, domain=clean_of(self.domain))

    def measure(
        self,
        checkpoint: str,
        tasks: list[Task],
        folder: Path,
        draw: int = 0,
        domain: Domain | None = None,
    ) -> list[Rollout]:
        """Attempts at every task; another `draw` draws other answers."""
        chosen = self.plan.target
        sampling = Sampling(
            temperature=chosen.temperature,
            max_tokens=chosen.max_tokens,
            seed=derive(self.plan.seed, "measure", *([draw] if draw else [])),
        )
        return self.ask(checkpoint, tasks, sampling, chosen.samples, folder, domain)

    def probe(
        self, checkpoint: str, knobs: Knobs, rule: BacktestRule, recipe: Recipe, number: int,
        folder: Path, wording: Wording | None = None,
    ) -> list[Rollout]:  # fmt: skip
        """Several attempts at fresh train tasks, drawn as in training; by number, other ones."""
        seed, tasks = self.probe_seed(number), self.probe_tasks(knobs, rule, number)
        sampling = Sampling(temperature=recipe.temperature, max_tokens=recipe.max_tokens, seed=seed)
        return self.ask(checkpoint, tasks, sampling, rule.samples, folder, wording=wording)

    def probe_seed(self, number: int) -> int:
        return derive(self.plan.seed, "probe", number)

    def probe_tasks(self, knobs: Knobs, rule: BacktestRule, number: int) -> list[Task]:
        """Fresh train tasks; a `KnobError` if the knobs cannot make so many."""
        seed = self.probe_seed(number)
        return list(self.domain.generate(knobs, rule.tasks, seed, Split.TRAIN, self.workers))

    def ask(
        self,
        checkpoint: str,
        tasks: list[Task],
        sampling: Sampling,
        samples: int,
        folder: Path,
        domain: Domain | None = None,
        wording: Wording | None = None,
    ) -> list[Rollout]:
        evaluation = Evaluation(
            policy=checkpoint,
            domain=self.domain.name,
            source={"run": self.plan.name},
            tasks=len(tasks),
            tasks_hash=hash_of_tasks(tasks),
            samples=samples,
            batch=BATCH,
            sampling=sampling,
            style=self.style,
            weights_hash="",
        )
        parts = EvaluationFolder(folder, evaluation)
        found = attempts(
            domain or self.domain, self.lazy(checkpoint, wording), tasks, sampling,
            style=self.style, samples=samples, batch=BATCH, parts=parts,
        )  # fmt: skip
        return list(found)

    @cached_property
    def style(self) -> str:
        """The run's prompt style, or the one that its model was taught."""
        return self.plan.style or self.load(self.plan.policy)[1]


def gauge_of(plan: Plan, paths: Paths | None = None, own: Domain | None = None) -> Gauge:
    """How the checkpoints of a run are loaded and measured; every process of a run begins here."""
    if plan.sandbox:
        choose(plan.sandbox)
    domain = own or get_domain(plan.domain)
    loaded: dict[str, tuple[Policy, str]] = {}

    def load(name: str) -> tuple[Policy, str]:
        """One checkpoint is kept in memory, the newest."""
        if name not in loaded:
            loaded.clear()
            asked = drawn_by(plan.generator, name, plan.policy, domain)
            loaded[name] = get_policy(asked, domain, plan.style, prices=plan.prices)
        return loaded[name]

    return Gauge(plan, domain, load, paths)
