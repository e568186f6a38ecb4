"""`coevolve null` and `coevolve final`: how far the gate can be trusted, and what a run has won."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]


def null(
    domain: Annotated[str, typer.Option("--domain", "-d")] = "lake",
    policy: Annotated[str, typer.Option("--policy", "-p", help="Who answers.")] = "pocket",
    patches: Annotated[int, typer.Option(min=1, help="No-op patches, and planted gains.")] = 200,
    tasks: Annotated[int, typer.Option(min=8, help="Gate tasks of an evaluation.")] = 500,
    samples: Annotated[int, typer.Option(min=1, help="Answers to each task.")] = 4,
    gain: Annotated[float, typer.Option(min=0, max=1, help="That is planted.")] = 0.03,
    temperature: Annotated[float, typer.Option(min=0.01, help="Answers are drawn.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(min=1)] = 128,
    seed: int = 0,
    as_json: AsJson = False,
) -> None:
    """Put patches that do nothing through the gate, and as many with a gain that was planted.

    Answers are real: the policy answers every gate task many times, and each trial deals these
    answers out anew as parent, child and repeated evaluations for the noise floor.

    Example: coevolve null --policy pocket --tasks 500 --samples 4 --gain 0.03
    """
    from coevolve.cli.show import notes, out, percent, progress
    from coevolve.core.splits import Split
    from coevolve.domains.registry import get_domain
    from coevolve.evaluation.attempts import attempts
    from coevolve.evolution.null import LEVEL, needed, null_test
    from coevolve.harness.rules import PromotionRule
    from coevolve.policies.base import Sampling
    from coevolve.policies.registry import get_policy

    chosen, rule = get_domain(domain), PromotionRule()
    asked, style = get_policy(policy, chosen, "")
    listed = list(chosen.generate(chosen.space.defaults(), tasks, seed, Split.GATE, 1))
    count = needed(rule, samples)
    notes.print(f"asking {policy} {count} times about each of {tasks} gate tasks", highlight=False)
    sampling = Sampling(temperature=temperature, max_tokens=max_tokens, seed=seed)
    answers: dict[str, list[Any]] = {}
    rollouts = attempts(chosen, asked, listed, sampling, style=style, samples=count)
    for one in progress(rollouts, tasks * count, "answers"):
        answers.setdefault(one.task_id, []).append(one)
    found = null_test(list(answers.values()), samples, patches, gain, rule, seed)
    if as_json:
        print(json.dumps({"domain": domain, "policy": policy, **found.as_json()}))
        return
    out.print(
        f"{domain}, {policy}: {found.rate:.1%} valid; {found.tasks} tasks x {samples} answers; "
        f"mean noise floor {found.floor:.3f}\n"
        f"no-op patches kept: {percent(found.false_keeps)} % of {patches} "
        f"(level {100 * LEVEL:g} %)\n"
        f"planted gains of {100 * gain:g} points kept: {percent(found.found)} % of {patches}",
        highlight=False,
    )


def final(
    folder: Annotated[Path, typer.Argument(help="Folder of a run that has ended.")],
    tasks: Annotated[int, typer.Option(min=8, help="Test tasks.")] = 1_000,
    as_json: AsJson = False,
) -> None:
    """Open the test split, once: the first and the last policy of a run on tasks that decided
    nothing. What is found is recorded, and every later call shows the same.
    """
    from coevolve.cli.show import notes, out
    from coevolve.evolution.assembly import plan_of
    from coevolve.evolution.final import final as open_test
    from coevolve.evolution.measuring import measuring_of
    from coevolve.ledger.ledger import Ledger

    with Ledger.open(folder) as ledger:
        if (earlier := ledger.find("phase/0/final")) is not None:
            notes.print(f"opened before, at {earlier.time}", highlight=False)
        found = open_test(ledger, measuring_of(plan_of(ledger)), tasks)
    if as_json:
        print(json.dumps(found))
        return
    if found.get("words"):
        out.print(found["words"], highlight=False, soft_wrap=True)
    for name in ("first", "last"):
        facts = found[name]
        for metric in ("valid", "optimal"):
            rate = facts[metric]
            out.print(
                f"{name:5} {metric:7} {100 * rate['rate']:.1f} "
                f"[{100 * rate['low']:.1f}, {100 * rate['high']:.1f}] % of {rate['n']:,}  "
                f"{facts['policy']}",
                highlight=False,
                soft_wrap=True,
            )
    for metric, change in found["change"].items():
        out.print(
            f"change of {metric}: {100 * change['mean']:+.1f} "
            f"[{100 * change['low']:+.1f}, {100 * change['high']:+.1f}] points, "
            f"n {change['n']:,} tasks",
            highlight=False,
        )
