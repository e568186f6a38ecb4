"""What commands print: tables and progress on a terminal, nothing but data in a pipe."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from coevolve.evaluation.statistics import Rate
from coevolve.evaluation.tally import Summary

Item = TypeVar("Item")

out = Console()
notes = Console(stderr=True)
"""Progress and remarks go to standard error, so that standard output can be piped."""


def progress(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Pass items on, with a bar on standard error where that is a terminal."""
    columns: tuple[Any, ...] = (
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        for item in items:
            yield item
            bar.advance(task)


def visible(text: str) -> str:
    """Text whose control characters are spelled out: a terminal would obey them."""
    return "".join(
        mark if mark.isprintable() or mark in "\n\t" else ascii(mark)[1:-1] for mark in text
    )


def percent(rate: Rate) -> str:
    """A rate with its interval, in percent."""
    return f"{100 * rate.value:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"


def rates(title: str, key: str, rows: list[tuple[str, Summary]]) -> Table:
    """One line per group: n, valid and optimal rate with 95 % intervals, commonest failures."""
    table = Table(title=title, title_justify="left", header_style="bold", caption_justify="left")
    table.caption = "95 % Wilson intervals"
    table.add_column(key)
    for name in ("n", "valid %", "optimal %"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("failures")
    for label, summary in rows:
        failures = ", ".join(f"{name} {count}" for name, count in summary.failures.items())
        table.add_row(
            label, str(summary.valid.n), percent(summary.valid), percent(summary.optimal), failures
        )
    return table
