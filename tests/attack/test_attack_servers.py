"""Clients that are slow, silent, greedy or many, and registries that send anything.

Whoever keeps a server of ours waiting is hung up on within the time that it was given, and whoever
asks properly meanwhile is answered.
"""

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_attack_peers import BROKEN, reply, sent, serving

from coevolve.domains.swe import fetch
from coevolve.domains.swe.fetch import RegistryError

PATIENCE_S, IDLE_S, MOST = 0.9, 2.0, 24
LATE_S = 20.0
"""Beyond what was given; machines may be busy."""
DASHBOARD = f"""
import sys
from pathlib import Path
from coevolve.core.server import listen, serve
from coevolve.dashboard.web.app import make_app
where = listen("127.0.0.1", 0)
print(where.getsockname()[1], flush=True)
serve(make_app(Path(sys.argv[1])), where, {MOST}, {PATIENCE_S}, ws="none")
"""
DOMAIN = f"""
from coevolve.core.server import listen
from coevolve.domains.openenv import server
from coevolve.domains.registry import get_domain
server.PATIENCE_S, server.IDLE_S, server.MOST_BESIDE = {PATIENCE_S}, {IDLE_S}, {MOST - 4}
where = listen("127.0.0.1", 0)
print(where.getsockname()[1], flush=True)
server.serve(server.make_app(get_domain("math"), 4), where, 4)
"""


