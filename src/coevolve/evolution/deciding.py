"""The middle of a round: the checkpoint is measured on dev, and the gate keeps it or goes back."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from coevolve.core.rollout import Rollout
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.engineers.base import Round
from coevolve.engineers.cases import choose_cases
from coevolve.engineers.signals import in_force
from coevolve.evidence.cells import Case, Cell, cells_of
from coevolve.evolution.gate import judge_twice
from coevolve.evolution.measuring import Measuring
from coevolve.evolution.run import Measured, Run, Standing
from coevolve.evolution.training import Trained
from coevolve.harness.budget import Spent
from coevolve.harness.experiment import Experiment
from coevolve.ledger.ledger import Ledger
from coevolve.policies.base import tokens

CASES = 4
"""Failures that an engineer may look at."""


def spent_on(rollouts: Sequence[Rollout], began: float) -> dict[str, Any]:
    """What was used up to make rollouts, since the clock said `began`."""
    return Spent(
        rollouts=len(rollouts),
        tokens=tokens(rollouts),
        seconds=time.monotonic() - began,
    ).model_dump()


def shown(measuring: Measuring, policy: str, folder: Path, number: int) -> dict[str, Any]:
    """A checkpoint on dev tasks, as engineers see it."""
    began = time.monotonic()
    rollouts = measuring.measure(policy, measuring.dev, folder)
    spent = spent_on(rollouts, began)
    cases = choose_cases([one for one in rollouts if one.outcome.failure], CASES, number)
    return {
        "cells": [cell.model_dump() for cell in cells_of(rollouts)],
        "cases": [case.model_dump(mode="json") for case in cases],
        "spent": spent,
    }


def first_knobs(experiment: Experiment, space: KnobSpace) -> Knobs:
    """What the first round trains on: the named knobs as they are, the others as `start` says."""
    base = space.random(experiment.seed) if experiment.start == "random" else None
    return space.project(space.whole(experiment.knobs), base=base)


def base_place(ledger: Ledger) -> Path:
    """Where the gate rollouts of the base policy are."""
    return ledger.folder / "base" / "gate"


def measure_base(ledger: Ledger, measuring: Measuring) -> dict[str, Any]:
    """The base policy on the gate, before anything is trained."""

    def work() -> dict[str, Any]:
        began = time.monotonic()
        rollouts = measuring.measure(measuring.plan.policy, measuring.gate, base_place(ledger))
        return gate_facts(rollouts, began)

    return ledger.phase(0, "base", work)


def gate_facts(rollouts: Sequence[Rollout], began: float) -> dict[str, Any]:
    """How many gate attempts are valid, and what they took since the clock said `began`."""
    valid = sum(one.outcome.valid for one in rollouts)
    return {"valid": valid, "n": len(rollouts), "spent": spent_on(rollouts, began)}


def begin(run: Run) -> Standing:
    """The first knobs, and the base policy on the gate."""
    valid = measure_base(run.ledger, run.measuring)["valid"]
    base = Measured(run.experiment.policy, base_place(run.ledger), valid)
    return Standing(*base[:2], base, first_knobs(run.experiment, run.domain.space))


def decide(run: Run, number: int, standing: Standing, trained: Trained) -> Standing:
    """Where the run stands after a round of training."""
    place, policy = run.folder(number, "gate"), trained.result.policy

    def dev() -> dict[str, Any]:
        return shown(run.measuring, policy, run.folder(number, "dev"), number)

    def gate() -> dict[str, Any]:
        began = time.monotonic()
        gate = run.measuring.gate
        before = run.measuring.measure(standing.policy, gate, standing.gate)
        after = run.measuring.measure(policy, gate, place)
        best = before
        if standing.best.gate != standing.gate:
            best = run.measuring.measure(standing.best.policy, gate, standing.best.gate)
        facts = gate_facts(after, began)
        rule = run.experiment.gate
        among = 1 + len(in_force(standing.history))
        verdict = judge_twice(before, best, among, after, rule, run.experiment.seed)
        if (why := trained.result.stopped) and rule.on:
            words = f"{verdict.words}; training was stopped, so its knobs are not kept: {why}"
            return {**verdict._replace(words=words).as_json(), "stopped": why, **facts}
        return {**verdict.as_json(), **facts}

    measured = run.ledger.phase(number, "dev", dev)
    verdict = run.ledger.phase(number, "gate", gate)
    run.say(f"round {number}: {verdict['words']}")
    finished = Round(
        number=number,
        knobs=dict(standing.knobs),
        dev=tuple(Cell.model_validate(cell) for cell in measured["cells"]),
        train=trained.cells,
        cases=tuple(Case.model_validate(case) for case in measured["cases"]),
        engineer=standing.author,
        explanation=standing.words,
        verdict=became(verdict),
    )
    standing = standing._replace(history=(*standing.history, finished))
    if verdict["keep"]:
        best = max(
            standing.best, Measured(policy, place, verdict["valid"]), key=lambda one: one.valid
        )
        standing = standing._replace(policy=policy, gate=place, best=best)
    if finished.verdict == "kept":
        return standing
    kept = [past for past in standing.history if past.verdict == "kept"]
    last = kept[-1] if kept else standing.history[0]
    knobs = run.domain.space.project(last.knobs)
    return standing._replace(knobs=knobs, author=last.engineer, words=last.explanation)


def became(gate: Mapping[str, Any]) -> Literal["kept", "reverted", "stopped"]:
    """What a recorded verdict means for a round."""
    if not gate["keep"]:
        return "reverted"
    return "stopped" if gate.get("stopped") else "kept"


def complete(run: Run, number: int, standing: Standing) -> Standing:
    """A person may look at what came of a round, which is kept also if they end the run."""
    trained, verdict = run.ledger.recorded(number, "train"), run.ledger.recorded(number, "gate")
    assert trained
    assert verdict
    question = {"verdict": verdict["words"], "policy": trained["result"]["policy"]}
    return standing._replace(note=run.supervision.approve(number, "completion", question))
