"""What stored rollouts say about sampling and the optimiser, without training: where they say
nothing, the answer is `unclear`."""

from math import comb

import numpy as np
from numpy.typing import NDArray

from coevolve.backtests.numbers import CORRECT, SIGNAL, count, follows, mean, percent, share, way
from coevolve.backtests.replay import Stored
from coevolve.backtests.reward import CLEARLY, SLIGHTLY
from coevolve.backtests.signal import Signal
from coevolve.harness.backtest import Backtest, Measure, Prediction
from coevolve.harness.expression import Numbers
from coevolve.harness.filters import Flags
from coevolve.harness.patch import Patch
from coevolve.harness.recipe import Recipe
from coevolve.harness.rules import BacktestRule
from coevolve.store.cells import SAME

OPENED = {"entropy": 1, "entropy_left": 1, "token_logprob": -1, "duplicate_answers": -1}
"""Diagnostics of exploration, and whether they go up or down when sampling is opened up."""
RARE = 0.005
"""Share of answers below which being cut off is no matter."""
FITS = 0.25
"""Share of the answers cut off that a higher limit must save for the score to rise by it."""


def backtest_recipe(
    patch: Patch, stored: Stored, signal: Signal, recipe: Recipe, rule: BacktestRule
) -> Backtest:
    """By the name of what changes."""
    name = patch.factor.removeprefix("recipe.")
    match name:
        case "max_tokens":
            answer = of_limit(patch, stored, recipe.max_tokens, rule)
        case "group":
            answer = of_group(patch, stored, signal)
        case "redraw":
            answer = of_redraw(patch, stored, signal)
        case "temperature_end":
            before, after = recipe.temperature_end, patch.value
            first = recipe.temperature
            answer = of_opening(patch, (after or first) > (before or first))
        case "temperature" | "entropy":
            answer = of_opening(patch, patch.value > getattr(recipe, name))
        case "clip_low" | "clip_high" if recipe.iterations == 1:
            # Clipping begins where a rollout is used again after an update.
            words = (
                "each rollout is used once (iterations = 1), so that no probability ratio leaves 1"
            )
            words = f"nothing changes: {words} and none is clipped"
            answer = Backtest(passed=False, words=words, prediction="unclear")
        case _:
            words = f"stored rollouts say nothing about {name}: only training can tell"
            answer = Backtest(passed=True, words=words, prediction="unclear")
    return answer.model_copy(update={"measures": state_of(stored, signal) | answer.measures})


def state_of(stored: Stored, signal: Signal) -> dict[str, Measure]:
    """How open the sampling is now, and how much there is to learn from it."""
    return {
        "dead_before": share((~signal.live).sum(), stored.groups),
        "token_logprob": mean(stored.logprob),
        "entropy": mean(stored.entropy),
        "truncated": share(stored.facts["truncated"].sum(), stored.n),
        "answer_tokens": mean(stored.facts["tokens"]),
    }


def of_opening(patch: Patch, opened: bool) -> Backtest:
    """A higher temperature or entropy bonus opens the sampling; what that does to the score is
    not to be seen in what was drawn under the old one."""
    words = "sampling is opened up" if opened else "sampling is narrowed"
    return Backtest(
        passed=True,
        words=f"{words}; its effect on results cannot be seen in stored rollouts",
        prediction=way(OPENED.get(patch.metric, 0) * (1 if opened else -1), 1),
    )


def of_limit(patch: Patch, stored: Stored, old: int, rule: BacktestRule) -> Backtest:
    """Another limit of tokens."""
    if (stored.facts["turns"] > 1).any():
        words = "it limits every answer of a dialogue, and only their sum is stored"
        return Backtest(passed=True, words=words, prediction="unclear")
    tokens, cut = stored.facts["tokens"], stored.facts["truncated"] > 0
    valid, new = stored.facts["valid"] > 0, int(patch.value)
    if new < old:
        lost = share((valid & ~cut & (tokens > new)).sum(), int(valid.sum()))
        shorter = share((cut | (tokens > new)).sum(), stored.n)
        passed = lost.value <= rule.most_wrong
        score: Prediction = "down" if lost.low is not None and lost.low > RARE else "unclear"
        return Backtest(
            passed=passed,
            words=f"{'' if passed else 'refused: '}{percent(lost)} successes are longer than {new}",
            prediction=direction_of(
                patch, score, "up" if shorter.value > cut.mean() else "unclear"
            ),
            measures={"successes_cut": lost, "truncated_after": shorter},
        )
    now, fits = share(cut.sum(), stored.n), would_fit(tokens, cut, old, new)
    passed = now.value > RARE
    rises = now.value >= CLEARLY and fits.value >= FITS
    said = f"{percent(now)} answers are cut off now; about {fits.value:.0%} of them would end"
    return Backtest(
        passed=passed,
        words=said if passed else f"a higher limit changes nothing: {said}",
        prediction=direction_of(
            patch, "up" if rises else "unclear", "down" if passed else "unclear"
        ),
        measures={"would_fit": fits},
    )  # fmt: skip


