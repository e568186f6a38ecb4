"""`coevolve scorecard`: what backtests predicted, and what came of it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from coevolve.backtests.scorecard import Line, Scorecard
    from coevolve.evaluation.statistics import Rate


def scorecard(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Compare the predictions of backtests with what training showed."""
    from coevolve.backtests.scorecard import scorecard as read
    from coevolve.cli.show import out
    from coevolve.store.ledger import Ledger
    from coevolve.store.lineage import lineage_of

    with Ledger.open(folder) as ledger:
        found = read(lineage_of(ledger))
    if as_json:
        print(json.dumps(found.as_json()))
        return
    if not found.lines:
        out.print(f"no patch of {folder} was backtested", highlight=False, markup=False)
        return
    for table in tables(found):
        out.print(table)


def tables(found: "Scorecard") -> list["Table"]:
    """One line per patch, then one per layer."""
    from coevolve.cli.show import begin_table

    names = ("version", "factor", "metric", "predicted", "moved", "verdict", "result")
    whole = set(names) - {"moved"}
    lines = begin_table(*names, right=["version"], whole=whole, title="backtests")
    for line in found.lines:
        lines.add_row(
            "" if line.version is None else str(line.version), line.factor, line.metric,
            line.predicted,
            moved_words(line),
            line.verdict, line.result if line.passed else "refused",
        )  # fmt: skip
    caption = "95 % Wilson intervals; a coin comes true in half of all cases"
    totals = begin_table("layer", title="predictions that came true", caption=caption)
    for name in ("patches", "refused", "unclear", "hits", "misses", "share", "beyond noise"):
        totals.add_column(name, justify="right")
    for total in found.totals:
        totals.add_row(
            total.layer, str(total.patches), str(total.refused), str(total.unclear),
            str(total.hits.successes), str(total.misses), rate_of(total.hits),
            rate_of(total.sure_hits),
        )  # fmt: skip
    return [lines, totals]


def moved_words(line: "Line") -> str:
    """What became of a patch's metric; empty where it was not measured."""
    from coevolve.dashboard.numbers import reading

    if line.moved is None:
        return ""
    before, after = (reading(value, line.metric, 3) for value in (line.before, line.after))
    return f"{line.moved} {before} → {after}"


def rate_of(rate: "Rate") -> str:
    """A share with its interval and n, or nothing where there is none."""
    from coevolve.cli.show import percent

    return f"{percent(rate)}, n {rate.n}" if rate.n else ""