class Server:
    """One of ours, in a process of its own."""

    def __init__(self, script: str, folder: Path, page: str, large: str) -> None:
        self.page, self.large = page, large
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def open(self, room: int = 0) -> socket.socket:
        line = socket.socket()
        if room:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        line.settimeout(60)
        line.connect(("127.0.0.1", self.port))
        return line

    def answers(self) -> bool:
        """Whether somebody who asks properly is served."""
        with self.open() as line:
            line.sendall(f"GET {self.page} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            return line.recv(12) == b"HTTP/1.1 200"

    @property
    def mib(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) / 1024


@contextmanager
def started(script: str, folder: Path, page: str, large: str) -> Iterator[Server]:
    server = Server(script, folder, page, large)
    try:
        assert server.answers()
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


KINDS = {
    "dashboard": (DASHBOARD, "/", "/"),
    "domain": (DOMAIN, "/domain", "/openapi.json"),
}


@pytest.fixture(
    scope="module", params=["dashboard", pytest.param("domain", marks=pytest.mark.slow)]
)
def server(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Server]:
    pytest.importorskip("openenv" if request.param == "domain" else "fastapi")
    script, *pages = KINDS[request.param]
    with started(script, tmp_path_factory.mktemp("runs"), *pages) as found:
        yield found


def hung_up(line: socket.socket, part: bytes = b"") -> float:
    """Seconds until the other side closes, while a part is sent again and again."""
    began = time.monotonic()
    line.settimeout(0.1)
    while time.monotonic() - began < PATIENCE_S + LATE_S:
        try:
            if part:
                line.sendall(part)
            if not line.recv(65_536):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - began


HEAD = b"POST /knobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
SLOW: dict[str, tuple[bytes, bytes]] = {
    "says nothing": (b"", b""),
    "half a request line": (b"GET / HT", b""),
    "a request line that drips": (b"GET /", b"x"),
    "headers without end": (b"GET / HTTP/1.1\r\n", b"x: y\r\n"),
    "a header that drips": (b"GET / HTTP/1.1\r\nx: ", b"y"),
    "no last line": (b"GET / HTTP/1.1\r\nhost: localhost\r\n", b""),
    "half a body": (HEAD + b"content-length: 1000\r\n\r\n{", b""),
    "a body that drips": (HEAD + b"content-length: 100000\r\n\r\n", b" "),
    "chunks that drip": (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "a chunk that never comes": (HEAD + b"transfer-encoding: chunked\r\n\r\nff\r\n", b""),
    "waits to be told to go on": (HEAD + b"expect: 100-continue\r\ncontent-length: 9\r\n\r\n", b""),
    "one request, then half": (b"GET /x HTTP/1.1\r\nhost: localhost\r\n\r\nGET /", b""),
    "nothing but empty lines": (b"", b"\r\n"),
}


def kept(server: Server, words: tuple[bytes, bytes, bytes]) -> float:
    """Seconds that a client is put up with who shakes hands, begins, and then goes on so."""
    hands, first, part = words
    with server.open() as line:
        line.sendall(hands)
        if hands:
            assert b" 101 " in line.recv(4_096)
        line.sendall(first)
        return hung_up(line, part)


def kept_at_once(server: Server, every: list[tuple[bytes, bytes, bytes]]) -> list[float]:
    with ThreadPoolExecutor(len(every)) as pool:
        found = pool.map(partial(kept, server), every)
        assert server.answers()
        return list(found)


def test_slow_clients_are_hung_up_on(held: Any, server: Server) -> None:
    found = kept_at_once(server, [(b"", *one) for one in SLOW.values()])
    for name, took in zip(SLOW, found, strict=True):
        held("servers: slow clients", took < PATIENCE_S + LATE_S, f"{name}: {took:.1f} s")
    held("servers: others are served", server.answers())


LONG: dict[str, bytes] = {
    "a header of 10 MB": b"GET / HTTP/1.1\r\nx: " + b"y" * 10_000_000,
    "a request line of 10 MB": b"GET /" + b"x" * 10_000_000,
    "a million headers": b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 1_000_000,
    "no HTTP": b"\x16\x03\x01" + os.urandom(1_000),
    "a body of 40 MB": HEAD + b"content-length: 40000000\r\n\r\n" + b" " * 40_000_000,
    "a chunk of 40 MB": HEAD + b"transfer-encoding: chunked\r\n\r\n2625a00\r\n" + b" " * 40_000_000,
    "a length below nothing": HEAD + b"content-length: -1\r\n\r\n",
    "two lengths": HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\nxx",
    "a thousand requests at once": b"GET /none HTTP/1.1\r\nhost: localhost\r\n\r\n" * 1_000,
}


@pytest.mark.parametrize("name", LONG)
def test_greedy_clients_take_little(held: Any, server: Server, name: str) -> None:
    before = server.mib
    with server.open() as line:
        with suppress(OSError):  # it may have hung up already
            line.sendall(LONG[name])
        took = hung_up(line)
    grown = server.mib - before
    held("servers: greedy clients", took < PATIENCE_S + LATE_S and grown < 80, f"{grown:.0f} MiB")
    held("servers: others are served", server.answers(), name)


def test_an_answer_that_nobody_reads(held: Any, server: Server) -> None:
    with server.open(room=4_096) as line:
        line.settimeout(1.0)
        asked = f"GET {server.large} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
        with suppress(OSError):  # until neither side takes any more
            for _ in range(20_000):
                line.sendall(asked)
        over = select.poll()
        over.register(line, 0)  # that it has ended is told in any case
        gone = over.poll(1_000 * (PATIENCE_S + LATE_S))
    held("servers: slow clients", gone)
    held("servers: others are served", server.answers())


def test_too_many_connections(held: Any, server: Server) -> None:
    before = server.mib
    with ExitStack() as stack:
        lines = [stack.enter_context(server.open()) for _ in range(300)]
        took = [hung_up(line) for line in lines[-5:]]
        held("servers: many clients", max(took) < PATIENCE_S + LATE_S, took)
        while not answers_soon(server):
            pass
        grown = server.mib - before
        held("servers: many clients", grown < 50, f"{grown:.0f} MiB")
        held("servers: many clients", max(map(hung_up, lines)) < PATIENCE_S + LATE_S)


def answers_soon(server: Server) -> bool:
    """Whether it answers now; where all its connections are taken it hangs up at once."""
    try:
        return server.answers()
    except OSError:
        time.sleep(0.1)
        return False


@pytest.fixture(scope="module")
def domain(tmp_path_factory: Any) -> Iterator[Server]:
    pytest.importorskip("openenv")
    with started(DOMAIN, tmp_path_factory.mktemp("runs"), *KINDS["domain"][1:]) as found:
        yield found


@pytest.mark.slow
def test_sessions_in_which_nothing_is_said_end(held: Any, domain: Server) -> None:
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    address = f"ws://127.0.0.1:{domain.port}/ws"
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(address, open_timeout=60)) for _ in range(4)]
        for one in idle:
            with pytest.raises(ConnectionClosed):
                one.recv(timeout=IDLE_S + LATE_S)
            held("servers: idle sessions", True)
        line = stack.enter_context(connect(address, open_timeout=60))
        for _ in range(4):  # longer than a request may take
            line.send(json.dumps({"type": "reset", "data": {"seed": 1}}))
            said = json.loads(line.recv(timeout=60))
            held("servers: idle sessions", said["type"] == "observation", said)
            time.sleep(PATIENCE_S / 3)


HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
FRAMES: dict[str, tuple[bytes, bytes]] = {
    "nothing": (b"", b""),
    "half a frame": (b"\x81\xfe\x7f", b""),
    "a frame that drips": (b"\x81\xfe\xff\xff\x00\x00\x00\x00", b"x"),
    "a frame of 2^62 bytes": (b"\x81\xff\x3f" + b"\xff" * 7 + b"\x00" * 4, b"x"),
    "fragments without end": (b"\x01\x81\x00\x00\x00\x00x", b"\x00\x81\x00\x00\x00\x00x"),
    "pings and nothing else": (b"", b"\x89\x80\x00\x00\x00\x00"),
    "frames that are not masked": (b"\x81\x01x", b""),
}


@pytest.mark.slow
def test_sessions_that_never_say_anything_whole(held: Any, domain: Server) -> None:
    found = kept_at_once(domain, [(HANDSHAKE, *one) for one in FRAMES.values()])
    for name, took in zip(FRAMES, found, strict=True):
        held("servers: idle sessions", took < IDLE_S + LATE_S, f"{name}: {took:.1f} s")
    held("servers: others are served", domain.answers())


# --- registries


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    monkeypatch.setattr(fetch, "PATIENCE_S", 0.5)
    monkeypatch.setattr(fetch, "LARGEST", 1 << 20)
    monkeypatch.setattr(fetch, "LARGEST_PAGE", 1 << 20)
    monkeypatch.setattr(fetch, "cache_root", lambda: tmp_path)
    return lambda *places: monkeypatch.setattr(fetch, "indexes", lambda: places)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_registries(held: Any, impatient: Any, name: str) -> None:
    with serving(BROKEN[name]) as (base, _):
        impatient(base)
        try:
            said: Any = fetch.find("thing", "1.0")
        except RegistryError as error:
            said = error
    held("servers: registries", isinstance(said, RegistryError) and "\n" not in str(said), said)


def page(*links: str) -> bytes:
    return reply("".join(f'<a href="{one}">x</a>' for one in links), content_type="text/html")


def elsewhere(tmp_path: Path) -> str:
    """A file of this machine that nobody should be given as a package."""
    file = tmp_path / "thing-1.0.tar.gz"
    file.write_bytes(b"secret")
    return file.as_uri()


@pytest.mark.parametrize("kind", ["file", "ftp", "data", "http://[", "javascript", "//"])
def test_links_that_lead_elsewhere(held: Any, impatient: Any, tmp_path: Path, kind: str) -> None:
    links = {
        "file": elsewhere(tmp_path), "ftp": "ftp://127.0.0.1:9/thing-1.0.tar.gz",
        "data": "data:text/plain,thing-1.0.tar.gz", "http://[": "http://[/thing-1.0.tar.gz",
        "javascript": "javascript:thing-1.0.tar.gz", "//": "gopher://x/thing-1.0.tar.gz",
    }  # fmt: skip
    with serving(sent(page(links[kind]))) as (base, _):
        impatient(base)
        with pytest.raises(RegistryError) as got:
            fetch.fetch("thing", "1.0")
    held("servers: registries", "no sdist" in str(got.value), got.value)


@pytest.mark.parametrize(
    ("here", "there", "may"),
    [
        ("https://a/x", "https://b/y", True), ("https://a/x", "http://a/y", False),
        ("http://a/x", "http://b/y", True), ("http://a/x", "https://b/y", True),
        ("https://a/x", "file:///etc/passwd", False), ("http://a/x", "ftp://a/y", False),
        ("file:///a/x", "file:///a/y", True), ("file:///a/x", "http://a/y", False),
    ],
)  # fmt: skip
def test_where_a_registry_may_lead(held: Any, here: str, there: str, may: bool) -> None:
    held("servers: registries", fetch.may_lead(here, there) == may)


def test_a_package_that_breaks_off_is_not_kept(held: Any, impatient: Any, tmp_path: Path) -> None:
    half = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nhalf of it"

    def serve(line: socket.socket, head: bytes) -> None:
        line.sendall(half if b".tar.gz" in head else page("thing-1.0.tar.gz"))

    with serving(serve) as (base, _):
        impatient(base)
        with pytest.raises(RegistryError):
            fetch.fetch("thing", "1.0")
    held("servers: registries", not list(tmp_path.rglob("*.tar.gz")))


def test_a_registry_may_send_on(held: Any, impatient: Any) -> None:
    with serving(sent(page("thing-1.0.tar.gz#sha256=ab"))) as (there, _):
        away = sent(reply("", "301 Moved", location=f"{there}/simple/thing/"))
        with serving(away) as (base, _):
            impatient(base)
            address, stated, ending = fetch.find("thing", "1.0")
    held("servers: registries", (stated, ending) == ("ab", ".tar.gz") and address.startswith(base))
