"""Reading what lies at an address that nobody here answers for.

Invariant: an answer is whole, no longer than was asked for, and came within its time; anything
else is an error. A server sends us elsewhere only where that is allowed.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

Allow = Callable[[str, str], bool]
"""Whether a server at one address may send us to another."""


def stay(_here: str, _there: str) -> bool:
    """Nobody is followed elsewhere: not with a token, and not with a task."""
    return False


@contextmanager
def patient(patience_s: float, allow: Allow = stay) -> Iterator[Any]:
    """What opens addresses, and whose connections all end when the time is up: a timeout of a
    socket alone begins again with every byte."""
    known: list[socket.socket] = []
    late = threading.Event()

    def hang_up() -> None:
        late.set()
        for one in known:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    class Plain(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            known.append(self.sock)

    class Secure(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            known.append(self.sock)

    class OpenPlain(HTTPHandler):
        def http_open(self, req: Request) -> HTTPResponse:
            return self.do_open(Plain, req)

    class OpenSecure(HTTPSHandler):
        def https_open(self, req: Request) -> HTTPResponse:
            return self.do_open(Secure, req)

    class Follow(HTTPRedirectHandler):
        def redirect_request(self, req: Request, *how: Any) -> Request | None:
            return super().redirect_request(req, *how) if allow(req.full_url, how[-1]) else None

    clock = threading.Timer(patience_s, hang_up)
    clock.daemon = True
    clock.start()
    try:
        yield build_opener(Follow, OpenPlain, OpenSecure)
    except (OSError, HTTPException, ValueError):
        if late.is_set():  # whatever broke, broke because of that
            raise TimeoutError(f"no whole answer in {patience_s:g} s") from None
        raise
    finally:
        clock.cancel()


def whole(answer: Any, most: int) -> bytes | None:
    """All bytes of an answer, None if they are too many."""
    found: bytes = answer.read(most + 1)
    if len(found) > most:
        return None
    if getattr(answer, "length", None):  # `read` of so many bytes is content with fewer
        raise HTTPException("the answer broke off")
    return found
