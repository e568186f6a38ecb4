"""The backtest of designs: the harness stays unless a design is better beyond doubt."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from populations import patch
from pretended import SMALL, make_run
from test_gate import attempt

from coevolve.backtests.bets import Bet, alive
from coevolve.backtests.knobs import odds
from coevolve.core.rollout import Rollout
from coevolve.domains.knobs import Knobs
from coevolve.domains.registry import get_domain
from coevolve.harness.patch import patched
from coevolve.harness.version import Version
from coevolve.loop import backtest
from coevolve.loop.propose import Design
from coevolve.loop.run import Run, first_harness
from coevolve.store.cells import cells_of, merged
from coevolve.store.lineage import Node
from coevolve.store.phases import Tests as Backtests

SPACE = get_domain("lake").space
Rates = dict[int, float]
INCUMBENT = "incumbent"


def answers(rates: dict[int, float], tasks: int, seed: int, samples: int = 4) -> list[Rollout]:
    """Tasks of each size, each answered several times, right with the size's rate."""
    rng = random.Random(seed)
    return [
        attempt(size * 1_000 + task, rng.random() < rate, size).model_copy(
            update={"sample": sample}
        )
        for size, rate in rates.items()
        for task in range(tasks)
        for sample in range(samples)
    ]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run whose first version was not kept: its first policy is the parent."""
    found = make_run(tmp_path / "run", factors=["all"])
    harness = first_harness(found.plan, found.gauge)
    found.lineage.nodes.append(Node(Version(number=0, parent=None, harness=harness)))
    return found


def design(run: Run, author: str, holes: float) -> Design:
    """One for the knobs; how they are answered is told by their holes."""
    knobs = SPACE.parse({**SMALL, "size3.hole_ratio": holes})
    return of(run, author, "knobs", dict(knobs))


def of(run: Run, author: str, factor: str, value: Any) -> Design:
    change = patch(factor, value)
    return Design(change, patched(run.lineage.harness(None), change), author)


def chosen(
    run: Run, designs: Sequence[Design], rates: Mapping[float, Rates], **rule: Any
) -> tuple[Backtests, list[Knobs]]:
    """What becomes of designs where knobs with so many holes are answered so, and what is probed;
    those in force have a share of 0.2."""
    asked: list[Knobs] = []

    def probe(checkpoint: str, knobs: Knobs, *_: object) -> list[Rollout]:
        assert checkpoint == run.plan.policy
        asked.append(knobs)
        return answers(rates[knobs["size3.hole_ratio"]], 40, 5)

    run.gauge.probe = probe  # type: ignore[method-assign,assignment]
    changed = run.plan.backtest.model_copy(update={"on": True, "tasks": 8, "by": "signal", **rule})
    run.plan = run.plan.model_copy(update={"backtest": changed})
    return backtest.tested(run, 1, None, designs, []), asked


def taken(found: Backtests) -> list[int]:
    """The places of the designs that are trained."""
    return [place for place, one in enumerate(found.tried) if not one.refused]


def choose(run: Run, incumbent: Rates, challenger: Rates, **rule: float) -> str:
    other = design(run, "frontier", 0.25)
    found, asked = chosen(run, [other], {0.2: incumbent, 0.25: challenger}, **rule)
    assert [knobs["size3.hole_ratio"] for knobs in asked] == [0.2, 0.25]
    (one,) = found.tried
    assert one.backtest
    assert one.backtest.passed != bool(one.refused)
    assert one.backtest.words in found.words
    assert found.spent.rollouts == sum(160 * len(rates) for rates in (incumbent, challenger))
    return INCUMBENT if one.refused else one.author


def test_without_a_proposal_that_is_what_is_said(run: Run) -> None:
    found, asked = chosen(run, [], {})
    assert (found.words, found.tried, asked) == ("no engineer has anything to try", (), [])


def test_more_signal_wins(run: Run) -> None:
    assert choose(run, {3: 1.0, 4: 0.97}, {3: 0.5, 4: 0.5}) == "frontier"


def test_several_proposals_of_one_engineer_are_told_apart(run: Run) -> None:
    designs = [design(run, "policy", holes) for holes in (0.25, 0.3)]
    rates = {0.2: {3: 0.95}, 0.25: {3: 1.0}, 0.3: {3: 0.5}}
    found, _ = chosen(run, designs, rates)
    assert taken(found) == [1]
    assert found.tried[0].refused.startswith("rejected by its backtest: ")
    assert found.tried[1].patch is designs[1].patch
    assert found.spent.rollouts == 3 * 160, "what is probed twice is paid for once"


def test_of_several_that_pass_the_one_that_gains_most_is_taken(run: Run) -> None:
    designs = [design(run, name, holes) for name, holes in (("one", 0.25), ("other", 0.3))]
    rates = {0.2: {3: 0.98}, 0.25: {3: 0.85}, 0.3: {3: 0.5}}
    found, _ = chosen(run, designs, rates)
    tests = [one.backtest for one in found.tried if one.backtest]
    assert [one.passed for one in tests] == [True, True]
    assert taken(found) == [1]
    assert found.tried[0].refused == backtest.NOT_NEEDED


def test_what_is_preferred_to_knobs_is_tried_before_anything_is_probed(run: Run) -> None:
    designs = [of(run, "rules", "recipe.kl", 0.01), design(run, "frontier", 0.25)]
    found, asked = chosen(run, designs, {})
    assert (taken(found), asked) == ([0], [])
    assert found.tried[1].refused == backtest.NOT_NEEDED
    assert found.tried[1].backtest is None
    after, _ = chosen(run, designs[::-1], {0.2: {3: 0.5}, 0.25: {3: 0.0}})
    assert taken(after) == [1], "where knobs do not pass, the next is taken"


def test_less_or_equal_signal_does_not(run: Run) -> None:
    assert choose(run, {3: 0.5}, {3: 0.0}) == INCUMBENT
    assert choose(run, {3: 0.5}, {3: 0.5}) == INCUMBENT
    assert choose(run, {3: 0.5}, {3: 1.0}) == INCUMBENT


def test_dead_tasks_are_refused_whatever_else_is_said_for_them(run: Run) -> None:
    assert choose(run, {3: 0.0}, {3: 0.3}) == "frontier"
    assert choose(run, {3: 0.0}, {3: 0.3}, least_alive=1.0) == INCUMBENT


def test_of_many_candidates_each_has_to_be_the_surer(run: Run) -> None:
    rates = {0.2: {3: 0.85}, 0.25: {3: 0.83}, 0.3: {3: 0.9}}
    alone, _ = chosen(run, [design(run, "one", 0.25)], rates, confidence=0.5)
    assert taken(alone) == [0]
    (first,) = alone.tried
    assert first.backtest
    better = first.backtest.measures["better"].value
    sure = {"confidence": better - 0.001}
    assert taken(chosen(run, [design(run, "one", 0.25)], rates, **sure)[0]) == [0]
    both = [design(run, "one", 0.25), design(run, "other", 0.3)]
    assert taken(chosen(run, both, rates, **sure)[0]) == []


def test_switched_off_it_takes_the_first_proposal(run: Run) -> None:
    designs = [design(run, name, holes) for name, holes in (("wild", 0.25), ("tame", 0.3))]
    found, asked = chosen(run, designs, {}, on=False)
    assert (taken(found), asked) == ([0], [])
    assert chosen(run, [], {}, on=False)[0].tried == ()


def test_what_is_in_force_is_neither_better_nor_worse_than_itself() -> None:
    own = Bet(np.array([0.1, 0.3, 0.2]), alive(cells_of(answers({3: 0.5}, 40, 1))))
    found = odds(own, own, 0)
    assert (found.better, found.gain.value, own.alive.n) == (0.5, 0.0, 40)


def test_cells_count_groups_and_merge() -> None:
    found = cells_of(answers({3: 1.0, 4: 0.5}, 20, 2))
    assert [cell.labels for cell in found] == [{"size": 3}, {"size": 4}]
    assert (found[0].n, found[0].groups, found[0].dead) == (80, 20, 20)
    assert found[1].dead < 20
    assert found[1].failures == {"goal": found[1].n - found[1].valid}
    whole = merged(found, [])[0]
    assert (whole.n, whole.valid) == (160, found[0].valid + found[1].valid)
    assert whole.spread == found[0].spread + found[1].spread
