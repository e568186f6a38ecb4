"""What a model is told of what counts: the target, the metric, how far knobs may move, and what a
proposal has to pass. Invariant: rules only, never a number that was measured on gate tasks."""

from coevolve.engineers.base import Acceptance, View
from coevolve.harness.rules import BacktestRule

BETS = {
    "signal": "how much rewards differ within groups of answers to fresh tasks",
    "need": (
        "what there is to learn from fresh tasks of it (how much rewards differ within groups of "
        "answers), for every kind of dev task weighed by how much of that kind fails, and by "
        "likeness: every step between numbers halves it, and another word leaves a tenth of it"
    ),
    "gradient": "how far learning from answers to fresh tasks moves weights towards better ones",
    "replay": "how much likelier a short training makes the good answers to dev tasks",
    "branch": "how well dev tasks are answered after a short training",
}
"""What knobs are bet on by, in words."""


def terms(view: View) -> str:
    """What counts, as far as it is known."""
    lines = [
        "- Training tasks are made from the knobs. Dev tasks are drawn from the target, as are the "
        "tasks that decide, which nobody sees: only what becomes better there counts.",
        "- Knobs may move to anywhere in their ranges at once."
        if view.reach >= 1
        else f"- Knobs may move by {view.reach:.2g} at most: a number by that part of its range, "
        "and of a group of shares that much may change hands. What goes further is cut back.",
    ]
    if view.standing:
        lines.append(
            "- Training goes on from the weights of the last version that was kept."
            if view.standing.goes_on
            else "- Every version is trained from the same first weights."
        )
    if view.acceptance:
        lines[1:1] = [counts(view.acceptance)]
        lines += [probed(view.acceptance.backtest), judged(view.acceptance)]
    return "\n".join(["What counts:", *lines])


def mix(view: View) -> dict[str, float]:
    """What the target is like, by knob."""
    return {name: found.value for name, found in view.target.items()}


def counts(rules: Acceptance) -> str:
    kept = " and ".join(rules.objective.protect)
    protected = f"; {kept} must not fall" if kept else ""
    return f"- The metric that counts is {rules.objective.metric}{protected}."


def probed(rule: BacktestRule) -> str:
    """How a proposal comes to be trained."""
    if not rule.on:
        return "- A proposal is trained without a test before that."
    return (
        f"- A proposal of knobs is tested before it is trained, by {BETS[rule.by]}: it is "
        "refused, and the knobs stay, unless it is worth more than the knobs now with a chance of "
        f"{rule.confidence:.0%} ({rule.tasks} tasks, {rule.samples} answers each: small changes "
        f"do not show in so few), and {rule.least_alive:.0%} of its groups are live, that is, "
        "their rewards differ."
    )


def judged(rules: Acceptance) -> str:
    """How a trained version comes to be kept."""
    gate, metric = rules.gate, rules.objective.metric
    if not gate.on:
        return "- Every trained version is kept."
    asked = {
        "no worse": f"unless {metric} falls by more than {gate.margin:g}, beyond noise",
        "better": f"if {metric} rises by more than {gate.gain:g}, beyond noise",
        "higher": f"if {metric} is higher",
    }[rules.accept]
    solved = (
        f"; the rate of kinds that are solved ({gate.solved:g} and above) must not fall by more "
        f"than {gate.protected_fall:g}"
    )
    return (
        f"- A trained version is kept {asked}{'' if rules.accept == 'higher' else solved}; "
        "otherwise it is taken back."
    )
