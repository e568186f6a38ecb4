"""`coevolve cost`: what a plan takes on paper, before anything is bought."""

import json
from typing import Annotated

import typer

from coevolve.cli.run import AsJson, settings_of
from coevolve.core.errors import UserError

UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


def cost(
    plan: Annotated[
        str, typer.Argument(metavar="PLAN", help="The name of a preset, or a TOML file.")
    ] = "tree",
    parameters: Annotated[
        str, typer.Option(help="Size of the model, such as 0.5B, 8B or 70B.")
    ] = "8B",
    prompt: Annotated[int, typer.Option(min=1, help="Mean tokens of a prompt.")] = 256,
    answer: Annotated[
        int, typer.Option(min=0, help="Mean tokens of an answer; 0: max_tokens of the plan.")
    ] = 0,
    hour: Annotated[float, typer.Option(min=0, help="Price of a GPU-hour.")] = 2.5,
    flops: Annotated[
        float, typer.Option(min=1, help="Peak teraflops of a GPU; an H100 or H200 has 990.")
    ] = 990,
    drawing: Annotated[
        float,
        typer.Option(min=0.001, max=1, help="Share of the peak that drawing answers reaches."),
    ] = 0.2,
    learning: Annotated[
        float, typer.Option(min=0.001, max=1, help="Share of the peak that learning reaches.")
    ] = 0.35,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="NAME=VALUE, repeatable: any setting of the plan."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate what a plan costs in rollouts, GPU-hours and money, for training and for the rest.

    This counts the most that the plan allows. How fast a GPU works depends on engine, model and
    lengths: set --drawing and --learning by what `coevolve train --plan` measures.

    Examples: coevolve cost tree --parameters 8B --set versions=10 --set recipe.steps=200

      coevolve cost my.toml --parameters 32B --answer 4000 --hour 3.2 --json
    """
    from rich.table import Table

    from coevolve.cli.show import out
    from coevolve.harness.cost import Machine, processor_hours
    from coevolve.harness.cost import cost as reckoned
    from coevolve.harness.plan import load_plan

    chosen = load_plan(plan, settings_of(setting or []))
    machine = Machine(number(parameters), prompt, answer, flops * 1e12, drawing, learning, hour)
    parts = reckoned(chosen, machine)
    training = sum(part.gpu_hours for part in parts if not part.steers)
    steering = [part for part in parts if part.steers]
    total = sum(part.gpu_hours for part in steering)
    ratio = total / training if training else float("inf")
    own = processor_hours(parts, chosen)
    if as_json:
        rows = [part._asdict() for part in parts]
        facts = {"parts": rows, "steering_to_training": ratio, "processor_hours": own}
        print(json.dumps({"plan": chosen.name, "parameters": machine.parameters, **facts}))
        return
    title = f"{chosen.name}, {parameters} parameters, at most"
    table = Table("part", "rollouts", "GPU-hours", "money", "", title=title, title_justify="left")
    for part in parts:
        numbers = (f"{part.rollouts:,}", f"{part.gpu_hours:,.2f}", f"{part.money:,.2f}")
        table.add_row(part.name, *numbers, part.why)
    out.print(table)
    money = sum(part.money for part in steering)
    out.print(
        f"what steers takes {total:,.2f} GPU-hours ({money:,.2f}), {ratio:.0%} of the training "
        f"that it steers; recording and diagnosing: {own:,.2f} hours of one processor core",
        highlight=False,
    )


def number(text: str) -> float:
    """A count such as 8B."""
    unit = UNITS.get(text[-1:].lower(), 0.0)
    try:
        found = float(text[:-1] if unit else text) * (unit or 1.0)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e15:
        raise UserError(f"--parameters {text!r} is not the size of a model; write 0.5B, 8B or 70B")
    return found
