"""Telling browsers that a run has changed, as server-sent events.

Invariant: an event carries no content; a page that hears one asks for itself again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

LOOK_S = 1.0
BEAT = 15
"""Looks without a change after which a line is sent, so that lost connections are noticed."""
MOST = 100
"""Browsers that may listen at once."""


class Streams:
    """All connections that are being told."""

    def __init__(self) -> None:
        self.open = 0

    @property
    def full(self) -> bool:
        return self.open >= MOST

    async def follow(self, stamp: Callable[[], object]) -> AsyncIterator[bytes]:
        """A line at once, then one for every change."""
        self.open += 1
        try:
            seen = await asyncio.to_thread(stamp)
            yield b"retry: 2000\n\nevent: hello\ndata: 0\n\n"
            changes = quiet = 0
            while True:
                await asyncio.sleep(LOOK_S)
                now = await asyncio.to_thread(stamp)
                if now != seen:
                    seen, changes, quiet = now, changes + 1, 0
                    yield f"event: changed\ndata: {changes}\n\n".encode()
                elif (quiet := quiet + 1) % BEAT == 0:
                    yield b": still here\n\n"
        finally:
            self.open -= 1
