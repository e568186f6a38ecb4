"""What commands print: tables and progress on a terminal, nothing but data in a pipe."""

import math
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from rich.console import Console, ConsoleDimensions
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from coevolve.evaluation.clusters import Estimate
from coevolve.evaluation.statistics import Rate

Item = TypeVar("Item")

WIDE = 1_000
"""Columns of what is no terminal: nothing is folded there, so that lines can be searched."""


class Screen(Console):
    """A terminal, or a file or pipe, which has no edge."""

    @property
    def size(self) -> ConsoleDimensions:
        fixed = self.is_terminal or "COLUMNS" in os.environ
        return super().size if fixed else ConsoleDimensions(WIDE, 25)

    @size.setter
    def size(self, new: tuple[int, int]) -> None:
        self._width, self._height = new


out = Screen()
notes = Screen(stderr=True)
"""Progress and remarks go to standard error, so that standard output can be piped."""
PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
"""For lines with paths and words of others, which nothing may fold, colour or swallow."""
MINUTE = 60.0
"""So often, in seconds, progress is told where no bar can move."""


def progress(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Pass items on, with a bar on standard error, or a line a minute where that is no terminal."""
    if notes.is_terminal:
        columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=notes, transient=True) as bar:
            yield from bar.track(items, total, description=label)
        return
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
    """Minutes and seconds, and hours before them."""
    minutes, whole = divmod(math.ceil(seconds), 60)
    hours = f"{minutes // 60}:{minutes % 60:02d}" if minutes >= 60 else str(minutes)
    return f"{hours}:{whole:02d}"


def show_finding(state: str, name: str, message: str) -> None:
    """What a check came to: green where that is good, red where it is bad."""
    fine, open_ = ("pass", "ok"), ("missing", "skip", "doubt")
    word = state.strip()
    colour = "green" if word in fine else "yellow" if word in open_ else "red"
    out.print(f"[{colour}]{state}[/]  {name}: {escape(message)}", highlight=False)


def metric_words(metrics: Mapping[str, float], forms: Mapping[str, str]) -> list[str]:
    """Those metrics of a step that are known, each in its form."""
    return [form.format(metrics[name]) for name, form in forms.items() if name in metrics]


def visible(text: str) -> str:
    """Text whose control characters are spelled out: a terminal would obey them."""
    return "".join(
        mark if mark.isprintable() or mark in "\n\t" else ascii(mark)[1:-1] for mark in text
    )


def begin_table(
    *names: str, right: Collection[str] = (), whole: Collection[str] = (), **settings: Any
) -> Table:
    """An empty table with these columns, title and caption at the left; numbers stand at the
    `right`, and neither they nor what is `whole` is folded."""
    table = Table(header_style="bold", title_justify="left", caption_justify="left", **settings)
    for name in names:
        justify: Literal["right", "left"] = "right" if name in right else "left"
        table.add_column(name, justify=justify, no_wrap=name in right or name in whole)
    return table


def percent(rate: "Rate | Estimate") -> str:
    """An estimate with its interval, in percent."""
    return f"{100 * rate.value:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
