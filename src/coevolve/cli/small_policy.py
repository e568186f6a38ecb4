"""`coevolve small-policy`: a tiny model for any domain, made on a CPU within minutes."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from coevolve.cli import choice

MOST_TOKENS, ASKED = 256, 200
RARELY, NEARLY = 0.02, 0.95
"""Rates below and above which there is little to learn by trial and error."""


def small_policy(
    domain: Annotated[str, typer.Option("--domain", "-d", help="Any domain that has solutions.")],
    runs: Annotated[
        Path, typer.Option("--output", "-o", help="Write the model below small/ in this folder.")
    ] = Path("runs"),
    knob: choice.KnobValues = None,
    steps: Annotated[
        int, typer.Option(min=1, help="Teaching steps, with 32 solutions each.")
    ] = 300,
    style: choice.Style = "",
    seed: choice.Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Make a tiny model for a domain and teach it, so that a first run needs no GPU.

    The model is a Llama with about 200,000 weights and a vocabulary of the domain's own phrases. It
    learns from solved tasks of the train split, then answers 200 dev tasks. `coevolve run -p small`
    makes the same model. A second command with the same settings uses the first one's model.

    Examples: coevolve small-policy -d math -k digits=1

      coevolve small-policy -d data:problems.jsonl
    """
    from coevolve.cli.show import PLAIN, notes, out, progress
    from coevolve.cli.tasks import parse_changes
    from coevolve.cli.train import display
    from coevolve.core.splits import Split
    from coevolve.domains.registry import get_domain
    from coevolve.engines.registry import get_engine
    from coevolve.evaluation.attempts import attempts
    from coevolve.evaluation.tally import tally
    from coevolve.harness.plan import SMALL, Plan
    from coevolve.loop.small import with_small

    chosen = get_domain(domain)
    choice.check_style(chosen, style)
    knobs = chosen.space.parse(parse_changes(knob or []))
    plan = Plan.model_validate({
        "domain": domain, "policy": SMALL, "style": style,
        "small": {"knobs": dict(knobs), "steps": steps, "seed": seed},
    })  # fmt: skip
    tasks = list(chosen.generate(knobs, ASKED, seed, Split.DEV))  # refused before it is taught
    with display() as show:
        policy = with_small(plan, chosen, runs, get_engine(plan.engine), show, notes.print).policy
    how = choice.Settings(1, None, MOST_TOKENS, seed, style, "")
    with choice.opened(policy, chosen, how) as (asked, taught):
        made = attempts(chosen, asked, tasks, how.sampling(False), style=taught)
        (found,) = tally(progress(made, len(tasks), "dev tasks")).by(())
    rate = found.valid
    if as_json:
        print(json.dumps({"policy": policy, **found.as_json()}))
        return
    out.print(
        f"it solves {100 * rate.value:.0f} % of {rate.n} dev tasks "
        f"(95 % interval {100 * rate.low:.0f} to {100 * rate.high:.0f}): {policy}",
        **PLAIN,
    )
    if rate.value < RARELY:
        out.print(
            "that is too little to go on from by trial: show it more different tasks, easier ones "
            "(-k), or more --steps",
            **PLAIN,
        )
    elif rate.value > NEARLY:
        out.print("little is left to learn: take harder tasks (-k) in training", **PLAIN)
    same = f"-d {shlex.quote(domain)} -p {shlex.quote(policy)}{choice.as_options(knob or [])}"
    out.print(f"train it: coevolve train grpo {same}", **PLAIN)
    out.print(f"let an engineer steer: coevolve run {same} -e aim", **PLAIN)
