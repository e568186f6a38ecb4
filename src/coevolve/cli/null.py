"""`coevolve null`: how far the gate can be trusted."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevolve.cli.run import AsJson
from coevolve.core.errors import UserError

if TYPE_CHECKING:
    from coevolve.gallery.null import Nulls


def null(
    domain: Annotated[str, typer.Option("--domain", "-d", help="See `coevolve domains`.")] = "lake",
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="The policy that answers.")
    ] = "pocket",
    patches: Annotated[int, typer.Option(min=1, help="How many patches of each kind.")] = 200,
    tasks: Annotated[int, typer.Option(min=8, help="Gate tasks per evaluation.")] = 500,
    samples: Annotated[int, typer.Option(min=1, help="Answers per task.")] = 4,
    gain: Annotated[float, typer.Option(min=0, max=1, help="The gain to plant.")] = 0.03,
    temperature: Annotated[float, typer.Option(min=0.01, help="Temperature of the answers.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(min=1)] = 128,
    trainings: Annotated[
        int,
        typer.Option(
            min=0, help="Train the plan's first version with this many seeds, and resample those."
        ),
    ] = 0,
    plan: Annotated[
        str, typer.Option(help="Plan of these trainings: a preset or a file.")
    ] = "tree",
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder of these trainings. After a kill, they continue."
        ),
    ] = Path("runs/null"),
    at_once: Annotated[int, typer.Option(min=1, help="Trainings that run side by side.")] = 1,
    seed: int = 0,
    as_json: AsJson = False,
) -> None:
    """Test the gate with patches that do nothing, and with as many that have a planted gain.

    The answers are real: the policy answers every gate task many times, and each trial assigns
    these answers at random to parent and child. With --trainings, one harness is trained with many
    seeds, and parent, child and twins are drawn from these trainings. Then the chance of training
    counts, too.

    Examples: coevolve null --policy pocket --tasks 500 --samples 4 --gain 0.03

      coevolve null --trainings 12 --plan tree --at-once 2
    """
    from coevolve.cli.show import out, percent
    from coevolve.gallery.null import LEVEL

    if trainings:
        found = by_trainings(plan, trainings, patches, gain, seed, output, at_once)
        asked = {"plan": plan}
    else:
        found = by_answers(
            domain, policy, patches, tasks, samples, gain, temperature, max_tokens, seed
        )
        asked = {"domain": domain, "policy": policy}
    if as_json:
        print(json.dumps({**asked, **found.as_json()}))
        return
    spread = f"; mean spread between trainings {found.spread:.3f}" if found.trainings else ""
    dealt = f" dealt from {found.trainings} trainings" if found.trainings else ""
    out.print(
        f"{', '.join(asked.values())}: {found.rate:.1%} valid; {found.tasks} tasks x "
        f"{found.samples} answers{spread}\n"
        f"no-op patches kept: {percent(found.false_keeps)} % of {patches}{dealt} "
        f"(level {100 * LEVEL:g} %)\n"
        f"planted gains of {100 * gain:g} points kept: {percent(found.found)} % of "
        f"{patches}{dealt}",
        highlight=False,
    )


def by_answers(
    domain: str, policy: str, patches: int, tasks: int, samples: int, gain: float,
    temperature: float, max_tokens: int, seed: int,
) -> "Nulls":  # fmt: skip
    """Deal the answers of one checkpoint."""
    from coevolve.cli.show import notes, progress
    from coevolve.core.splits import Split
    from coevolve.domains.registry import get_domain
    from coevolve.evaluation.attempts import attempts
    from coevolve.gallery.null import null_answers
    from coevolve.harness.rules import GateRule
    from coevolve.policies.base import Sampling
    from coevolve.policies.registry import get_policy

    chosen = get_domain(domain)
    asked, style = get_policy(policy, chosen, "")
    listed = list(chosen.generate(chosen.space.defaults(), tasks, seed, Split.GATE, 1))
    count = 2 * samples
    notes.print(f"asking {policy} {count} times about each of {tasks} gate tasks", highlight=False)
    sampling = Sampling(temperature=temperature, max_tokens=max_tokens, seed=seed)
    answers: dict[str, list[Any]] = {}
    rollouts = attempts(chosen, asked, listed, sampling, style=style, samples=count)
    for one in progress(rollouts, tasks * count, "answers"):
        answers.setdefault(one.task_id, []).append(one)
    return null_answers(list(answers.values()), samples, patches, gain, GateRule(), seed)


def by_trainings(
    name: str, count: int, patches: int, gain: float, seed: int, output: Path, at_once: int
) -> "Nulls":
    """Train with many seeds, and deal the trainings."""
    from coevolve.cli.run import side_by_side
    from coevolve.cli.show import notes
    from coevolve.gallery.null import gates_of, null_trainings
    from coevolve.harness.plan import load_plan

    plan = load_plan(name, {"seed": seed})
    least = 2 + plan.gate.twins
    if count < least:
        raise UserError(f"--trainings {count}: a parent, a child and twins make {least}")
    notes.print(f"training the first version of {name} with {count} seeds", highlight=False)
    gates = gates_of(plan, count, output.resolve(), side_by_side(at_once, "", 2.0, 0.0))
    return null_trainings(gates, patches, gain, plan.gate, seed)
