"""What a plan costs on paper: rollouts, GPU-hours and money of the training, and of what steers it.

Counted is the most that a plan allows: every candidate is probed, every version is worth a look in
the clean room. Drawing a token takes 2 operations per parameter, learning from one takes 6.
"""

from typing import NamedTuple

from coevolve.harness.plan import Plan

ASKED_S = 14e-6
"""Processor seconds of all diagnostics, per rollout of the run (benchmarks/diagnostics.py)."""
WRITTEN_S = 280e-6
"""The same for recording a rollout of 2,000 tokens (benchmarks/evidence.py)."""


class Machine(NamedTuple):
    """What computing takes, and costs."""

    parameters: float
    prompt: int = 256
    """Mean tokens of a prompt."""
    answer: int = 0
    """Mean tokens of an answer; 0: as many as it may have."""
    flops: float = 990e12
    """Operations per second that a GPU could do."""
    drawing: float = 0.2
    """Share of these that drawing reaches."""
    learning: float = 0.35
    """Share that learning reaches."""
    hour: float = 2.5
    """Money for an hour of a GPU."""


class Part(NamedTuple):
    """One use of the GPUs, or of a model behind an address."""

    name: str
    why: str
    rollouts: int = 0
    learned: int = 0
    """How many of them are learned from."""
    gpu_hours: float = 0.0
    money: float = 0.0
    steers: bool = True
    """Whether it belongs to the outer loop, and not to the training that it steers."""


def cost(plan: Plan, machine: Machine) -> list[Part]:
    """Every part of a run."""
    generations = -(-(plan.versions - 1) // plan.width)
    better, samples = plan.accept == "better", plan.target.samples
    twins = plan.gate.twins if better else 0
    controls = generations if plan.control and plan.designs else 0
    trained = plan.versions * plan.rollouts - plan.spared
    extra = (twins + controls) * plan.rollouts
    measured = plan.versions + twins + controls
    repeats = plan.gate.repeats if better and plan.target.temperature else 0
    gate = (measured + 1 + repeats) * plan.target.gate * samples
    clean = (plan.versions + 1) * plan.target.clean * samples
    probed = branched = explored = 0
    if plan.designs and plan.backtest.on:
        rule = plan.backtest
        probed = generations * (plan.candidates + 1) * rule.tasks * rule.samples
        if rule.by in ("branch", "replay"):
            steps = generations * plan.candidates * rule.steps
            branched = steps * plan.recipe.tasks * plan.recipe.group
    if plan.explores:
        explored = generations * plan.explore * plan.backtest.samples
    drawn_off = probed + explored + branched if plan.pay_probes else 0
    parts = [
        Part("training", f"{plan.versions} versions", max(0, trained - drawn_off),
             max(0, trained - drawn_off), steers=False),
        Part("controls and twins", f"{controls} and {twins} more trainings", extra, extra),
        Part("dev", f"{measured} checkpoints, {plan.target.dev} tasks x {samples}",
             measured * plan.target.dev * samples),
        Part("gate", f"{measured + 1 + repeats} times, {plan.target.gate} tasks x {samples}", gate),
        Part("clean room", f"{plan.versions + 1} checkpoints at most", clean),
        Part("backtests", f"{generations} times {plan.candidates + 1} candidates at most", probed),
        Part("branches", f"{generations} times {plan.candidates} at most", branched, branched),
        Part("exploring", f"{generations} times {plan.explore} tasks", explored),
    ]  # fmt: skip
    found = [priced(part, plan, machine) for part in parts if part.rollouts]
    if plan.designs and any(plan.prices):
        tokens = generations * plan.agent.tokens
        money = tokens * max(plan.prices) / 1e6
        limit = plan.agent.money * generations if plan.agent.money else money
        found.append(Part("engineers", f"{tokens:,} tokens at most", money=min(money, limit)))
    return found


def priced(part: Part, plan: Plan, machine: Machine) -> Part:
    """The same with what it takes."""
    answer = machine.answer or plan.recipe.max_tokens
    own = 2 * machine.parameters / machine.drawing
    # A prompt is read once for all of its answers, as fast as it is learned from.
    read = 2 * machine.parameters / machine.learning * machine.prompt
    shared = plan.recipe.group if part.learned else max(plan.target.samples, 1)
    learned = 6 * machine.parameters / machine.learning * (machine.prompt + answer)
    work = part.rollouts * (own * answer + read / shared) + part.learned * learned
    hours = work / machine.flops / 3600
    return part._replace(gpu_hours=hours, money=hours * machine.hour)


def processor_hours(parts: list[Part], plan: Plan) -> float:
    """Of recording everything, and of asking all diagnostics of all there is after each version."""
    rollouts = sum(part.rollouts for part in parts)
    return (rollouts * WRITTEN_S + rollouts * ASKED_S * plan.versions / 2) / 3600
