"""The backtest of a patch: what the parent's rollouts say about it, before compute is spent.

Invariant: no gate or test task is looked at. What cannot be known without training is called
unclear.
"""

from pathlib import Path

from coevolve.backtests.bets import Bench
from coevolve.backtests.filters import backtest_filters
from coevolve.backtests.knobs import backtest_knobs
from coevolve.backtests.recipe import backtest_recipe
from coevolve.backtests.replay import Stored, read_stored
from coevolve.backtests.reward import backtest_reward, check_names
from coevolve.backtests.signal import Signal, signal_of
from coevolve.domains.base import Domain
from coevolve.harness.backtest import Backtest
from coevolve.harness.expression import Numbers
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch, patched
from coevolve.harness.rules import BacktestRule


def backtest_patch(
    patch: Patch,
    harness: Harness,
    parent: int | None,
    folder: Path,
    domain: Domain,
    bench: Bench,
    rule: BacktestRule,
    seed: int,
    among: int = 1,
) -> Backtest:
    """Try a patch of a version's harness on the run in `folder`. A patch that the harness cannot
    take is a `UserError`; `bench` is only used for knobs, as one of `among` candidates."""
    after = patched(harness, patch)
    check_names(after.reward, domain)
    if not rule.on:
        return unclear("the backtest is off")
    if patch.factor == "knobs":
        return backtest_knobs(patch, (harness, after), domain, bench, rule, seed, among)
    stored = read_stored(folder, parent, domain.components)
    return backtest_stored(patch, harness, stored, domain, rule)


def backtest_stored(
    patch: Patch, harness: Harness, stored: Stored, domain: Domain, rule: BacktestRule
) -> Backtest:
    """The same for rollouts that were read already."""
    after = patched(harness, patch)
    if not stored.n:
        return unclear("the parent has no stored rollouts of its training to try it on")
    weights, before = replayed(stored, harness)
    if patch.factor not in ("reward", "filters"):
        return backtest_recipe(patch, stored, before, harness.recipe, rule)
    then, later = replayed(stored, after)
    if patch.factor == "reward":
        return backtest_reward(patch, stored, (before, later), domain, rule)
    return backtest_filters(patch, after, stored, (before, later), (weights, then), rule)


def replayed(stored: Stored, harness: Harness) -> tuple[Numbers, Signal]:
    """How much training under a harness would learn from each stored rollout, and what."""
    rewards = stored.rewards(harness.reward)
    weights = stored.weights(harness.filters, rewards)
    return weights, signal_of(stored, rewards, weights, harness.recipe.loss != "dr_grpo")


def unclear(words: str) -> Backtest:
    return Backtest(passed=True, words=words, prediction="unclear")
