"""Telling browsers that a run has changed, as server-sent events.

Invariant: an event carries no content; a page that hears one asks for itself again. It says which
state of the run it shows, so nothing is missed between its making and its listening.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from hashlib import sha256

LOOK_S = 1.0
BEAT = 15
"""Looks without a change after which a line is sent, so that lost connections are noticed."""
MOST = 100
"""Browsers that may listen at once."""


def seen_of(stamp: object) -> str:
    """A short name for a state of what is on the disk."""
    return sha256(repr(stamp).encode("utf-8", "replace")).hexdigest()[:16]


class Streams:
    """All connections that are being told."""

    def __init__(self) -> None:
        self.open = 0

    def enter(self) -> bool:
        """Count a listener, if there is room for one; who enters must `leave`."""
        if self.open >= MOST:
            return False
        self.open += 1
        return True

    def leave(self) -> None:
        self.open -= 1

    async def follow(self, stamp: Callable[[], object], seen: str = "") -> AsyncIterator[bytes]:
        """A line at once, then one for every change from the state that was `seen`."""
        yield b"retry: 2000\n\nevent: hello\ndata: 0\n\n"
        changes = quiet = 0
        while True:
            now = seen_of(await asyncio.to_thread(stamp))
            if seen and now != seen:
                changes, quiet = changes + 1, 0
                yield f"event: changed\ndata: {changes}\n\n".encode()
            elif (quiet := quiet + 1) % BEAT == 0:
                yield b": still here\n\n"
            seen = now
            await asyncio.sleep(LOOK_S)
