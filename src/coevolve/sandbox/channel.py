"""Messages to and from a worker: nothing that it does or leaves undone can keep us waiting.

What goes in is trusted by the worker; what comes out is bytes of a stated length and no more.
"""

import marshal
import os
import select
import struct
import time
from typing import Any

SIZE = struct.Struct(">I")


class Gone(Exception):
    """The other side is dead or talks nonsense."""


class Late(Exception):
    """The other side took too long."""


class Channel:
    """Two pipes, read and written with a deadline."""

    def __init__(self, inward: int, outward: int) -> None:
        self.inward, self.outward = inward, outward
        os.set_blocking(inward, False)
        os.set_blocking(outward, False)

    def send(self, message: dict[str, Any], deadline: float) -> None:
        """Pass a message in, before a time of the monotonic clock."""
        data = marshal.dumps(message)
        self.write(SIZE.pack(len(data)) + data, deadline)

    def write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            wait(self.inward, select.POLLOUT, deadline)
            try:
                view = view[os.write(self.inward, view) :]
            except BlockingIOError:
                continue
            except OSError:
                raise Gone from None

    def receive(self, most: int, deadline: float) -> bytes:
        """The next message, of `most` bytes at the most."""
        size = SIZE.unpack(self.exactly(SIZE.size, deadline))[0]
        if size > most:
            raise Gone
        return self.exactly(size, deadline)

    def exactly(self, count: int, deadline: float) -> bytes:
        parts = []
        while count:
            wait(self.outward, select.POLLIN, deadline)
            try:
                part = os.read(self.outward, min(count, 1 << 20))
            except BlockingIOError:
                continue
            if not part:
                raise Gone
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def wait(file: int, event: int, deadline: float) -> None:
    """Until a file is ready; raises at the deadline."""
    poll = select.poll()
    poll.register(file, event)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise Late
