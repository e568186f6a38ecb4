"""All that pages are made from: the runs, and what was worked out about each.

Invariant: a value is worked out from the disk again whenever the run has changed, and never else.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from coevolve.core.errors import CoevolveError
from coevolve.dashboard.facts import Facts, facts_from
from coevolve.dashboard.record import Record, read_record
from coevolve.dashboard.web.cache import Cache
from coevolve.dashboard.web.folders import Folders, RunFolder
from coevolve.dashboard.web.health import Checkups
from coevolve.dashboard.web.summary import Summary, summary_of
from coevolve.dashboard.web.table import Table

Found = TypeVar("Found")

OPEN = 6
"""Runs whose rollouts are kept in memory."""
WAIT_S = 1.5
"""How long a page waits for rollouts to be counted before it shows that they are not yet."""


class Missing(CoevolveError):
    """There is no such page."""


class Address(NamedTuple):
    """What was asked for."""

    rest: str
    """The part of the address after the page's name."""
    query: Mapping[str, str]
    chosen: tuple[str, ...] = ()
    """Runs that are named in it, as often as there are."""


class Page(NamedTuple):
    """What a page shows: the same for its template and for its JSON twin."""

    template: str
    title: str
    values: dict[str, Any]
    draft: bool = False
    """Still being worked out: not to be kept."""
    csv: bytes | None = None
    """The same as a table, where that was asked for and there is one."""


class Site:
    """The folder of runs, as pages see it."""

    def __init__(self, root: Path) -> None:
        self.folders = Folders(root)
        self.cache = Cache(most=300)
        self.health = Checkups()
        self.tables = Cache(most=OPEN)

    def summary(self, run: RunFolder) -> Summary:
        return self.of(run, "summary", lambda: summary_of(run))

    def facts(self, run: RunFolder) -> Facts:
        return self.of(run, "facts", lambda: facts_from(self.record(run)))

    def record(self, run: RunFolder) -> Record:
        return self.of(run, "record", lambda: read_record(run.folder))

    def of(self, run: RunFolder, what: object, make: Callable[[], Found]) -> Found:
        """A value that follows from what is on the disk of a run."""
        return self.cache.get((run.name, what), self.folders.stamp(run), make)

    def table(self, run: RunFolder) -> Table | None:
        """The rollouts of a run; None while they are being counted."""
        table = self.tables.get(run.name, None, lambda: Table(run.folder))
        stamp = self.folders.stamp(run)
        if table.ready and table.seen == stamp:
            return table
        thread = Thread(target=table.refresh, args=(stamp,), daemon=True)
        thread.start()
        thread.join(WAIT_S)
        return table if table.ready else None

    def is_current(self, run: RunFolder, table: Table | None) -> bool:
        """Whether what was counted is all that there is now."""
        return table is not None and table.seen == self.folders.stamp(run)

    def close(self) -> None:
        self.health.close()