def direction_of(patch: Patch, score: Prediction, truncation: Prediction) -> Prediction:
    """What is known of the score, or of how many answers are cut off."""
    if patch.metric in CORRECT:
        return score
    return truncation if patch.metric == "truncation" else "unclear"


def would_fit(tokens: Numbers, cut: Flags, old: int, new: int) -> Measure:
    """The share of answers cut off that would end below a higher limit, if answers go on ending
    as often per token as in the second half of the old limit."""
    late = tokens > old / 2
    ended = int((late & ~cut).sum())
    exposure = float((np.minimum(tokens[late], old) - old / 2).sum())
    rate = ended / exposure if exposure else 0.0
    return count(1 - np.exp(-rate * (new - old)), int(late.sum()))


def of_group(patch: Patch, stored: Stored, signal: Signal) -> Backtest:
    """Another size of groups."""
    size = int(patch.value)
    curve = dead_curve(stored, signal.rewards)
    known = max(curve)
    now, then = curve[known], extrapolated(curve, size)
    change = then - now
    prediction = way(-change, CLEARLY) if patch.metric in CORRECT else "unclear"
    if patch.metric in SIGNAL:
        prediction = follows(patch.metric, -change, SLIGHTLY)
    worse = change >= CLEARLY
    how = "counted" if size <= known else "extrapolated"
    return Backtest(
        passed=not worse,
        words=f"{'too few to compare: ' if worse else ''}{then:.1%} dead groups of {size} are "
        f"expected ({how}), {now:.1%} of {known} were seen in {stored.groups:,} groups",
        prediction=prediction,
        measures={"dead_expected": count(then, stored.groups), "cost": count(size / known, known)},
    )


def of_redraw(patch: Patch, stored: Stored, signal: Signal) -> Backtest:
    """Dead groups drawn again: fewer steps, with more live groups each. As many groups are drawn,
    and diagnostics count them all, so that none moves by this itself."""
    times = int(patch.value)
    dead = share((~signal.live).sum(), stored.groups)
    live, steps = 1 - dead.value ** (times + 1), 1 / sum(dead.value**n for n in range(times + 1))
    why = ""
    if times and dead.value <= RARE:
        why = "nothing changes: hardly any group is dead; "
    elif times and dead.value == 1:
        why = "nothing is found by drawing again: all groups are dead; "
    return Backtest(
        passed=not why,
        words=f"{why}{live:.1%} of the groups of a step are expected to differ, in {steps:.0%} of "
        f"the steps; {percent(dead)} groups are dead now",
        prediction="unclear",
        measures={"live_expected": count(live, dead.n), "steps_expected": count(steps, dead.n)},
    )


def dead_curve(stored: Stored, rewards: Numbers) -> dict[int, float]:
    """The chance that all are alike among m rollouts drawn from a group, for every m there is."""
    size = int(np.bincount(stored.group).min())
    alike = np.round(rewards / SAME)
    _, place = np.unique(np.stack((stored.group.astype(float), alike)), axis=1, return_inverse=True)
    counts = np.bincount(place.ravel()), np.bincount(stored.group)

    def ways(counts: NDArray[np.int64], m: int) -> int:
        """To draw m of one kind."""
        kinds, many = np.unique(counts, return_counts=True)
        return sum(comb(int(kind), m) * int(n) for kind, n in zip(kinds, many, strict=True))

    return {m: ways(counts[0], m) / ways(counts[1], m) for m in range(2, size + 1)}


def extrapolated(curve: dict[int, float], size: int) -> float:
    """Beyond the sizes there are: as if there were two results, and the chance of one of them were
    Beta-distributed over tasks. The two numbers of that are fitted to what was counted."""
    if size in curve:
        return curve[size]
    from scipy.optimize import least_squares
    from scipy.special import betaln

    sizes = np.array(list(curve), dtype=float)
    shares = np.array(list(curve.values()))

    def moments(numbers: Numbers, at: Numbers) -> Numbers:
        one, other = np.exp(numbers)
        found: Numbers = sum(
            np.exp(betaln(some + at, rest) - betaln(one, other))
            for some, rest in ((one, other), (other, one))
        )
        return found

    def missed(numbers: Numbers) -> Numbers:
        found: Numbers = moments(numbers, sizes) - shares
        return found

    fitted = least_squares(missed, np.zeros(2), bounds=(-12, 12))
    return float(moments(fitted.x, np.array([float(size)]))[0])
