"""`coevolve validate`: is an environment fit for reinforcement learning?"""

import json
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevolve import __version__
from coevolve.cli import choice
from coevolve.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coevolve.domains.base import Domain
    from coevolve.evaluation.validate import Aspect

STATES = {"fit": "ok", "doubtful": "doubt", "unfit": "FAIL"}
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>{title}</title><style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui; max-width: 56rem; margin: 2rem auto; padding: 0 1rem }}
section {{ border-top: 1px solid #8886; padding: .5rem 0 }} h2 {{ font-size: 1rem; margin: 0 }}
.fit {{ color: #2a8a3e }} .doubtful {{ color: #b07a00 }} .unfit {{ color: #d1242f }}
p, h1 {{ margin: .3rem 0; overflow-wrap: anywhere }}
th {{ text-align: left; font-weight: 500 }} td, th {{ padding-right: 1rem }}
pre {{ overflow: auto; font-size: .8rem }} small {{ opacity: .7 }}
</style><h1>{title}: <span class="{verdict}">{verdict}</span></h1>{sections}
<p>{not_asked}</p>
<p><small>coevolve {version}, format {format}, seed {seed}; tasks {tasks}; report {hash}
</small></p></html>
"""


def validate(
    domain: Annotated[
        str, typer.Argument(help="A domain, data:FILE, reasoning.NAME, openenv:URL, verifiers:ID.")
    ],
    policy: Annotated[
        str,
        typer.Option(
            "--policy", "-p", help=f"Try this policy: a script, pocket, smollm2, {choice.OTHERS}."
        ),
    ] = "",
    tasks: Annotated[int, typer.Option(min=4, help="How many tasks the policy tries.")] = 64,
    samples: Annotated[int, typer.Option("--samples", "-n", min=2, help="Attempts per task.")] = 8,
    max_tokens: choice.MaxTokens = 512,
    train: Annotated[
        int, typer.Option(min=0, help="Also train the policy for this many steps: does it learn?")
    ] = 0,
    style: choice.Style = "",
    seed: choice.Seed = 0,
    device: choice.Device = "",
    html: Annotated[
        Path | None, typer.Option(help="Also write the report as an HTML page.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Judge whether an environment is good to train on. The exit code is 1 if it is not.

    It asks: does the environment keep its promises, does its verifier notice wrong answers, can it
    be cheated, do splits leak, how fast is it? With --policy: is there something to learn? With
    --train: does the policy learn it?

    Examples: coevolve validate lake;  coevolve validate data:problems.jsonl -p Qwen/Qwen3-0.6B

      coevolve validate mine -p pocket --train 100 --html report.html
    """
    from coevolve.cli.show import PLAIN, notes, out, show_finding
    from coevolve.domains.registry import get_domain
    from coevolve.evaluation.validate import overall, report
    from coevolve.evaluation.validate import validate as asked

    if train and not policy:
        raise UserError("--train needs --policy: a model with weights")
    chosen = get_domain(domain)
    if policy:
        choice.check_policy(chosen, policy)
    choice.check_style(chosen, style)
    aspects: list[Aspect] = []

    def tell(aspect: "Aspect") -> None:
        aspects.append(aspect)
        if not as_json:
            show_finding(STATES[aspect.verdict], aspect.name, aspect.words)
            if aspect.fix:
                out.print(f"      {aspect.fix}", highlight=False, markup=False)
            if "kinds" in aspect.figures:
                show_kinds(aspect.figures)

    with notes.status("asking: promises") as status:
        for aspect in asked(chosen, seed):
            tell(aspect)
            status.update(f"asking: {aspect.name} done")
        if policy:
            how = choice.Settings(samples, 1.0, max_tokens, seed, style, device)
            tell(difficulty(chosen, policy, how, tasks))
        if train:
            tell(climbing(chosen, policy, train, max_tokens, samples, seed))
    found = report(chosen, seed, policy, aspects, __version__)
    if html:
        html.write_text(page(found), encoding="utf-8")
        notes.print(f"wrote {html}", **PLAIN)
    if as_json:
        print(json.dumps(found))
    else:
        out.print(f"{domain} is {found['verdict']}", highlight=False)
        if missing := not_asked(found):
            out.print(missing, highlight=False)
    if overall(aspects) == "unfit":
        raise typer.Exit(1)


def not_asked(found: "Mapping[str, Any]") -> str:
    """What nobody asked for, and how to ask."""
    asked = {one["name"] for one in found["aspects"]}
    missing = [
        f"{what} ({how})"
        for name, what, how in (
            ("difficulty", "whether there is something to learn", "--policy MODEL"),
            ("climbs", "whether a policy learns it", "--policy MODEL --train 100"),
        )
        if name not in asked
    ]
    return f"not asked: {'; '.join(missing)}" if missing else ""


def show_kinds(figures: "Mapping[str, Any]") -> None:
    """How difficult each kind of task is, and how rewards and lengths are distributed."""
    from rich.table import Table

    from coevolve.cli.show import out

    heads, *rows = kinds_of(figures)
    table = Table(*heads, header_style="bold")
    for row in rows:
        table.add_row(*row)
    out.print(table)
    spread = Table("", "least", "10 %", "median", "90 %", "most", header_style="bold")
    for name in ("reward", "tokens"):
        own, digits = figures[name], 2 if name == "reward" else 0
        names = ("least", "tenth", "median", "nine_tenths", "most")
        spread.add_row(name, *(f"{own[one]:.{digits}f}" for one in names))
    out.print(spread)
    out.print(f"correlation of reward with tokens: {figures['longer_pays']:+.2f}", highlight=False)


def difficulty(domain: "Domain", policy: str, how: choice.Settings, tasks: int) -> "Aspect":
    """What a policy makes of it."""
    from coevolve.evaluation.validate import tried

    with choice.opened(policy, domain, how) as (asked, style):
        return tried(domain, asked, style, how.sampling(False), tasks, how.samples)


def climbing(
    domain: "Domain", policy: str, steps: int, max_tokens: int, group: int, seed: int
) -> "Aspect":
    """Whether a policy learns here."""
    from coevolve.core.seeds import derive
    from coevolve.core.splits import Split
    from coevolve.engines.base import Stage
    from coevolve.engines.trl.engine import TrlEngine
    from coevolve.evaluation.validate import climbed
    from coevolve.harness.recipe import Recipe

    recipe = Recipe(steps=steps, tasks=8, group=group, max_tokens=max_tokens, learning_rate=5e-5)
    knobs = domain.space.defaults()
    made = list(domain.generate(knobs, recipe.distinct, derive(seed, "climbs"), Split.TRAIN))
    rewards: list[float] = []
    with TemporaryDirectory() as folder:
        stage = Stage(
            kind="grpo", model=policy, recipe=recipe, folder=Path(folder) / "stage", seed=seed
        )
        engine = TrlEngine({domain.name: domain})
        engine.train(stage, made, lambda step: rewards.append(step.metrics["reward"]))
    return climbed(rewards)


def kinds_of(figures: "Mapping[str, Any]") -> list[list[str]]:
    """The same as a table, heads first."""
    kinds = figures["kinds"]
    heads = ["kind", "tasks", *(f"pass@{k}" for k in kinds["all"]["pass_at"]), "dead groups"]
    rows = [
        [name, str(one["tasks"]), *(f"{rate:.0%}" for rate in one["pass_at"].values()),
         f"{one['dead_groups']:.0%}"]
        for name, one in kinds.items()
    ]  # fmt: skip
    return [heads, *rows]


def in_html(rows: list[list[str]]) -> str:
    """A table of the page; the first row, and the first of each, are heads."""
    heads, *others = [[escape(cell) for cell in row] for row in rows]
    lines = ["".join(f"<th>{cell}</th>" for cell in heads)]
    lines += [f"<th>{name}</th>" + "".join(f"<td>{cell}</td>" for cell in cells)
              for name, *cells in others]  # fmt: skip
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def page(found: dict[str, Any]) -> str:
    """The report as one page that needs nothing else."""
    sections = "".join(
        f'<section><h2><span class="{one["verdict"]}">{one["verdict"]}</span> '
        f"{escape(one['name'])}</h2><p>{escape(one['words'])}</p>"
        + (f"<p><b>{escape(one['fix'])}</b></p>" if one["fix"] else "")
        + (in_html(kinds_of(one["figures"])) if "kinds" in one["figures"] else "")
        + f"<details><summary>figures</summary><pre>{escape(json.dumps(one['figures'], indent=1))}"
        "</pre></details></section>"
        for one in found["aspects"]
    )
    names = {name: found[name] for name in ("verdict", "format", "seed", "tasks", "hash")}
    return PAGE.format(
        title=escape(found["domain"]),
        sections=sections,
        version=found["coevolve"],
        not_asked=escape(not_asked(found)),
        **names,
    )
