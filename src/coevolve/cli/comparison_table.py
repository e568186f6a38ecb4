"""What `coevolve compare` shows: the plan, and the one table. Every estimate carries n."""

import json
import re
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import HEAVY_HEAD, SIMPLE, Box
from rich.console import Console
from rich.table import Table

from coevolve import __version__
from coevolve.cli.show import PLAIN, begin_table, clock, notes, out
from coevolve.core.files import replace_file
from coevolve.evaluation.arms import Row, table, unequal
from coevolve.evaluation.seeds import Change, Mean, chance
from coevolve.harness.comparison import (
    SHIPPED,
    UNTRAINED,
    Comparison,
    expected,
    load_comparison,
    unpaid,
)
from coevolve.store.payload import flat

if TYPE_CHECKING:
    from coevolve.cluster.compare import Outcome

FILE, PICTURE = "comparison.json", "comparison.png"


def show_shipped(as_json: bool) -> None:
    """Every comparison that comes with the package."""
    found = {name: load_comparison(name, {}) for name in sorted(SHIPPED)}
    if as_json:
        print(json.dumps({name: one.model_dump(mode="json") for name, one in found.items()}))
        return
    for name, one in found.items():
        out.print(f"[bold]{name}[/bold]: {about(SHIPPED[name])}", highlight=False)
        out.print(f"  arms: {', '.join(one.arms)}", highlight=False)


def about(file: Path) -> str:
    """The first sentence of the remarks that a comparison begins with."""
    lines = takewhile(lambda line: line.startswith("#"), file.read_text("utf-8").splitlines())
    return re.split(r"(?<=[.?]) ", " ".join(line.lstrip("# ") for line in lines))[0]


def show_plan(comparison: Comparison, as_json: bool) -> None:
    """Arms, and the rollouts that each takes with one seed."""
    arms = {job.arm: (job, expected(job)) for job in comparison.jobs()}
    total = sum(sum(counts) for _, counts in arms.values()) * len(comparison.seeds)
    if as_json:
        counted = {arm: counts._asdict() for arm, (_, counts) in arms.items()}
        facts = {"rollouts_per_seed": counted, "rollouts": total}
        print(json.dumps({**comparison.model_dump(mode="json"), **facts}))
        return
    seeds = ", ".join(map(str, comparison.seeds))
    rest = f", and the tasks of {comparison.final}" if comparison.final else ""
    caption = f"rollouts per seed{rest}; seeds {seeds}; {total:,} rollouts in all"
    numbers = ("train", "probe \u2264", "measure")
    shown = begin_table(
        "arm", "engineers", "changes", *numbers, right=numbers, whole=["arm"],
        title=comparison.name, caption=caption,
    )  # fmt: skip
    for arm, (job, counts) in arms.items():
        changes = {k: v for k, v in comparison.arms.get(arm, {}).items() if k != "engineers"}
        words = ", ".join(f"{name} {json.dumps(value)}" for name, value in flat(changes).items())
        engineers = ", ".join(job.plan.engineers) if job.trains else "-"
        shown.add_row(arm, engineers, words, *(f"{count:,}" for count in counts))
    out.print(shown)
    if line := unpaid(comparison):
        out.print(f"beware: {line}", **PLAIN)


def begin(comparison: Comparison, folder: Path, command: str) -> None:
    """The data before there are any, so that whoever looks meanwhile knows what is compared."""
    from coevolve.cluster.compare import Outcome

    if not (folder / FILE).exists():
        write(folder, as_object(comparison, Outcome([], {}), [], command))


def write(folder: Path, facts: dict[str, Any]) -> None:
    replace_file(folder / FILE, (json.dumps(facts, indent=1) + "\n").encode("utf-8"))


def report(
    comparison: Comparison, outcome: "Outcome", folder: Path, command: str, as_json: bool
) -> None:
    """The table, its data and its picture."""
    rows = table(outcome.results, comparison.reference)
    facts = as_object(comparison, outcome, rows, command)
    write(folder, facts)
    if as_json:
        print(json.dumps(facts))
    elif rows:
        show_table(comparison, rows)
        for line in warnings(rows, comparison.equal):
            out.print(line, **PLAIN)
        if comparison.by:
            show_kinds(comparison, rows)
        for result in outcome.results:
            if result.ended != "done":
                out.print(f"{result.job.name} ended early: {result.ended}", **PLAIN)
    arms = [row for row in rows if row.arm != UNTRAINED]
    if arms and find_spec("matplotlib") is not None:
        from coevolve.evaluation.forest import draw_forest

        title = f"{comparison.name}: {len(arms)} arms"
        draw_forest(rows, title, comparison.reference, folder / PICTURE)
        notes.print(f"drew {folder / PICTURE}", **PLAIN)
    notes.print(f"all numbers are in {folder / FILE}", **PLAIN)


def as_object(
    comparison: Comparison, outcome: "Outcome", rows: list[Row], command: str
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
                "valid": [round(one, 4) for one in result.valid],
                "optimal": [round(one, 4) for one in result.optimal],
            }
            for result in outcome.results
        ],
    }


