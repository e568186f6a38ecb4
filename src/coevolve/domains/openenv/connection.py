"""Speaking to an OpenEnv server: plain questions over HTTP, episodes over web sockets.

Written against the protocol rather than its client library, which takes seconds to import.
Invariant: whatever a server does wrong is a `DomainError` that names its address, after a bounded
time and with a bounded part of its answer in memory; nobody is followed to another address.
"""

import json
import math
import re
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from http.client import HTTPException
from typing import Any, NamedTuple, NoReturn, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request

from pydantic import TypeAdapter, ValidationError

from coevolve.core.errors import DomainError, UserError
from coevolve.core.web import patient, whole
from coevolve.domains.registry import read_options, read_value

try:
    from websockets.exceptions import ConnectionClosed, WebSocketException
    from websockets.protocol import State
    from websockets.sync.client import connect
except ImportError:
    raise UserError("servers need websockets: pip install 'coevolve[openenv]'") from None

BROKEN = (WebSocketException, OSError, EOFError)
PATIENCE_S = 120.0
"""Until a server that has not answered in full is given up."""
FREED_S, PAUSE_S = 10.0, 0.1
"""How long a server may take to notice that a session has ended, and how often it is asked."""
LONGEST = 2**24
"""Bytes of an answer."""
MOST = 1e9
"""A reward cannot be greater."""
HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Characters that may lack their other half."""
FULL = "CAPACITY_REACHED"
DURATION = re.compile(r"\b[0-9]+(?:\.[0-9]+)? ?(?:s|ms|seconds)\b")


class Full(Exception):
    """The server takes no more sessions."""


class Refused(Exception):
    """The server took the message but not what it says."""


class Step(NamedTuple):
    """What a server answers to a reset or an action."""

    observation: dict[str, Any]
    reward: float | None
    done: bool


def timeless(value: Any) -> Any:
    """JSON values without durations, which programs that an episode runs like to print."""
    return json.loads(DURATION.sub("0s", json.dumps(value)))


class Address(NamedTuple):
    """Where a server is, and arguments that every reset gets."""

    base: str
    arguments: dict[str, Any]


def read_address(text: str) -> Address:
    """`http://host:8000?name=value`: values are JSON where they can be read as such."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UserError(f"'{text}' is not the address of a server; write openenv:http://HOST:PORT")
    base = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    return Address(base, read_options(parts.query))


def ask(base: str, route: str, body: Any = None, token: str = "") -> Any:
    """What a route answers, None where the server has no such route."""
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    if token:
        headers["Authorization"] = token
    data = None if body is None else json.dumps(body).encode()
    where = base + route
    try:
        with patient(PATIENCE_S) as opener:
            found = exchanged(opener, Request(where, data, headers), where)
        return None if found is None else parsed(found)
    except (OSError, HTTPException) as error:  # `URLError` and timeouts among them
        said = getattr(error, "reason", error)
        raise DomainError(
            f"no server answers at {base} ({said!s:.200}); start one with "
            "`coevolve serve-domain NAME`, or correct the address"
        ) from None
    except (ValueError, RecursionError) as error:
        raise DomainError(f"{where} did not answer with JSON: {error!s:.100}") from None


def exchanged(opener: Any, request: Request, where: str) -> bytes | None:
    """What a request brings, None where there is no such route."""
    try:
        with opener.open(request, timeout=PATIENCE_S) as answer:
            found = whole(answer, LONGEST)
            if found is None:
                raise DomainError(f"{where} answers with more than {LONGEST:,} bytes")
            return found
    except HTTPError as error:
        with error:
            said = error.read(2_000)
        if error.code in (404, 405):
            return None
        if 300 <= error.code < 400:
            to = f"{error.headers.get('Location', '')!s:.200}"
            raise DomainError(f"{where} redirects to {to}; give that address instead") from None
        raise DomainError(f"{where} refused ({error.code}): {reason(said)}") from None


def parsed(text: bytes | str) -> Any:
    """JSON values whose numbers are numbers and whose texts can be written; a `ValueError` or
    `RecursionError` otherwise."""
    text = text.decode() if isinstance(text, bytes) else text
    found = json.loads(text, parse_constant=no_number, parse_float=finite)
    if HALF.search(text):
        json.dumps(found, ensure_ascii=False).encode()
    return found


def no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else no_number(digits[:20])


Told = TypeVar("Told")


def told(kind: TypeAdapter[Told], value: Any, where: str) -> Told:
    """What a server says, if it is of the kind that was asked for."""
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))[:100] or "the whole"
        words = f"{where} answers with what it should not: {place}: {first['msg']}"
        raise DomainError(words) from None


def reason(body: bytes) -> str:
    found = read_value(body.decode("utf-8", "replace"))
    detail = found.get("detail", found) if isinstance(found, dict) else found
    return f"{detail}"[:300]


