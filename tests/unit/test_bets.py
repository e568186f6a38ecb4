"""Bets on knobs: each does what its name says, on a policy that is really asked."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from pretended import SMALL, Listed, make_run
from test_backtest import answers

from coevolve.backtests.bets import Bench, Branch, alive, likeness, needs
from coevolve.core.errors import UserError
from coevolve.core.rollout import Rollout
from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.evaluation.attempts import attempts
from coevolve.harness.harness import Harness
from coevolve.harness.plan import make_plan
from coevolve.loop.loop import run_loop
from coevolve.policies import likelihood
from coevolve.policies.base import Sampling
from coevolve.policies.local import LocalPolicy
from coevolve.policies.script import ScriptedPolicy
from coevolve.store.cells import cells_of

LAKE = get_domain("lake")
DRAWN = {"target": {"samples": 4, "temperature": 1}}


@pytest.fixture(scope="module")
def pocket() -> LocalPolicy:
    return LocalPolicy("pocket")


@pytest.fixture(scope="module")
def dev(pocket: LocalPolicy) -> list[Rollout]:
    """Its answers to some small boards, four to each."""
    knobs = LAKE.space.parse({"size4.data_ratio": 1.0, "agents3.share": 1.0})
    tasks = list(LAKE.generate(knobs, 12, 0, Split.DEV))
    sampling = Sampling(temperature=1.0, max_tokens=96, seed=3)
    style = pocket.loaded.style("lake")
    return list(attempts(LAKE, pocket, tasks, sampling, style=style, samples=4))


def bench(by: str, policy: LocalPolicy, dev: Sequence[Rollout]) -> Bench:
    same = Branch(policy, alive(cells_of(dev)), lambda: dev)
    return Bench(by, "valid", 1.0, LAKE.space, policy, lambda: dev, lambda _: dev, lambda _: same)


def test_answers_are_as_likely_as_when_they_were_drawn(
    pocket: LocalPolicy, dev: list[Rollout]
) -> None:
    found = likelihood.log_likelihoods(pocket.loaded, dev)
    drawn = [(one.mean_logprob or 0.0) * one.completion_tokens for one in dev]
    assert found == pytest.approx(drawn, abs=1e-3)


def test_a_branch_that_has_learned_nothing_replays_to_what_was_answered(
    pocket: LocalPolicy, dev: list[Rollout]
) -> None:
    made = bench("replay", pocket, dev)
    found = made.bet(Harness(), list)
    assert found.values == pytest.approx(made.scored(dev))
    assert bench("branch", pocket, dev).bet(Harness(), list).values == pytest.approx(found.values)
    assert 0 < found.values.mean() < 1, "some answers are valid, and some are not"


def test_what_is_learned_from_the_target_goes_its_way(
    pocket: LocalPolicy, dev: list[Rollout]
) -> None:
    found = bench("gradient", pocket, dev).bet(Harness(), list)
    assert 0.3 < found.values.mean() <= 1.001
    worse = [
        one.model_copy(update={"outcome": one.outcome.model_copy(
            update={"reward": -float(one.outcome.valid)}
        )})
        for one in dev
    ]  # fmt: skip
    against = bench("gradient", pocket, dev).bet(Harness(), lambda _: worse)
    assert against.values.mean() < -0.3


def test_gradients_of_large_models_keep_their_angles(
    pocket: LocalPolicy, dev: list[Rollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = [np.array([float(one.outcome.valid) - shift for one in dev]) for shift in (0, 0.5)]

    def cosine() -> float:
        one, other = (likelihood.gradient(pocket.loaded, dev, chosen) for chosen in weights)
        return float(one @ other / (one.norm() * other.norm()))

    exact = cosine()
    monkeypatch.setattr(likelihood, "is_small", lambda _: False)
    monkeypatch.setattr(likelihood, "BINS", 1 << 14)
    assert cosine() == pytest.approx(exact, abs=0.05)


def test_need_counts_what_the_target_lacks() -> None:
    hard, spread = cells_of(answers({8: 0.1}, 40, 1)), np.array([0.5, 0.5])
    near, far = [[{"size": size}] * 2 for size in (7, 3)]
    assert needs(near, spread, hard) == pytest.approx([0.45, 0.45], abs=0.05)
    assert needs(far, spread, hard).max() < 0.15
    assert needs(near, spread, cells_of(answers({7: 1.0}, 8, 1))).max() == 0.0
    assert likeness({"topic": "a", "size": 3}, {"topic": "b", "size": 4}) == 0.05
    assert likeness({"wait": True}, {"wait": False}) == 0.5


def test_need_wants_something_of_everything() -> None:
    both = cells_of([*answers({3: 0.1}, 40, 1), *answers({9: 0.1}, 40, 2)])
    spread = np.full(4, 0.5)
    alike = [{"size": 3}] * 4
    mixed = [{"size": 3}, {"size": 3}, {"size": 9}, {"size": 9}]
    assert needs(mixed, spread, both).mean() > 1.2 * needs(alike, spread, both).mean()
    parts = needs(mixed, np.array([0.5, 0.0, 0.5, 0.0]), both)
    assert parts[0] > parts[1] > 0, "what has no signal still belongs to the mean"


def test_a_policy_without_weights_cannot_be_replayed(dev: list[Rollout]) -> None:
    script = ScriptedPolicy(LAKE, "greedy")
    made = Bench("gradient", "valid", 1.0, LAKE.space, script, lambda: dev, lambda _: dev, None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="signal, need or branch"):
        made.bet(Harness(), list)


def test_a_plan_says_what_is_bet_by() -> None:
    assert make_plan({}, "").backtest.by == "need"
    assert make_plan({**DRAWN, "backtest": {"by": "replay"}}, "").backtest.by == "replay"
    for wrong in (
        {"backtest": {"by": "replay"}},
        {"backtest": {"by": "gradient"}},
        {**DRAWN, "backtest": {"by": "branch"}, "start_from": "base"},
    ):
        with pytest.raises(UserError, match=r"backtest\.by"):
            make_plan(wrong, "")


def test_a_version_goes_on_from_its_branch(tmp_path: Path) -> None:
    fewer = {"factor": "knobs", "value": {"size3.hole_ratio": 0.1}}
    rule = {"by": "branch", "steps": 1, "confidence": 0.5, "least_alive": 0}
    run = make_run(
        tmp_path / "run", Listed(fewer), ("greedy", "prioritised"), backtest=rule, reach=1,
        explore=0,
    )  # fmt: skip
    lineage = run_loop(run)
    (folder,) = {place.name for place in (tmp_path / "run" / "branches").iterdir()} - {
        f"01-{lineage.harness(0).digest()}"
    }
    tests = lineage.generations[1].tests
    assert tests
    assert len(tests.tried) == 1
    kept = lineage.versions[1].harness.digest()
    job = (tmp_path / "run" / "versions" / "01" / "job.json").read_text()
    assert f"run:branches/01-{kept}/stage/policy" in job
    assert folder.startswith("01-")
    assert tests.spent.rollouts == 2 * 32, "both branches are paid for"
    assert SMALL.keys() <= lineage.versions[1].harness.knobs.keys()
