"""How servers of ours listen, and how much of them a client may take.

Invariant: whoever owes the rest of a request, or does not read an answer, is hung up on after a
bounded time, and a connection too many at once; so neither slow clients nor many of them keep a
server from answering others.
"""

import asyncio
import socket
from typing import Any

from coevolve.core.errors import UserError

BACKLOG = 128
KEEP_S = 5
"""How long a connection is kept on which nothing is asked any more."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections; port 0 is any that is free."""
    six = ":" in host
    family = socket.AF_INET6 if six else socket.AF_INET
    try:  # who connects before the server is ready waits
        return socket.create_server(
            (host, port), family=family, backlog=BACKLOG, dualstack_ipv6=six
        )
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # what follows names the address again
        raise UserError(
            f"cannot listen at {host}:{port}: {reason}; take another --port or --host"
        ) from None


def serve(app: Any, where: socket.socket, most: int, patience_s: float, **settings: Any) -> None:
    """Serve until the process is told to end: so many connections at a time, each of which has so
    many seconds for a whole request, and for taking in what it was answered."""
    import uvicorn
    from h11 import IDLE, SEND_BODY
    from uvicorn.protocols.http.h11_impl import H11Protocol

    OWED = (IDLE, SEND_BODY)

    class Bounded(H11Protocol):
        """A connection with a clock, which runs while the client is the one to act."""

        clock: asyncio.TimerHandle | None = None
        unread = False
        """Whether what was answered waits to be taken in."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.abort()
            else:
                self.wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.transport.get_protocol() is self and self.conn.their_state in OWED:
                self.wait()
            elif not self.unread:
                self.rest()

        def pause_writing(self) -> None:
            super().pause_writing()
            self.unread = True
            self.wait()

        def resume_writing(self) -> None:
            super().resume_writing()
            self.unread = False
            self.rest()

        def connection_lost(self, exc: Exception | None) -> None:
            self.rest()
            super().connection_lost(exc)

        def wait(self) -> None:
            if self.clock is None:
                self.clock = self.loop.call_later(patience_s, self.transport.abort)

        def rest(self) -> None:
            if self.clock is not None:
                self.clock.cancel()
                self.clock = None

    config = uvicorn.Config(
        app, http=Bounded, log_level="error", access_log=False, server_header=False,
        timeout_keep_alive=KEEP_S, timeout_graceful_shutdown=1, **settings,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[where])
