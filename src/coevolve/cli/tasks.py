"""`coevolve tasks`: make, show, solve and verify tasks."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from coevolve.core.errors import CoevolveError, UserError
from coevolve.core.names import lookup
from coevolve.core.splits import Split

app = typer.Typer(no_args_is_help=True, help="Make, show, solve and verify tasks.")

DomainName = Annotated[str, typer.Option("--domain", "-d", help="See `coevolve domains`.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line, for scripts.")]
TasksFile = Annotated[
    Path, typer.Argument(help="A JSONL file of tasks or boards; - for standard input.")
]


def parse_changes(pairs: list[str]) -> dict[str, float]:
    """Knob settings from NAME=VALUE words."""
    changes: dict[str, float] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        try:
            changes[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise UserError(f"--knob {pair!r} is not NAME=NUMBER, such as size8.hole_ratio=0.3")
    return changes


def parse_split(name: str) -> Split:
    return lookup("split", name, {split.value: split for split in Split})


@app.command()
def generate(
    domain: DomainName = "lake",
    count: Annotated[int, typer.Option("--count", "-n", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="Same seed, same tasks.")] = 0,
    split: Annotated[str, typer.Option(help="train, dev, gate or test.")] = "train",
    knob: Annotated[
        list[str] | None,
        typer.Option("--knob", "-k", help="NAME=VALUE, repeatable; see `coevolve domains NAME`."),
    ] = None,
    random_knobs: Annotated[
        bool, typer.Option("--random-knobs", help="Use random knobs, by the seed.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="JSONL file to write. Default: standard output."),
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0 for one per core.")] = 0,
) -> None:
    """Make tasks with solutions from knobs, as JSON lines.

    Example: coevolve tasks generate -n 100 -k size8.data_ratio=1 -k agents4.share=1 -o t.jsonl
    """
    from coevolve.cli.show import notes, progress
    from coevolve.core.files import writing
    from coevolve.domains.registry import get_domain

    chosen = get_domain(domain)
    changes = parse_changes(knob or [])
    if random_knobs:
        knobs = chosen.space.project(changes, base=chosen.space.random(seed))
    else:
        knobs = chosen.space.parse(changes)
    made = chosen.generate(knobs, count, seed, parse_split(split), workers or os.cpu_count() or 1)
    with writing(output) as target:
        for task in progress(made, count, "generating"):
            target.write(task.model_dump_json() + "\n")
    if output:
        notes.print(f"{count} tasks in {output}")


@app.command()
def show(
    tasks: TasksFile,
    domain: Annotated[
        str, typer.Option("--domain", "-d", help="Default: the domain that the file names.")
    ] = "",
    first: Annotated[int, typer.Option(min=1, help="How many tasks to show.")] = 3,
    plan: Annotated[bool, typer.Option(help="Also show the optimal plan.")] = True,
    prompt: Annotated[bool, typer.Option("--prompt", help="Show what a policy sees.")] = False,
    style: Annotated[str, typer.Option(help="Prompt style.")] = "",
    picture: Annotated[
        Path | None, typer.Option(help="Draw the first task into this .svg or .gif file.")
    ] = None,
) -> None:
    """Show tasks: the board, the optimal plan, the prompt, a picture."""
    from itertools import islice

    from coevolve.cli.show import notes
    from coevolve.domains.files import read_lines, read_tasks
    from coevolve.domains.registry import get_domain

    if not domain and str(tasks) != "-":
        domain = str(next(read_lines(tasks), (0, {}))[1].get("domain", ""))
    chosen = get_domain(domain or "lake")
    for number, task in enumerate(islice(read_tasks(chosen, tasks), first)):
        labels = ", ".join(f"{name} {value}" for name, value in task.bucket.items())
        print(f"{task.id}  ({task.split}: {labels})")
        print(chosen.draw(task, chosen.oracle(task) if plan else None))
        if prompt:
            for message in chosen.prompt(task, style):
                print(f"--- {message.role}\n{message.content}")
        print()
        if picture and number == 0:
            chosen.picture(task, chosen.oracle(task) if plan else None, picture)
            notes.print(f"drew {picture}")


@app.command()
def solve(
    tasks: TasksFile,
    domain: DomainName = "lake",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the solved tasks to this JSONL file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Solve tasks or boards optimally, and print the id and cost of each.

    If a line cannot be solved, the output says why, and the exit code is 1. With -o, rows of other
    formats that the domain reads become tasks, if their solutions are right.
    """
    from contextlib import nullcontext

    from coevolve.core.files import writing
    from coevolve.domains.files import at_line, name_of, read_lines
    from coevolve.domains.registry import get_domain

    chosen = get_domain(domain)
    unsolved = 0
    with writing(output) if output else nullcontext() as target:
        for number, value in read_lines(tasks):
            name = name_of(value, tasks, number) or str(number)
            try:
                solved = chosen.solve(value)
                if target and solved.get("solved", True):
                    target.write(chosen.load(value).model_dump_json() + "\n")
            except UserError:
                with at_line(tasks, number):
                    raise
            except CoevolveError as error:
                solved = {"error": str(error)}
            unsolved += "error" in solved or not solved.get("solved", True)
            if as_json:
                print(json.dumps({"id": name, **solved}), flush=True)
            else:
                facts = "  ".join(f"{key} {fact}" for key, fact in solved.items())
                print(f"{name}  {facts}", flush=True)
    if unsolved:
        raise typer.Exit(1)


@app.command()
def verify(
    tasks: TasksFile,
    answers: Annotated[Path, typer.Argument(help="JSONL with `id` and `answer` (text) per line.")],
    domain: DomainName = "lake",
    as_json: AsJson = False,
) -> None:
    """Check answers to tasks, and print id, valid, optimal, reward, cost and failure of each."""
    from coevolve.domains.capture import verify as judged
    from coevolve.domains.files import name_of, read_lines, read_tasks
    from coevolve.domains.registry import get_domain

    chosen = get_domain(domain)
    known = {task.id: task for task in read_tasks(chosen, tasks)}
    for number, value in read_lines(answers):
        name, text = name_of(value, answers, number), value.get("answer")
        if not isinstance(text, str):
            raise UserError(f"{answers}, line {number}: needs a text `answer`, has {text!r:.60}")
        if name is None or name not in known:
            raise UserError(f"{answers}, line {number}: no task '{name}' in {tasks}")
        outcome = judged(chosen, known[name], text)
        found = {
            "id": name,
            "valid": outcome.valid,
            "optimal": outcome.optimal,
            "reward": outcome.reward,
            "cost": outcome.details.get("cost"),
            "failure": outcome.failure,
            "reason": outcome.details.get("reason"),
        }
        if as_json:
            print(json.dumps(found))
        else:
            verdict = "optimal" if outcome.optimal else "valid" if outcome.valid else "invalid"
            part = outcome.reward and not outcome.optimal
            reward = f"reward {outcome.reward:g}  " if part else ""
            cost = "" if found["cost"] is None else f"cost {found['cost']}"
            print(f"{name}  {verdict}  {reward}{found['reason'] or cost}".rstrip())
