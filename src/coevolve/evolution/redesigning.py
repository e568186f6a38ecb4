"""The end of a round: engineers propose, people may object, the backtest chooses."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from coevolve.core.errors import KnobError
from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.domains.knobs import Knobs
from coevolve.engineers.base import View
from coevolve.evolution.backtest import Candidate, backtest
from coevolve.evolution.deciding import spent_on
from coevolve.evolution.proposing import candidates, propose
from coevolve.evolution.run import Run, Standing
from coevolve.evolution.training import own_tasks, seed_of
from coevolve.harness.rules import MOST_REVISIONS

MOST_WORDS = 300
"""Characters that are said of an engineer's failures."""


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
        incumbent = Candidate("incumbent", standing.knobs, standing.words)
        able, unable = makeable(run, number, usable)
        choice = backtest(incumbent, able, answer, rule, seed)
        choice = choice._replace(words="; ".join([choice.words, *unable]))
        return {**choice.as_json(), "spent": spent_on(asked, began)}

    choice = run.ledger.phase(number, "backtest", work)
    run.say(f"round {number}: {choice['words']}")
    knobs = run.domain.space.project(choice["knobs"])
    return standing._replace(
        knobs=knobs, author=choice["chosen"], words=choice["explanation"], note=""
    )


def proposals(run: Run, number: int, standing: Standing, seed: int) -> list[Candidate]:
    """What engineers propose that can be used, revised as often as a person asks for it."""
    experiment = run.experiment
    training = {
        "round": number, "rounds": experiment.rounds, "steps": experiment.recipe.steps,
        "recipe": experiment.recipe.model_dump(), "reward": dict(run.domain.components),
    }  # fmt: skip
    view = View(run.domain.space, standing.knobs, standing.history, training, standing.note)
    for attempt in range(MOST_REVISIONS + 1):
        drawn = derive(seed, attempt) if attempt else seed
        proposed = run.ledger.phase(
            number,
            f"propose-{attempt}" if attempt else "propose",
            partial(propose, run.engineers, standing.policy, view, drawn, experiment.patience_s),
        )
        for words in unusable(proposed["proposals"]):
            run.say(f"round {number}: {words}")
        usable = candidates(proposed, standing.knobs, experiment.reach)
        said = described(usable, standing.knobs)
        question = {"proposals": said, "attempt": attempt}
        note = run.supervision.approve(number, "proposal", question)
        if not note:
            return usable
        returned = "\n".join(f"{name}: {words}" for name, words in said.items())
        view = view._replace(note=note, returned=returned or "nothing that can be used")
    run.say(f"round {number}: sent back {MOST_REVISIONS + 1} times: the incumbent stays")
    return []


def makeable(run: Run, number: int, usable: list[Candidate]) -> tuple[list[Candidate], list[str]]:
    """The candidates whose tasks can be made in all rounds to come, and why those of the others
    cannot."""
    plan, able, unable = run.experiment, [], []
    for one in usable:
        try:
            for later in range(number + 1, plan.rounds):
                if plan.backtest.on:
                    run.measuring.probe_tasks(one.knobs, plan.backtest, later - 1)
                own_tasks(run.domain, one.knobs, plan.recipe, seed_of(run, later), plan.lessons)
            able.append(one)
        except KnobError as error:
            unable.append(f"the tasks of {one.name} cannot be made: {error}")
    return able, unable


def unusable(proposals: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """Which engineers said what cannot be used, and why."""
    found = []
    for name, said in proposals.items():
        if failures := [one["failure"] for one in said if one["failure"]]:
            count = f"{len(failures)} of {len(said)} proposals cannot be used"
            found.append(f"{name}: {count}: {'; '.join(dict.fromkeys(failures))}"[:MOST_WORDS])
    return found


def described(usable: list[Candidate], incumbent: Knobs) -> dict[str, str]:
    """Each proposal for a person: what was said, and every knob that would change."""
    found: dict[str, str] = {}
    for one in usable:
        same = sum(other.name == one.name for other in usable[: len(found)])
        changes = "\n".join(
            f"{name}: {old:.4g} → {new:.4g}"
            for name, (old, new) in one.knobs.difference(incumbent).items()
        )
        found[f"{one.name} {same + 1}" if same else one.name] = f"{one.words}\n{changes}".strip()
    return found


def folder_name(knobs: Knobs) -> str:
    """The same for the same values."""
    return f"{derive(0, *(f'{name}={value!r}' for name, value in knobs.items())):016x}"