RESULT = ("seeds", "valid %", "optimal %", "valid - {reference}", "p", "optimal - {reference}")
EFFORT = (
    "calls", "unusable", "taken", "reverted", "trained", "probed", "train tokens", "tokens", "time",
    "cost",
)  # fmt: skip
MEANS = "From calls on: means per seed; unusable counts proposals, trained and probed rollouts."


def show_table(comparison: Comparison, rows: list[Row]) -> None:
    """One line per arm, best first, in one table, or in two where the terminal is narrow."""
    whole = part(comparison, rows, (*RESULT, *EFFORT), f"{how(rows)} {MEANS}")
    needed = Console(width=1_000).measure(whole).maximum
    if out.is_terminal and out.width < needed:
        out.print(part(comparison, rows, RESULT, how(rows), SIMPLE))
        out.print(part(comparison, rows, EFFORT, MEANS, SIMPLE))
    else:
        Console(width=max(needed, out.width)).print(whole)


def part(
    comparison: Comparison,
    rows: list[Row],
    names: Sequence[str],
    caption: str,
    box: Box = HEAVY_HEAD,
) -> Table:
    """Some columns of the table; in a simple box, intervals stand below their means."""
    titles = [name.format(reference=comparison.reference) for name in names]
    shown = begin_table(
        "arm", *titles, right=titles, whole=["arm"], title=comparison.name, caption=caption,
        box=box, padding=(0, 0) if box is SIMPLE else (0, 1),
    )  # fmt: skip
    for row in rows:
        found = [cells(row)[name] for name in names]
        if box is SIMPLE:
            found = [text.replace(" [", "\n[") for text in found]
        shown.add_row(row.arm, *found, style="dim" if row.arm == UNTRAINED else "")
    return shown


def warnings(rows: Sequence[Row], equal: str = "rollouts") -> list[str]:
    """What fell in an arm, though something else may have risen; and who trained on less."""
    fell = [
        f"beware: {row.arm}, beside {name}: {fall.words}"
        for row in rows
        for name, found in row.falls.items()
        for fall in found
    ]
    return fell + [f"beware: {words}" for words in unequal(rows, equal)]


def show_kinds(comparison: Comparison, rows: list[Row]) -> None:
    """Every arm by the labels of the tasks: valid, and below it optimal."""
    names = sorted({name for row in rows for name in row.kinds}, key=natural)
    arms, title = [row.arm for row in rows], f"by {', '.join(comparison.by)}"
    caption = "valid %, and below it optimal %"
    shown = begin_table(
        "tasks", *arms, right=arms, whole=["tasks"], title=title, caption=caption, box=SIMPLE
    )
    for name in names:
        found = [row.kinds.get(name) for row in rows]
        n = next(one[2] for one in found if one)
        cells = [f"{in_percent(one[0])}\n{in_percent(one[1])}" if one else "-" for one in found]
        shown.add_row(f"{name} ({n})", *cells)
    Console(width=max(Console(width=1_000).measure(shown).maximum, out.width)).print(shown)


def natural(name: str) -> list[tuple[int, float, str]]:
    """Words and numbers in the order that people expect."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(0, float(one), "") if one[:1].isdigit() else (1, 0.0, one) for one in parts]


OVER = {
    "seeds": "seeds (Student), differences paired by seed",
    "tasks": "tasks (Wilson; paired bootstrap, sign test): more seeds tell more",
}


def how(rows: list[Row]) -> str:
    """What the intervals are, and of how many."""
    found = {row.valid.over for row in rows}
    words = "; of one seed, over ".join(text for over, text in OVER.items() if over in found)
    return (
        f"{rows[0].tasks} tasks per seed; 95 % intervals over {words}; * p < 0.05 after "
        "Holm's correction; p is of the valid rate."
    )


def cells(row: Row) -> dict[str, str]:
    """An arm's line, by column."""
    totals, change = row.totals, row.valid_change
    star = "*" if row.p_holm is not None and row.p_holm < 0.05 else ""
    return {
        "seeds": row.counted,
        "valid %": in_percent(row.valid),
        "optimal %": in_percent(row.optimal),
        "valid - {reference}": in_percent(change, "+") if change else "-",
        "p": f"{chance(change.p)}{star}" if change else "-",
        "optimal - {reference}": in_percent(row.optimal_change, "+") if row.optimal_change else "-",
        "calls": f"{totals['calls']:.3g}",
        "unusable": f"{totals['unusable']:.3g}",
        "taken": f"{totals['taken']:.3g}",
        "reverted": f"{totals['reverted']:.3g}",
        "trained": f"{totals['train_rollouts']:,.0f}",
        "probed": f"{totals['probe_rollouts']:,.0f}",
        "train tokens": f"{totals['train_tokens'] / 1000:,.0f}k",
        "tokens": f"{totals['tokens'] / 1000:,.0f}k",
        "time": clock(totals["seconds"]),
        "cost": f"{totals['money']:.2f}",
    }


def in_percent(estimate: Mean | Change, sign: str = "") -> str:
    """An estimate with its interval, in percent."""
    value, low, high = (100 * part for part in estimate[:3])
    return f"{value:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"
