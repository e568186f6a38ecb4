"""All that pages are made from: the runs, and what was worked out about each.

Invariant: a value is worked out from the disk again whenever the run has changed, and never else.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple, TypeVar

from coevolve.core.errors import CoevolveError
from coevolve.dashboard.facts import Facts, facts_of
from coevolve.dashboard.record import Record, read_record
from coevolve.dashboard.web.asking import Asking
from coevolve.dashboard.web.counted import Counted
from coevolve.dashboard.web.glance import Glance, glance_of
from coevolve.dashboard.web.kept import Kept
from coevolve.dashboard.web.pictures import Pictures
from coevolve.dashboard.web.places import Place, Places

Found = TypeVar("Found")

OPEN = 6
"""Runs whose rollouts are kept in memory."""
WAIT_S = 1.5
"""How long a page waits for rollouts to be counted before it shows that they are not yet."""


class Missing(CoevolveError):
    """There is no such page."""


class Address(NamedTuple):
    """What was asked for."""

    run: Place | None
    rest: str
    """The part of the address after the page's name."""
    query: Mapping[str, str]


class Page(NamedTuple):
    """What a page shows: the same for its template and for its JSON twin."""

    template: str
    title: str
    values: dict[str, Any]
    draft: bool = False
    """Still being worked out: not to be kept."""


class Site:
    """The folder of runs, as pages see it."""

    def __init__(self, root: Path) -> None:
        self.places = Places(root)
        self.kept = Kept(most=300)
        self.asking = Asking()
        self._turn = Lock()
        self._counted: OrderedDict[str, Counted] = OrderedDict()

    def glance(self, place: Place) -> Glance:
        return self.of(place, "glance", lambda: glance_of(place))

    def facts(self, place: Place) -> Facts:
        return self.of(place, "facts", lambda: facts_of(place.folder))

    def record(self, place: Place) -> Record:
        return self.of(place, "record", lambda: read_record(place.folder))

    def pictures(self, place: Place) -> Pictures:
        return self.of(place, "pictures", lambda: Pictures(self.record(place)))

    def of(self, place: Place, what: object, make: Callable[[], Found]) -> Found:
        """A value that follows from what is on the disk of a run."""
        return self.kept.get((place.name, what), self.places.stamp(place), make)

    def counted(self, place: Place) -> Counted | None:
        """The rollouts of a run; None while they are being counted."""
        with self._turn:
            counted = self._counted.get(place.name)
            if counted is None:
                counted = self._counted[place.name] = Counted(place.folder)
            self._counted.move_to_end(place.name)
            while len(self._counted) > OPEN:
                self._counted.popitem(last=False)
        stamp = self.places.stamp(place)
        if counted.ready and counted.seen == stamp:
            return counted
        thread = Thread(target=counted.refresh, args=(stamp,), daemon=True)
        thread.start()
        thread.join(WAIT_S)
        return counted if counted.ready else None

    def is_current(self, place: Place, counted: Counted | None) -> bool:
        """Whether what was counted is all that there is now."""
        return counted is not None and counted.seen == self.places.stamp(place)

    def close(self) -> None:
        self.asking.close()
