"""The rounds: train, measure, judge, and let an engineer redesign the environment.

    generate tasks from the knobs → train → dev → gate → propose → project → backtest → next round

Every phase is recorded in the ledger before the next begins, and reads only what is recorded: a run
that is killed anywhere and resumed takes the same decisions.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knobs
from coevolve.engineers.base import Engineer, Proposal, Round, View
from coevolve.engineers.cases import choose_cases
from coevolve.engineers.reach import apply
from coevolve.engines.base import Engine, Observe, Result, Stage
from coevolve.evidence.cells import Case, Cell, cells_of
from coevolve.evolution.backtest import BacktestRule, Candidate, backtest
from coevolve.evolution.gate import GateRule, judge
from coevolve.evolution.measuring import Measuring
from coevolve.harness.experiment import Experiment
from coevolve.ledger import approval
from coevolve.ledger.budget import Budget, Spent, spent_so_far
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


class Stopped(Exception):
    """The run ends before its last round, on purpose: its budget, or a person."""


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
        self.budget = Budget.model_validate(experiment.budget)
        self.gate_rule = GateRule.model_validate(experiment.gate)
        self.backtest_rule = BacktestRule.model_validate(experiment.backtest)

    def run(self) -> Standing:
        """All rounds, from wherever the ledger says that the run is."""
        with self.ledger.writing():
            standing = self.begin()
            try:
                for number in range(self.experiment.rounds):
                    self.check_budget()
                    trained = self.train(number, standing)
                    standing = self.decide(number, standing, trained)
                    if number + 1 < self.experiment.rounds:
                        standing = self.redesign(number, standing)
                self.end("done", policy=standing.policy)
            except Stopped as stop:
                self.say(f"stopped: {stop}")
                self.end("stopped", policy=standing.policy, reason=str(stop))
        return standing

    def end(self, how: str, **facts: Any) -> None:
        """Record the end of the run, once."""
        if self.ledger.state() != how:
            self.ledger.note(how, **facts)

    def check_budget(self) -> None:
        """A run that has spent its budget ends with what it has."""
        if used_up := self.budget.exhausted(spent_so_far(self.ledger)):
            raise Stopped(used_up)

    def approve(self, number: int, gate: str, question: dict[str, Any]) -> str:
        """Wait for a person where the experiment says so; returns a note if something is to be
        revised."""
        if gate not in self.experiment.approval:
            return ""
        asked = approval.ask(self.ledger, number, gate, question)
        self.say(
            f"round {number}: waiting for `coevolve approve|revise|abort {self.ledger.folder}`"
        )
        answer = approval.wait(self.ledger, asked)
        if answer.decision == "abort":
            raise Stopped(f"aborted at the {gate} of round {number}: {answer.note}")
        return (answer.note or "revise") if answer.decision == "revise" else ""

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
        stage = Stage(
            kind="grpo",
            model=standing.policy,
            recipe=recipe,
            style=self.experiment.style,
            seed=seed,
            folder=self.folder(number, "stage"),
        )

        def work() -> dict[str, Any]:
            count = recipe.steps * recipe.tasks
            made = self.domain.generate(
                standing.knobs, count, derive(seed, "tasks"), Split.TRAIN, os.cpu_count() or 1
            )
            self.say(f"round {number}: training on tasks by {standing.author}")
            found = self.engine.train(stage, list(made), self.observe)
            spent = Spent(rollouts=found.rollouts, tokens=found.tokens, seconds=found.seconds)
            return {"result": found.model_dump(mode="json"), "spent": spent.model_dump()}

        return Result.model_validate(self.ledger.phase(number, "train", work)["result"])

    def decide(self, number: int, standing: Standing, trained: Result) -> Standing:
        """Measure the checkpoint, and keep it or go back."""
        place = self.folder(number, "gate")

        def dev() -> dict[str, Any]:
            rollouts = self.measuring.measure(
                trained.policy, self.measuring.dev, self.folder(number, "dev")
            )
            cases = choose_cases([one for one in rollouts if one.outcome.failure], CASES, number)
            return {
                "cells": [cell.model_dump() for cell in cells_of(rollouts)],
                "cases": [case.model_dump(mode="json") for case in cases],
            }

        def gate() -> dict[str, Any]:
            tasks = self.measuring.gate
            before = self.measuring.measure(standing.policy, tasks, standing.gate)
            after = self.measuring.measure(trained.policy, tasks, place)
            return judge(before, after, self.gate_rule, self.experiment.seed).as_json()

        measured = self.ledger.phase(number, "dev", dev)
        verdict = self.ledger.phase(number, "gate", gate)
        finished = Round(
            number=number,
            knobs=dict(standing.knobs),
            dev=tuple(Cell.model_validate(cell) for cell in measured["cells"]),
            cases=tuple(Case.model_validate(case) for case in measured["cases"]),
            engineer=standing.author,
            explanation=standing.words,
            verdict=verdict["words"],
        )
        self.say(f"round {number}: {verdict['words']}")
        self.approve(number, "completion", {"verdict": verdict["words"], "policy": trained.policy})
        standing = standing._replace(history=(*standing.history, finished))
        if verdict["keep"]:
            return standing._replace(policy=trained.policy, gate=place)
        return standing._replace(knobs=self.last_kept(standing, finished))

    def last_kept(self, standing: Standing, reverted: Round) -> Knobs:
        """The knobs of the newest round that was kept, or those of the reverted one if none was."""
        kept = [past for past in standing.history if past.verdict.startswith("kept")]
        source = kept[-1] if kept else reverted
        return self.domain.space.project(dict(source.knobs))

    def redesign(self, number: int, standing: Standing) -> Standing:
        """Engineers propose, the backtest chooses."""
        experiment = self.experiment
        training = {
            "round": number, "rounds": experiment.rounds, "steps": experiment.recipe.steps,
            "recipe": experiment.recipe.model_dump(),
        }  # fmt: skip
        view = View(self.domain.space, standing.knobs, standing.history, training)
        seed = derive(experiment.seed, "engineer", number)

        def propose() -> dict[str, Any]:
            return {
                name: [
                    proposal.model_dump(mode="json") for proposal in engineer.propose(view, seed)
                ]
                for name, engineer in self.engineers(standing.policy).items()
            }

        def probe() -> dict[str, Any]:
            rule = self.backtest_rule

            def answer(knobs: Knobs) -> Any:
                place = self.folder(number, "probes") / derive_name(knobs)
                return self.measuring.probe(
                    standing.policy, knobs, rule.tasks, rule.samples, number, place
                )

            incumbent = Candidate("incumbent", standing.knobs, "as it was")
            return backtest(incumbent, candidates, answer, rule, seed).as_json()

        for attempt in range(MOST_REVISIONS + 1):
            phase = f"propose-{attempt}" if attempt else "propose"
            proposed = self.ledger.phase(number, phase, propose)
            candidates = self.candidates(proposed, standing)
            words = {candidate.name: candidate.words for candidate in candidates}
            note = self.approve(number, "proposal", {"proposals": words, "attempt": attempt})
            if not note:
                break
            view = view._replace(note=note)
        choice = self.ledger.phase(number, "backtest", probe)
        knobs = self.domain.space.project(choice["knobs"])
        self.say(f"round {number}: {choice['words']}")
        return standing._replace(knobs=knobs, author=choice["chosen"], words=choice["words"])

    def candidates(self, proposed: Mapping[str, Any], standing: Standing) -> list[Candidate]:
        """Every usable proposal, projected and within reach."""
        found = []
        for name, proposals in proposed.items():
            for values in proposals:
                proposal = Proposal.model_validate(values)
                knobs = apply(proposal, standing.knobs, self.experiment.reach)
                if not proposal.failure and knobs.difference(standing.knobs):
                    found.append(Candidate(name, knobs, proposal.explanation))
        return found


def derive_name(knobs: Knobs) -> str:
    """A folder name for knobs: the same for the same values."""
    return f"{derive(0, *(f'{name}={value!r}' for name, value in knobs.items())):016x}"
