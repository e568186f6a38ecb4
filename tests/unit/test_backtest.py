"""The backtest: the incumbent stays unless a proposal is better beyond doubt."""

import random

from test_gate import attempt

from coevolve.core.rollout import Rollout
from coevolve.domains.knobs import Knobs
from coevolve.domains.registry import get_domain
from coevolve.evidence.cells import cells_of, merged
from coevolve.evolution.backtest import Candidate, backtest, forgotten
from coevolve.harness.rules import BacktestRule

SPACE = get_domain("lake").space


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


def choose(incumbent: dict[int, float], challenger: dict[int, float], **rule: float) -> str:
    one = Candidate("incumbent", SPACE.defaults())
    other = Candidate("frontier", SPACE.random(1), "because")
    rates = {id(one.knobs): incumbent, id(other.knobs): challenger}

    def answer(knobs: Knobs) -> list[Rollout]:
        return answers(rates[id(knobs)], 40, 5)

    choice = backtest(one, [other], answer, BacktestRule(**rule), 0)
    assert len(choice.probes) == 2
    assert choice.as_json()["chosen"] == choice.chosen.name
    assert choice.chosen.name in choice.words or "incumbent stays" in choice.words
    return choice.chosen.name


def test_without_a_proposal_that_is_what_is_said() -> None:
    one = Candidate("incumbent", SPACE.defaults())
    choice = backtest(one, [], lambda _: answers({3: 0.5}, 40, 5), BacktestRule(), 0)
    assert choice.words.startswith("there are no other knobs to try: the incumbent stays. ")


def test_more_signal_wins() -> None:
    assert choose({3: 1.0, 4: 0.97}, {3: 0.5, 4: 0.5}, most_forgotten=1) == "frontier"


def test_several_proposals_of_one_engineer_are_told_apart() -> None:
    one, worse, better = (
        Candidate(name, SPACE.random(seed))
        for seed, name in enumerate(("incumbent", "policy", "policy"))
    )
    rates = {id(one.knobs): 0.95, id(worse.knobs): 1.0, id(better.knobs): 0.5}
    choice = backtest(
        one, [worse, better], lambda knobs: answers({3: rates[id(knobs)]}, 40, 5), BacktestRule(), 0
    )
    assert choice.chosen is better
    assert choice.words.startswith("policy #2 is taken. incumbent: ")
    assert "; policy #1: " in choice.words


def test_less_or_equal_signal_does_not() -> None:
    assert choose({3: 0.5}, {3: 0.0}) == "incumbent"
    assert choose({3: 0.5}, {3: 0.5}) == "incumbent"
    assert choose({3: 0.5}, {3: 1.0}) == "incumbent"


def test_forgetting_what_is_solved_is_held_against_a_proposal() -> None:
    assert choose({3: 1.0, 8: 0.1}, {8: 0.5}, most_forgotten=0.5) == "incumbent"
    assert choose({3: 1.0, 8: 0.1}, {3: 1.0, 8: 0.5}, most_forgotten=0.5) == "frontier"
    one, other = Candidate("incumbent", SPACE.defaults()), Candidate("frontier", SPACE.random(1))
    rates = {id(one.knobs): {3: 1.0, 8: 0.1}, id(other.knobs): {8: 0.5}}
    choice = backtest(
        one, [other], lambda knobs: answers(rates[id(knobs)], 40, 5), BacktestRule(), 0
    )
    assert "leaves out too much of what is solved: the incumbent stays" in choice.words
    lost = forgotten(cells_of(answers({8: 0.5}, 40, 1)), cells_of(answers({3: 1.0}, 40, 1)))
    assert (lost.value, lost.successes == lost.n) == (1.0, True)
    assert 0 < lost.low < lost.high == 1


def test_switched_off_it_takes_the_first_proposal() -> None:
    one, other = Candidate("incumbent", SPACE.defaults()), Candidate("wild", SPACE.random(3))
    rule = BacktestRule(on=False)
    assert backtest(one, [other], lambda _: [], rule, 0).chosen.name == "wild"
    assert backtest(one, [], lambda _: [], rule, 0).chosen.name == "incumbent"


def test_cells_count_groups_and_merge() -> None:
    found = cells_of(answers({3: 1.0, 4: 0.5}, 20, 2))
    assert [cell.labels for cell in found] == [{"size": 3}, {"size": 4}]
    assert (found[0].n, found[0].groups, found[0].dead) == (80, 20, 20)
    assert found[1].dead < 20
    assert found[1].failures == {"goal": found[1].n - found[1].valid}
    whole = merged(found, [])[0]
    assert (whole.n, whole.valid) == (160, found[0].valid + found[1].valid)
    assert whole.spread == found[0].spread + found[1].spread
