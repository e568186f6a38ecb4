"""The rounds: train, measure, judge, and let an engineer redesign the environment.

    generate tasks from the knobs → train → dev → gate → propose → project → backtest → next round

Every phase is recorded in the ledger before the next begins, and reads only what is recorded: a run
that is killed anywhere and resumed takes the same decisions.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knobs
from coevolve.engineers.base import Engineer, Round, View
from coevolve.engineers.cases import choose_cases
from coevolve.engines.base import Engine, Observe, Result, Stage
from coevolve.evidence.cells import Case, Cell, cells_of
from coevolve.evolution.backtest import Candidate, backtest
from coevolve.evolution.gate import judge
from coevolve.evolution.measuring import Measuring
from coevolve.evolution.proposing import candidates, propose
from coevolve.evolution.supervision import Stopped, Supervision
from coevolve.harness.budget import Spent
from coevolve.harness.experiment import Experiment
from coevolve.ledger.ledger import Ledger

MOST_REVISIONS = 8
"""How often a person may send proposals back in one round."""
CASES = 4
"""Failures that an engineer may look at."""


class Standing(NamedTuple):
    """Where a run stands between rounds."""

    policy: str
    """The checkpoint in force."""
    gate: Path
    """Its gate rollouts."""
    knobs: Knobs
    """What the next round trains on."""
    author: str = "start"
    words: str = ""
    history: tuple[Round, ...] = ()


class Rounds:
    """One run."""

    def __init__(
        self,
        experiment: Experiment,
        ledger: Ledger,
        domain: Domain,
        engine: Engine,
        engineers: Callable[[str], Mapping[str, Engineer]],
        measuring: Measuring,
        observe: Observe | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.experiment, self.ledger, self.domain = experiment, ledger, domain
        self.engine, self.engineers, self.measuring = engine, engineers, measuring
        self.observe, self.say = observe, say
        self.supervision = Supervision(experiment, ledger, lambda line: self.say(line))

    def run(self) -> Standing:
        """All rounds, from wherever the ledger says that the run is."""
        with self.ledger.writing():
            standing = self.begin()
            try:
                for number in range(self.experiment.rounds):
                    self.supervision.check_budget()
                    trained = self.train(number, standing)
                    standing = self.decide(number, standing, trained)
                    if number + 1 < self.experiment.rounds:
                        standing = self.redesign(number, standing)
                self.supervision.end("done", policy=standing.policy)
            except Stopped as stop:
                self.say(f"stopped: {stop}")
                self.supervision.end("stopped", policy=standing.policy, reason=str(stop))
        return standing

    def folder(self, number: int, name: str) -> Path:
        return self.ledger.folder / "rounds" / f"{number:02d}" / name

    def begin(self) -> Standing:
        """The first knobs, and the base policy on the gate."""
        space = self.domain.space
        base = space.random(self.experiment.seed) if self.experiment.start == "random" else None
        knobs = space.project(self.experiment.knobs, base=base)
        place = self.ledger.folder / "base" / "gate"

        def work() -> dict[str, Any]:
            rollouts = self.measuring.measure(self.experiment.policy, self.measuring.gate, place)
            return {"valid": sum(one.outcome.valid for one in rollouts), "n": len(rollouts)}

        self.ledger.phase(0, "base", work)
        return Standing(self.experiment.policy, place, knobs)

    def train(self, number: int, standing: Standing) -> Result:
        """Generate the round's tasks from its knobs and train on them."""
        seed = derive(self.experiment.seed, "round", number)
        recipe = self.experiment.recipe

        def work() -> dict[str, Any]:
            self.say(f"round {number}: training on tasks by {standing.author}")
            stage = Stage(
                kind="grpo", model=standing.policy, recipe=recipe, style=self.experiment.style,
                seed=seed, folder=self.folder(number, "stage"),
            )  # fmt: skip
            count = recipe.steps * recipe.tasks
            workers = os.cpu_count() or 1
            tasks = self.domain.generate(
                standing.knobs, count, derive(seed, "tasks"), Split.TRAIN, workers
            )
            found = self.engine.train(stage, list(tasks), self.observe)
            spent = Spent(rollouts=found.rollouts, tokens=found.tokens, seconds=found.seconds)
            return {"result": found.model_dump(mode="json"), "spent": spent.model_dump()}

        return Result.model_validate(self.ledger.phase(number, "train", work)["result"])

    def decide(self, number: int, standing: Standing, trained: Result) -> Standing:
        """Measure the checkpoint on dev, and let the gate keep it or go back."""
        place, measure = self.folder(number, "gate"), self.measuring.measure

        def dev() -> dict[str, Any]:
            rollouts = measure(trained.policy, self.measuring.dev, self.folder(number, "dev"))
            cases = choose_cases([one for one in rollouts if one.outcome.failure], CASES, number)
            return {
                "cells": [cell.model_dump() for cell in cells_of(rollouts)],
                "cases": [case.model_dump(mode="json") for case in cases],
            }

        def gate() -> dict[str, Any]:
            before = measure(standing.policy, self.measuring.gate, standing.gate)
            after = measure(trained.policy, self.measuring.gate, place)
            return judge(before, after, self.experiment.gate, self.experiment.seed).as_json()

        measured = self.ledger.phase(number, "dev", dev)
        verdict = self.ledger.phase(number, "gate", gate)
        self.say(f"round {number}: {verdict['words']}")
        question = {"verdict": verdict["words"], "policy": trained.policy}
        self.supervision.approve(number, "completion", question)
        finished = Round(
            number=number,
            knobs=dict(standing.knobs),
            dev=tuple(Cell.model_validate(cell) for cell in measured["cells"]),
            cases=tuple(Case.model_validate(case) for case in measured["cases"]),
            engineer=standing.author,
            explanation=standing.words,
            verdict=verdict["words"],
        )
        standing = standing._replace(history=(*standing.history, finished))
        if verdict["keep"]:
            return standing._replace(policy=trained.policy, gate=place)
        kept = [past for past in standing.history if past.verdict.startswith("kept")]
        return standing._replace(knobs=self.domain.space.project((kept or [finished])[-1].knobs))

    def redesign(self, number: int, standing: Standing) -> Standing:
        """Engineers propose, the backtest chooses."""
        experiment, rule = self.experiment, self.experiment.backtest
        seed = derive(experiment.seed, "engineer", number)
        training = {
            "round": number, "rounds": experiment.rounds, "steps": experiment.recipe.steps,
            "recipe": experiment.recipe.model_dump(),
        }  # fmt: skip
        view = View(self.domain.space, standing.knobs, standing.history, training)

        def answer(knobs: Knobs) -> list[Rollout]:
            place = self.folder(number, "probes") / folder_name(knobs)
            return self.measuring.probe(
                standing.policy, knobs, rule.tasks, rule.samples, number, place
            )

        for attempt in range(MOST_REVISIONS + 1):
            proposed = self.ledger.phase(
                number,
                f"propose-{attempt}" if attempt else "propose",
                partial(propose, self.engineers, standing.policy, view, seed),
            )
            usable = candidates(proposed, standing.knobs, experiment.reach)
            question = {"proposals": {one.name: one.words for one in usable}, "attempt": attempt}
            note = self.supervision.approve(number, "proposal", question)
            if not note:
                break
            view = view._replace(note=note)
        incumbent = Candidate("incumbent", standing.knobs, "as it was")
        choice = self.ledger.phase(
            number, "backtest", lambda: backtest(incumbent, usable, answer, rule, seed).as_json()
        )
        self.say(f"round {number}: {choice['words']}")
        knobs = self.domain.space.project(choice["knobs"])
        return standing._replace(knobs=knobs, author=choice["chosen"], words=choice["words"])


def folder_name(knobs: Knobs) -> str:
    """The same for the same values."""
    return f"{derive(0, *(f'{name}={value!r}' for name, value in knobs.items())):016x}"
