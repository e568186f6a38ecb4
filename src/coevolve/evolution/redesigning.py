"""The end of a round: engineers propose, people may object, the backtest chooses."""

import time
from functools import partial
from typing import Any

from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.domains.knobs import Knobs
from coevolve.engineers.base import View
from coevolve.evolution.backtest import Candidate, backtest
from coevolve.evolution.deciding import spent_on
from coevolve.evolution.proposing import candidates, propose
from coevolve.evolution.run import Run, Standing

MOST_REVISIONS = 8
"""How often a person may send proposals back in one round."""


def redesign(run: Run, number: int, standing: Standing) -> Standing:
    """Where the run stands with the knobs of the next round."""
    seed = derive(run.experiment.seed, "engineer", number)
    usable = proposals(run, number, standing, seed)
    rule = run.experiment.backtest
    asked: list[Rollout] = []

    def answer(knobs: Knobs) -> list[Rollout]:
        place = run.folder(number, "probes") / folder_name(knobs)
        recipe = run.experiment.recipe
        found = run.measuring.probe(standing.policy, knobs, rule, recipe, number, place)
        asked.extend(found)
        return found

    def work() -> dict[str, Any]:
        began = time.monotonic()
        incumbent = Candidate("incumbent", standing.knobs, "as it was")
        choice = backtest(incumbent, usable, answer, rule, seed)
        return {**choice.as_json(), "spent": spent_on(asked, began)}

    choice = run.ledger.phase(number, "backtest", work)
    run.say(f"round {number}: {choice['words']}")
    knobs = run.domain.space.project(choice["knobs"])
    return standing._replace(knobs=knobs, author=choice["chosen"], words=choice["words"])


def proposals(run: Run, number: int, standing: Standing, seed: int) -> list[Candidate]:
    """What engineers propose that can be used, revised as often as a person asks for it."""
    experiment = run.experiment
    training = {
        "round": number, "rounds": experiment.rounds, "steps": experiment.recipe.steps,
        "recipe": experiment.recipe.model_dump(),
    }  # fmt: skip
    view = View(run.domain.space, standing.knobs, standing.history, training)
    usable: list[Candidate] = []
    for attempt in range(MOST_REVISIONS + 1):
        proposed = run.ledger.phase(
            number,
            f"propose-{attempt}" if attempt else "propose",
            partial(propose, run.engineers, standing.policy, view, seed, experiment.patience_s),
        )
        usable = candidates(proposed, standing.knobs, experiment.reach)
        question = {"proposals": {one.name: one.words for one in usable}, "attempt": attempt}
        note = run.supervision.approve(number, "proposal", question)
        if not note:
            break
        view = view._replace(note=note)
    return usable


def folder_name(knobs: Knobs) -> str:
    """The same for the same values."""
    return f"{derive(0, *(f'{name}={value!r}' for name, value in knobs.items())):016x}"
