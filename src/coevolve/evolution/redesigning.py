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
from coevolve.evolution.backtest import INCUMBENT, Candidate, backtest
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
        incumbent, able, unable = makeable(run, number, standing, usable)
        choice = backtest(incumbent, able, answer, rule, seed)
        choice = choice._replace(words="; ".join([choice.words, *unable]))
        return {**choice.as_json(), "spent": spent_on(asked, began)}

    choice = run.ledger.phase(number, "backtest", work)
    run.say(f"round {number}: {choice['words']}")
    knobs = run.domain.space.project(choice["knobs"])
    author = choice["chosen"]
    if author == INCUMBENT:
        past = [one.engineer for one in standing.history if one.knobs == dict(knobs)]
        author = (past or [standing.author])[-1]
    return standing._replace(knobs=knobs, author=author, words=choice["explanation"], note="")


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
        notes = f"{note}\n{view.note}".strip()  # the newest first: a long text loses its end
        view = view._replace(note=notes, returned=returned or "nothing that can be used")
    run.say(f"round {number}: sent back {MOST_REVISIONS + 1} times: the incumbent stays")
    return []


def makeable(
    run: Run, number: int, standing: Standing, usable: list[Candidate]
) -> tuple[Candidate, list[Candidate], list[str]]:
    """The incumbent and the candidates whose tasks can be made in the next round, and why those of
    the others cannot. In place of such an incumbent earlier knobs stand, the latest first."""
    able, unable = [], []
    for one in usable:
        if problem := unmade(run, number, one.knobs):
            unable.append(f"the tasks of {one.name} cannot be made: {problem}")
        else:
            able.append(one)
    incumbent = Candidate(INCUMBENT, standing.knobs, standing.words)
    if not (problem := unmade(run, number, incumbent.knobs)):
        return incumbent, able, unable
    for past in reversed(standing.history):
        knobs = run.domain.space.project(past.knobs)
        if not unmade(run, number, knobs):
            told = f"the knobs of round {past.number} stand in for the incumbent's: {problem}"
            return Candidate(INCUMBENT, knobs, past.explanation), able, [*unable, told]
    raise KnobError(problem)


def unmade(run: Run, number: int, knobs: Knobs) -> str:
    """Why tasks to probe, and those of the next round, cannot be made; empty if they can."""
    plan = run.experiment
    try:
        if plan.backtest.on:
            run.measuring.probe_tasks(knobs, plan.backtest, number)
        own_tasks(run.domain, knobs, plan.recipe, seed_of(run, number + 1), plan.lessons)
    except KnobError as error:
        return str(error)
    return ""


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
