"""`coevolve gallery`: faults that pay, put before our loop and one that only looks at the score."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from coevolve.gallery.run import Row

WIDE = 140
"""Characters of a line in a pipe."""


def gallery(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this scenario; repeatable.")
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder of the runs. Finished ones are not run again."),
    ] = Path("runs/gallery"),
    diagnostics: Annotated[
        bool,
        typer.Option(
            help="Let diagnostics block a version. Without them only the clean room can.",
        ),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Test the loop with patches that only seem to help, and with patches that do.

    Each goes through the loop of `coevolve evolve`, with real rollouts, and through a loop that
    keeps whatever raised its score. The exit code is 1 if coevolve keeps a fault or refuses a gain.
    The runs stay in the output folder: `coevolve diagnose runs/gallery/NAME` says why.

    Example: coevolve gallery --only contamination
    """
    from rich.console import Console

    from coevolve.cli.show import PLAIN, notes, out
    from coevolve.core.names import lookup
    from coevolve.gallery.run import SCENARIOS, exhibit

    chosen = [lookup("scenario", name, SCENARIOS) for name in only or SCENARIOS]
    say = partial(notes.print, **PLAIN)
    folder = output if diagnostics else output / "no-diagnostics"
    rows = []
    for number, scenario in enumerate(chosen, 1):
        say(f"{number} of {len(chosen)}: {scenario.name}: {scenario.what}")
        rule = {"blocks": diagnostics}
        rows.append(exhibit(scenario, folder, lambda line: say(f"  {line}"), diagnostic=rule))
    found = totals(rows)
    if as_json:
        print(json.dumps({"rows": [row.as_json() for row in rows], **found}))
    else:
        Console(width=None if out.is_terminal else WIDE).print(table(rows))
        for kind in ("faults", "gains"):
            kept, by_score = found[f"{kind}_kept"], found[f"{kind}_kept_by_score"]
            line = f"{kind} kept: ours {kept}, score only {by_score}, of {found[kind]}"
            out.print(line, highlight=False)
    if not all(row.right for row in rows):
        raise typer.Exit(1)


def totals(rows: "list[Row]") -> dict[str, int]:
    """What both loops did, counted."""
    found = {}
    for kind, fault in (("faults", True), ("gains", False)):
        own = [row for row in rows if row.scenario.fault == fault]
        found[kind] = len(own)
        found[f"{kind}_kept"] = sum(row.ours.kept for row in own)
        found[f"{kind}_kept_by_score"] = sum(row.score.kept for row in own)
    return found


def table(rows: "list[Row]") -> "Table":
    """One line per scenario."""
    from rich.table import Table

    shown = Table(header_style="bold", caption_justify="left", show_lines=True)
    shown.caption = (
        "score: before → after [95 % interval of the change], n. valid: valid rate on gate tasks; "
        "reward: mean on gate tasks by each version's own reward; learned: mean reward of the "
        "rollouts learned from. if trained: what the gate says where the backtest is switched off"
    )
    for name in ("scenario", "score", "score only", "ours", "by", "if trained"):
        shown.add_column(name, overflow="fold")
    shown.add_column("s", justify="right")
    for row in rows:
        colour = "green" if row.right else "bold red"
        shown.add_row(
            f"[bold]{row.scenario.name}[/]\n{row.scenario.what}",
            row.score.words,
            "kept" if row.score.kept else "dropped",
            f"[{colour}]{row.ours.verdict}[/]",
            row.ours.by,
            f"{row.trained.verdict}: {row.trained.by}" if row.trained else "",
            f"{row.seconds:.0f}",
        )
    return shown
