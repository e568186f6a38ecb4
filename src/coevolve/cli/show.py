"""What commands print: tables and progress on a terminal, nothing but data in a pipe."""

import math
import time
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
PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
"""For lines with paths and words of others, which nothing may fold, colour or swallow."""
MINUTE = 60.0
"""So often, in seconds, progress is told where no bar can move."""


def progress(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Pass items on, with a bar on standard error, or a line a minute where that is no terminal."""
    if not notes.is_terminal:
        yield from _told(items, total, label)
        return
    columns: tuple[Any, ...] = (
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=notes, transient=True) as bar:
        task = bar.add_task(label, total=total)
        for item in items:
            yield item
            bar.advance(task)


def _told(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    began = said = time.monotonic()
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - said >= MINUTE:
            said = now
            ahead = (now - began) * (total - done) / done
            left = f" of {total:,}, {clock(ahead)} left" if total > done else ""
            notes.print(f"{label}: {done:,}{left}", **PLAIN)


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    whole = math.ceil(seconds)
    return (
        f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
        if whole >= 3600
        else (f"{whole // 60}:{whole % 60:02d}")
    )


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
