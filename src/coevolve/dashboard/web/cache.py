"""What was worked out once is kept until the run changes.

Invariant: a value is always that of the stamp it was asked with, and worked out by one thread.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

Found = TypeVar("Found")


class Cache:
    """Values by key, the least recently used forgotten first."""

    def __init__(self, most: int, room: int | None = None) -> None:
        """At most so many values; of bytes, at most `room` of them together."""
        self.most, self.room, self.taken = most, room, 0
        self._turn = Lock()
        self._values: OrderedDict[object, tuple[object, Any]] = OrderedDict()
        self._locks: dict[object, Lock] = {}

    def get(self, key: object, stamp: object, make: Callable[[], Found]) -> Found:
        """The value of a key, worked out now unless that was done for this stamp."""
        found: Found
        if (known := self.known(key, stamp)) is None:
            with self._turn:
                lock = self._locks.setdefault(key, Lock())
            with lock:
                if (known := self.known(key, stamp)) is None:
                    try:
                        found = make()
                    except BaseException:  # raised again; a key without a value needs no lock
                        with self._turn:
                            self._locks.pop(key, None)
                        raise
                    self.keep(key, stamp, found)
                    return found
        (found,) = known
        return found

    def known(self, key: object, stamp: object) -> tuple[Any] | None:
        """The value in a tuple, if there is one for this stamp."""
        with self._turn:
            entry = self._values.get(key)
            if entry is None or entry[0] != stamp:
                return None
            self._values.move_to_end(key)
            return (entry[1],)

    def keep(self, key: object, stamp: object, value: Any) -> None:
        with self._turn:
            self.taken += self.size(value) - self.size(self._values.pop(key, (None, b""))[1])
            self._values[key] = stamp, value
            while len(self._values) > self.most or self.taken > (self.room or self.taken):
                gone, (_, old) = self._values.popitem(last=False)
                self._locks.pop(gone, None)
                self.taken -= self.size(old)

    def size(self, value: Any) -> int:
        return len(value) if self.room is not None else 0
