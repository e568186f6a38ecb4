"""What `coevolve compare` shows: the plan, and the one table. Every estimate carries n."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.table import Table

from coevolve import __version__
from coevolve.cli.show import notes, out
from coevolve.cluster.comparing import Outcome
from coevolve.core.files import replace_file
from coevolve.evaluation.arms import Row, table
from coevolve.evaluation.seeds import Change, Mean
from coevolve.harness.comparison import (
    SHIPPED,
    UNTRAINED,
    Comparison,
    expected,
    load_comparison,
)

FILE, PICTURE = "comparison.json", "comparison.png"


def show_shipped(as_json: bool) -> None:
    """Every comparison that comes with the package."""
    found = {name: load_comparison(name, {}) for name in sorted(SHIPPED)}
    if as_json:
        print(json.dumps({name: one.model_dump(mode="json") for name, one in found.items()}))
        return
    for name, one in found.items():
        about = SHIPPED[name].read_text("utf-8").splitlines()[0].lstrip("# ")
        out.print(f"[bold]{name}[/bold]: {about}", highlight=False)
        out.print(f"  arms: {', '.join(one.arms)}", highlight=False)


def show_plan(comparison: Comparison, as_json: bool) -> None:
    """Arms, and the rollouts that each takes with one seed."""
    arms = {job.arm: (job, expected(job)) for job in comparison.jobs()}
    total = sum(sum(counts) for _, counts in arms.values()) * len(comparison.seeds)
    if as_json:
        counted = {arm: counts._asdict() for arm, (_, counts) in arms.items()}
        facts = {"rollouts_per_seed": counted, "rollouts": total}
        print(json.dumps({**comparison.model_dump(mode="json"), **facts}))
        return
    shown = Table("arm", "engineers", "changes", title=comparison.name, title_justify="left")
    for name in ("train", "probe, at most", "measure"):
        shown.add_column(name, justify="right", no_wrap=True)
    for arm, (job, counts) in arms.items():
        changes = {k: v for k, v in comparison.arms.get(arm, {}).items() if k != "engineers"}
        engineers = ", ".join(job.experiment.engineers) if job.trains else "-"
        words = json.dumps(changes) if changes else ""
        shown.add_row(arm, engineers, words, *(f"{count:,}" for count in counts))
    seeds = ", ".join(map(str, comparison.seeds))
    shown.caption = f"rollouts per seed; seeds {seeds}; {total:,} rollouts in all"
    shown.caption_justify = "left"
    out.print(shown)


def report(
    comparison: Comparison, outcome: Outcome, folder: Path, command: str, as_json: bool
) -> None:
    """The table, its data and its picture."""
    rows = table(outcome.results, comparison.reference)
    facts = as_object(comparison, outcome, rows, command)
    replace_file(folder / FILE, (json.dumps(facts, indent=1) + "\n").encode("utf-8"))
    if as_json:
        print(json.dumps(facts))
    elif rows:
        out.print(as_table(comparison, rows))
        for result in outcome.results:
            if result.ended != "done":
                out.print(f"{result.job.name} ended early: {result.ended}", highlight=False)
    arms = [row for row in rows if row.arm != UNTRAINED]
    if arms and find_spec("matplotlib") is not None:
        from coevolve.evaluation.forest import draw_forest

        title = f"{comparison.name}: {len(arms)} arms"
        draw_forest(rows, title, comparison.reference, comparison.tasks, folder / PICTURE)
        notes.print(f"drew {folder / PICTURE}; all numbers are in {folder / FILE}")


def as_object(
    comparison: Comparison, outcome: Outcome, rows: list[Row], command: str
) -> dict[str, Any]:
    """Everything measured, as plain JSON values."""
    return {
        "command": command,
        "coevolve": __version__,
        "comparison": comparison.model_dump(mode="json"),
        "reference": comparison.reference,
        "table": [row.as_json() for row in rows],
        "failures": outcome.failures,
        "results": [
            {
                **result.model_dump(mode="json", exclude={"job", "valid", "optimal"}),
                "arm": result.job.arm,
                "seed": result.job.seed,
                "valid": [int(one) for one in result.valid],
                "optimal": [int(one) for one in result.optimal],
            }
            for result in outcome.results
        ],
    }


def as_table(comparison: Comparison, rows: list[Row]) -> Table:
    """One line per arm, best first."""
    reference = comparison.reference
    shown = Table(title=comparison.name, title_justify="left", header_style="bold")
    shown.add_column("arm", no_wrap=True)
    for name in ("seeds", "valid %", "optimal %", f"valid - {reference}", "p", "calls", "taken",
                 "reverted", "rollouts", "tokens", "time", "cost"):  # fmt: skip
        shown.add_column(name, justify="right", no_wrap=name not in ("rollouts",))
    for row in rows:
        shown.add_row(*cells(row), style="dim" if row.arm == UNTRAINED else "")
    over = rows[0].valid.over
    how = (
        "95 % Student intervals over seeds; differences paired by seed"
        if over == "seeds"
        else "95 % intervals over tasks (Wilson; paired bootstrap, sign test): several seeds tell "
        "more"
    )
    shown.caption = (
        f"{comparison.tasks} fresh dev tasks per seed; {how}; * p < 0.05 after Holm's correction. "
        "Calls to the last are means per seed; rollouts: train + probe."
    )
    shown.caption_justify = "left"
    return shown


def cells(row: Row) -> list[str]:
    """The cells of a line."""
    totals, change = row.totals, row.valid_change
    star = "*" if row.p_holm is not None and row.p_holm < 0.05 else ""
    untrained = row.arm == UNTRAINED
    acts = [f"{totals[name]:.3g}" for name in ("calls", "taken", "reverted")]
    rollouts = f"{totals['train_rollouts']:,.0f} + {totals['probe_rollouts']:,.0f}"
    return [
        row.arm,
        str(len(row.seeds)),
        in_percent(row.valid),
        in_percent(row.optimal),
        in_percent(change, "+") if change else "-",
        f"{change.p:.2g}{star}" if change else "-",
        *(["-"] * 3 if untrained else acts),
        "-" if untrained else rollouts,
        "-" if untrained else f"{totals['tokens'] / 1000:,.0f}k",
        f"{totals['seconds']:.0f} s",
        f"{totals['money']:.2f}" if totals["money"] else "0",
    ]


def in_percent(estimate: Mean | Change, sign: str = "") -> str:
    """An estimate with its interval, in percent."""
    value, low, high = (100 * part for part in estimate[:3])
    return f"{value:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"