class Line:
    """A web socket to a server: one session, with one episode at a time."""

    def __init__(self, address: Address) -> None:
        self.address, self.open = address, ExitStack()  # websockets wants to be entered
        sessions, parts = f"ws{address.base.removeprefix('http')}/ws", urlsplit(address.base)
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            # A socket that is there already can be sent nowhere else.
            where = socket.create_connection((parts.hostname or "", port), PATIENCE_S)
            self.socket = self.open.enter_context(
                connect(
                    sessions,
                    sock=where,
                    max_size=LONGEST,
                    max_queue=1,
                    open_timeout=PATIENCE_S,
                    close_timeout=FREED_S,
                    compression=None,
                )
            )
        except (*BROKEN, ValueError) as error:
            raise DomainError(f"cannot open a session at {address.base}: {error!s:.200}") from None
        self.owner: object = None
        """Whose episode it is in."""

    def reset(self, arguments: Mapping[str, Any]) -> Step:
        return self.step_of(self.exchange("reset", {**self.address.arguments, **arguments}))

    def step(self, action: Mapping[str, Any]) -> Step:
        return self.step_of(self.exchange("step", dict(action)))

    def exchange(self, kind: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a message and take the answer to it."""
        message = {"type": kind} if data is None else {"type": kind, "data": data}
        try:
            with suppress(ConnectionClosed):  # by a server that is full; it has said so
                self.socket.send(json.dumps(message))
            answer = parsed(self.socket.recv(timeout=PATIENCE_S))
            given, value = answer["type"], answer["data"]
        except BROKEN as error:
            self.close()  # what comes too late must not be taken for the answer to something else
            words = f"the session at {self.address.base} broke off: {error!s:.200}"
            raise DomainError(words) from None
        except (ValueError, KeyError, TypeError, RecursionError):
            given, value = "", None
        if not isinstance(value, dict):
            self.close()
            raise DomainError(f"{self.address.base} does not speak OpenEnv's protocol")
        if given == "error":
            if value.get("code") == FULL:
                raise Full
            raise Refused(f"{value.get('message')} {value.get('errors') or ''}".strip()[:300])
        return value

    def step_of(self, data: dict[str, Any]) -> Step:
        observation = data.get("observation")
        if not isinstance(observation, dict) or not isinstance(data.get("done"), bool):
            raise DomainError(f"{self.address.base} sent no observation: {str(data)[:100]}")
        reward = data.get("reward")
        if reward is not None and not (isinstance(reward, int | float) and abs(reward) <= MOST):
            raise DomainError(
                f"{self.address.base} sent a reward that is not a number: {str(reward)[:60]}"
            )
        return Step(observation, reward, data["done"])

    def close(self) -> None:
        self.open.close()


class Lines:
    """All sessions with one server, as many as are needed or as it takes.

    A server may take only one, and a line may break while nothing is said. So a line whose episode
    waits for its next turn can be taken by another episode, and one that is broken is given up;
    the turns of an episode without a line are played again when it goes on (`Play`).
    """

    def __init__(self, address: Address, most: int = 64) -> None:
        self.address, self.most = address, most
        self.lines: list[Line] = []
        self.waited_s = 0.0

    def take(self, owner: object) -> Line:
        """A line for an episode: its own, a free one, a new one, or the one unused longest."""
        for broken in [line for line in self.lines if line.socket.state is not State.OPEN]:
            self.lines.remove(broken)
            broken.close()
        line = next((line for line in self.lines if line.owner is owner), None)
        line = line or next((line for line in self.lines if line.owner is None), None)
        if line is None and len(self.lines) < self.most:
            line = Line(self.address)
            self.lines.append(line)
        line = line or self.lines[0]
        self.lines.remove(line)
        self.lines.append(line)
        return line

    def lost(self, line: Line) -> None:
        """A line that the server did not want: there are no more than the others."""
        self.lines.remove(line)
        line.close()
        if self.lines:
            self.most = len(self.lines)
            return
        self.waited_s += PAUSE_S  # it may only be slow to notice that a session has ended
        if self.waited_s > FREED_S:
            raise DomainError(f"{self.address.base} has no free session")
        time.sleep(PAUSE_S)

    def close(self) -> None:
        while self.lines:
            self.lines.pop().close()


class Play:
    """An episode at a server: what it was begun with, and all actions so far."""

    def __init__(self, lines: Lines, arguments: Mapping[str, Any]) -> None:
        self.lines, self.arguments = lines, dict(arguments)
        self.actions: list[dict[str, Any]] = []
        self.steps: list[Step] = []
        self.first = Step({}, None, False)

    @property
    def over(self) -> bool:
        return bool(self.steps) and self.steps[-1].done

    def begin(self) -> Step:
        self.on_line()
        return self.first

    def step(self, action: Mapping[str, Any]) -> Step:
        """Act. An action that the server refuses is as if it had not been."""
        line = self.on_line()
        found = line.step(action)
        self.actions.append(dict(action))
        self.steps.append(found)
        if found.done:
            line.owner = None
        return found

    def on_line(self) -> Line:
        """A line on which this episode is where it was left."""
        while True:
            line = self.lines.take(self)
            try:
                if line.owner is not self:
                    self.again(line)
                return line
            except Full:
                self.lines.lost(line)

    def again(self, line: Line) -> None:
        """Begin, and play all turns again that were played before."""
        line.owner = None
        self.first = line.reset(self.arguments)
        for action, before in zip(self.actions, self.steps, strict=True):
            if timeless(line.step(action)) != timeless(before):
                raise DomainError(
                    f"an episode that had to be played again at {self.lines.address.base} went "
                    "another way; serve it with more sessions"
                )
        line.owner = self

    def end(self) -> None:
        for line in self.lines.lines:
            if line.owner is self:
                line.owner = None
