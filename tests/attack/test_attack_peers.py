"""Servers that answer with anything, and clients that send anything.

Whatever a server does to us is an error of ours with its name on it, in bounded time and memory;
whatever a client does to a server of ours is refused, and the next one is served.
"""

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from web import client

from coevolve.core.errors import DomainError, PolicyError
from coevolve.core.rollout import Message
from coevolve.dashboard.web.stream import MOST
from coevolve.domains.openenv import connection
from coevolve.domains.openenv.connection import Address, Full, Line, Refused, ask
from coevolve.domains.openenv.domain import open_server
from coevolve.domains.registry import get_domain
from coevolve.policies.base import Prompt, Sampling
from coevolve.policies.endpoint import EndpointPolicy

Serve = Callable[[socket.socket, bytes], None]


def reply(body: bytes | str, status: str = "200 OK", **headers: str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    given = {"content-length": str(len(data)), "content-type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status}", *(f"{k}: {v}" for k, v in given.items() if v), "", ""]
    return "\r\n".join(lines).encode("latin-1") + data


@contextmanager
def serving(serve: Serve) -> Iterator[tuple[str, list[bytes]]]:
    """A server that reads one request of each connection, and then does as it likes."""
    where = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []
    over = threading.Event()

    def one(line: socket.socket) -> None:
        with line:
            try:
                head = b""
                while b"\r\n\r\n" not in head and (part := line.recv(65_536)):
                    head += part
                asked.append(head)
                serve(line, head)
            except OSError:
                pass

    def all_of_them() -> None:
        while not over.is_set():
            try:
                line, _ = where.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(line,), daemon=True).start()

    threading.Thread(target=all_of_them, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{where.getsockname()[1]}", asked
    finally:
        over.set()
        where.shutdown(socket.SHUT_RDWR)
        where.close()


def sent(*parts: bytes) -> Serve:
    return lambda line, _: [line.sendall(part) for part in parts] and None


def drip(before: bytes, part: bytes) -> Serve:
    def serve(line: socket.socket, _: bytes) -> None:
        line.sendall(before)
        while True:
            line.sendall(part)
            threading.Event().wait(0.02)

    return serve


def flood(before: bytes, part: bytes = b" " * 65_536) -> Serve:
    """As much as the other side takes, but no more than 600 MB."""

    def serve(line: socket.socket, _: bytes) -> None:
        line.sendall(before)
        for _ in range(600_000_000 // len(part)):
            line.sendall(part)

    return serve


OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
BROKEN: dict[str, Serve] = {
    "nothing": sent(),
    "no HTTP": sent(b"\x00\x01\x02\x03\r\n\r\n"),
    "half a status": sent(b"HTTP/1.1 2"),
    "a status that is none": sent(b"HTTP/1.1 abc OK\r\n\r\n{}"),
    "a status of five digits": sent(b"HTTP/1.1 20000 OK\r\n\r\n{}"),
    "a huge status line": sent(b"HTTP/1.1 200 " + b"x" * 200_000 + b"\r\n\r\n{}"),
    "a huge header": sent(OK + b"x: " + b"y" * 200_000 + b"\r\n\r\n{}"),
    "many headers": sent(OK + b"x: y\r\n" * 5_000 + b"\r\n{}"),
    "headers without end": drip(OK, b"x: y\r\n"),
    "a header that drips": drip(OK + b"x: ", b"y"),
    "a body that drips": drip(OK + b"content-length: 9999999\r\n\r\n", b" "),
    "chunks that drip": drip(OK + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "600 MB": flood(OK + b"content-length: 600000000\r\n\r\n"),
    "600 MB without a length": flood(OK + b"\r\n"),
    "600 MB in chunks": flood(
        OK + b"transfer-encoding: chunked\r\n\r\n", b"8000\r\n" + b" " * 32_768 + b"\r\n"
    ),
    "a body that breaks off": sent(OK + b'content-length: 500\r\n\r\n{"a": 1}'),
    "a length that is none": sent(OK + b"content-length: -7\r\n\r\n"),
    "a chunk size that is none": sent(OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n"),
    "a negative chunk": sent(OK + b"transfer-encoding: chunked\r\n\r\n-5\r\n{}"),
    "no JSON": sent(reply("<html>")),
    "half of JSON": sent(reply('{"a": ')),
    "NaN": sent(reply('{"a": NaN}')),
    "Infinity": sent(reply("[Infinity]")),
    "a number too large": sent(reply("[1e999]")),
    "digits without end": sent(reply("[" + "9" * 50_000 + "]")),
    "a nest": sent(reply("[" * 200_000)),
    "a nest of objects": sent(reply('{"a":' * 100_000)),
    "no text": sent(reply(b"\xff\xfe\xfa\xfb")),
    "half characters": sent(reply(b'{"a": "\xed\xa0\x80"}')),
    "half of an escape": sent(reply('{"a": "\\ud800"}')),
    "packed": sent(reply(gzip.compress(b"[0" + b",0" * 900_000), content_encoding="gzip")),
    "another place": sent(reply("", "302 Found", location="http://127.0.0.1:9/")),
    "itself for ever": sent(reply("", "307 Temporary Redirect", location="/schema")),
    "a file": sent(reply("", "301 Moved", location="file:///etc/passwd")),
    "an error of 600 MB": flood(b"HTTP/1.1 500 Oh\r\ncontent-length: 600000000\r\n\r\n"),
    "an error that is no text": sent(reply(b"\xff" * 100, "500 Oh")),
    "an error in a nest": sent(reply("[" * 1_500, "500 Oh")),
    "a teapot": sent(reply("{}", "418 Teapot")),
    "only a continuation": sent(b"HTTP/1.1 100 Continue\r\n\r\n" * 3),
}  # fmt: skip


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", 1.5)
    monkeypatch.setattr(connection, "FREED_S", 0.5)
    monkeypatch.setenv("COEVOLVE_ORACLE_TOKEN", "the-secret-token")


def fails(work: Callable[[], Any], *kinds: type[BaseException]) -> str:
    """Empty if it raises one of these; otherwise what it did."""
    try:
        return f"answered {work()!r:.100}"
    except kinds:
        return ""
    except BaseException as error:
        return f"raised {type(error).__name__}: {error!s:.200}"


@pytest.mark.parametrize("name", BROKEN)
def test_broken_answers(held: Any, name: str) -> None:
    with serving(BROKEN[name]) as (base, _):
        said = fails(lambda: ask(base, "/schema"), DomainError)
    held("peers: answers over HTTP", not said, said)


@pytest.mark.parametrize("status", ["301", "302", "303", "307", "308"])
def test_the_token_stays(held: Any, status: str) -> None:
    with serving(sent(reply('{"text": "stolen"}'))) as (elsewhere, asked):
        away = sent(reply("", f"{status} Moved", location=f"{elsewhere}/script"))
        with serving(away) as (base, heard):
            said = fails(lambda: ask(base, "/script", {"a": 1}, "the-secret-token"), DomainError)
        held("peers: the token", not said and not asked, f"{said} {asked}")
        assert b"the-secret-token" in heard[0]


DECLARED = {
    "name": "x", "summary": "s", "failures": {"wrong": "w"}, "components": {"a": "b"},
    "scripts": ["oracle"], "styles": ["text"],
}  # fmt: skip
WRONG: dict[str, dict[str, Any]] = {
    "a declaration that is a list": {"/domain": []},
    "a declaration that is a number": {"/domain": 7},
    "a declaration without a name": {"/domain": {**DECLARED, "name": ""}},
    "a name of a megabyte": {"/domain": {**DECLARED, "name": "x" * 10**6}},
    "knobs that are none": {"/domain": {**DECLARED, "knobs": [{"name": 1}]}},
    "turns without end": {"/domain": {**DECLARED, "turns": 10**30}},
    "turns below one": {"/domain": {**DECLARED, "turns": -4}},
    "a field that nobody knows": {"/domain": {**DECLARED, "evil": 1}},
    "schemas that are a list": {"/schema": [1]},
    "an action that is a text": {"/schema": {"action": "no"}},
    "properties that are a list": {"/schema": {"action": {"properties": [1]}}},
    "a property that is a text": {"/schema": {"action": {"properties": {"a": "b"}}}},
    "required numbers": {"/schema": {"action": {"required": [{}]}}},
    "metadata that is a list": {"/domain": None, "/metadata": ["x"]},
    "metadata that is a text": {"/domain": None, "/metadata": "x"},
}


def routes(answers: dict[str, Any]) -> Serve:
    def serve(line: socket.socket, head: bytes) -> None:
        route = head.split(b" ", 2)[1].decode()
        found = answers.get(route)
        line.sendall(reply("{}", "404 None") if found is None else reply(json.dumps(found)))

    return serve


@pytest.mark.parametrize("name", WRONG)
def test_wrong_declarations(held: Any, name: str) -> None:
    known = {"/domain": DECLARED, "/schema": {"action": {}}, **WRONG[name]}
    with serving(routes(known)) as (base, _):
        said = fails(lambda: open_server(base), DomainError)
    held("peers: declarations", not said, said)


KNOB = {"name": "k.a", "low": 0, "high": 1, "default": 0.5, "unit": "u", "moves": "m"}
LATER: dict[str, tuple[str, Any]] = {
    "no nearest knobs": ("/knobs", {"problem": None}),
    "knobs as a list": ("/knobs", [1]),
    "other knobs": ("/knobs", {"problem": None, "nearest": {"evil": 1.0}}),
    "knobs of text": ("/knobs", {"problem": None, "nearest": {"k.a": "x"}}),
    "a problem that is a number": ("/knobs", {"problem": 5, "nearest": {"k.a": 1.0}}),
    "a script without text": ("/script", {"words": "x"}),
    "a script as a list": ("/script", ["x"]),
    "a script of numbers": ("/script", {"text": 5}),
    "statistics as a list": ("/statistics", [1]),
    "statistics of three": ("/statistics", {"k.a": [1, 2, 3]}),
    "statistics of text": ("/statistics", {"k.a": ["x", "y"]}),
    "no such route": ("/statistics", None),
}


@pytest.mark.parametrize("name", LATER)
def test_wrong_answers_of_our_own_routes(held: Any, name: str) -> None:
    from coevolve.core.splits import Split
    from coevolve.core.task import Task

    route, answer = LATER[name]
    declared = {**DECLARED, "knobs": [KNOB]}
    known = {"/domain": declared, "/schema": {"action": {}}, route: answer}
    task = Task(id="x-1", domain="x", split=Split.DEV, seed=0, bucket={}, data={"reset": {}})
    with serving(routes(known)) as (base, _):
        domain = open_server(base)
        work: dict[str, Callable[[], Any]] = {
            "/knobs": lambda: domain.space.project({"k.a": 0.7}),
            "/script": lambda: domain.oracle(task),
            "/statistics": lambda: domain.statistics([task]),
        }
        said = fails(work[route], DomainError)
    held("peers: declarations", not said, said)


def good(**data: Any) -> dict[str, Any]:
    return {"type": "observation", "data": {"observation": {}, "reward": 0, "done": False, **data}}


FRAMES: dict[str, Any] = {
    "no JSON": "hello",
    "bytes": b"\xff\x00",
    "bytes of JSON": b"[1]",
    "a number": "7",
    "a list": "[]",
    "null": "null",
    "no type": json.dumps({"data": {}}),
    "no data": json.dumps({"type": "observation"}),
    "data that is a list": json.dumps({"type": "observation", "data": [1]}),
    "data that is null": json.dumps({"type": "observation", "data": None}),
    "an error that is a text": json.dumps({"type": "error", "data": "x"}),
    "an error that is a list": json.dumps({"type": "error", "data": ["x"]}),
    "an error that is null": json.dumps({"type": "error", "data": None}),
    "no observation": json.dumps({"type": "observation", "data": {"done": True}}),
    "an observation of text": json.dumps(good(observation="x")),
    "done that is a text": json.dumps(good(done="yes")),
    "done that is null": json.dumps(good(done=None)),
    "a reward of NaN": json.dumps(good(reward=float("nan"))),
    "a reward of Infinity": json.dumps(good(reward=float("-inf"))),
    "a reward that is a text": json.dumps(good(reward="1")),
    "a reward that is a list": json.dumps(good(reward=[1])),
    "a huge reward": json.dumps(good(reward=10**4_000)),
    "a reward of 1e999": json.dumps(good()).replace('"reward": 0', '"reward": 1e999'),
    "NaN in an observation": json.dumps(good(observation={"a": float("nan")})),
    "a nest": "[" * 100_000,
    "a message of 20 MB": "x" * 20_000_000,
    "nothing": None,
}


@contextmanager
def sessions(frame: Any) -> Iterator[str]:
    """A server of web sockets that answers everything with one frame; None: with nothing."""
    from websockets.sync.server import serve

    def talk(line: Any) -> None:
        for _ in line:
            if callable(frame):
                frame(line)
            elif frame is not None:
                line.send(frame)

    with serve(talk, "127.0.0.1", 0, max_size=2**26) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()


@pytest.mark.parametrize("name", FRAMES)
def test_broken_frames(held: Any, name: str) -> None:
    with sessions(FRAMES[name]) as base:
        line = Line(Address(base, {}))
        try:
            said = fails(lambda: line.reset({"seed": 1}), DomainError, Refused)
        finally:
            line.close()
    held("peers: frames", not said, said)


ENDS: dict[str, Callable[[Any], Any]] = {
    "closed": lambda line: line.close(),
    "closed with a code": lambda line: line.close(1011, "x" * 100),
    "cut off": lambda line: line.socket.shutdown(socket.SHUT_RDWR),
    "no frame": lambda line: line.socket.sendall(b"\xff\xff\xff\xff"),
    "a frame with reserved bits": lambda line: line.socket.sendall(b"\xf1\x01x"),
    "a frame of 2^62 bytes": lambda line: line.socket.sendall(b"\x81\x7f\x3f" + b"\xff" * 7),
    "a masked frame": lambda line: line.socket.sendall(b"\x81\x81\x00\x00\x00\x00x"),
    "text that is none": lambda line: line.socket.sendall(b"\x81\x02\xff\xfe"),
    "a fragment that never ends": lambda line: line.socket.sendall(b"\x01\x01x"),
    "a continuation of nothing": lambda line: line.socket.sendall(b"\x80\x01x"),
    "a ping of 200 bytes": lambda line: line.socket.sendall(b"\x89\x7e\x00\xc8" + b"x" * 200),
    "pings and nothing else": lambda line: line.socket.sendall(b"\x89\x00" * 500),
}


@pytest.mark.parametrize("name", ENDS)
def test_sessions_that_break(held: Any, name: str) -> None:
    with sessions(ENDS[name]) as base:
        line = Line(Address(base, {}))
        try:
            said = fails(lambda: line.reset({"seed": 1}), DomainError)
        finally:
            line.close()
    held("peers: frames", not said, said)


@pytest.mark.parametrize(
    "name", ["nothing", "no HTTP", "a huge header", "a header that drips", "another place",
             "itself for ever", "no JSON", "packed", "600 MB without a length"],
)  # fmt: skip
def test_sessions_that_do_not_open(held: Any, name: str) -> None:
    with serving(BROKEN[name]) as (base, asked):
        said = fails(lambda: Line(Address(base, {})), DomainError)
        held("peers: sessions", not said and len(asked) == 1, f"{said} {len(asked)}")


def test_a_late_answer_is_nobody_elses(held: Any) -> None:
    with sessions(None) as base:
        line = Line(Address(base, {}))
        assert not fails(lambda: line.reset({}), DomainError)
        said = fails(lambda: line.step({}), DomainError)
    held("peers: sessions", not said, said)


def test_a_full_server_is_told_from_a_broken_one() -> None:
    full = json.dumps({"type": "error", "data": {"code": "CAPACITY_REACHED"}})
    with sessions(full) as base, pytest.raises(Full):
        Line(Address(base, {})).reset({})


# --- an OpenAI-compatible address


def chat(**choice: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "hi"}
    return {"choices": [{"message": message, "finish_reason": "stop", **choice}]}


SPOKEN: dict[str, Serve] = {
    **BROKEN,
    "a bomb": sent(reply(gzip.compress(b" " * 60_000_000, 1), content_encoding="gzip")),
    "packed twice": sent(reply(gzip.compress(b"{}"), content_encoding="gzip, gzip")),
    "an unknown packing": sent(reply("{}", content_encoding="br")),
    "no choices": sent(reply(json.dumps({"choices": []}))),
    "choices that are a text": sent(reply(json.dumps({"choices": "x"}))),
    "a message that is a list": sent(reply(json.dumps(chat(message=[1])))),
    "content that is a number": sent(reply(json.dumps(chat(message={"content": 5})))),
    "a charset that packs": sent(reply("oh", "500 Oh", content_type="text/plain; charset=zip")),
    "a charset that is none": sent(reply("oh", "400 Oh", content_type="text/plain; charset=\x22x")),
    "wait till the end of time": sent(reply("{}", "429 Wait", retry_after="9" * 400)),
    "wait since the first day": sent(
        reply("{}", "429 Wait", retry_after="Mon, 01 Jan 0001 00:00:00 +2359")
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SPOKEN)
def test_broken_completions(held: Any, name: str) -> None:
    with serving(SPOKEN[name]) as (base, asked):
        policy = EndpointPolicy(
            f"{base}/v1", "m", api_key="the-secret-key", timeout_s=1.5, retries=1,
            backoff_s=0.0, backoff_cap_s=0.01,
        )  # fmt: skip
        prompt = Prompt((Message(role="user", content="x"),), None, 0)
        said = fails(lambda: policy.answer([prompt], Sampling(max_tokens=9)), PolicyError)
        policy.close()
    held("peers: endpoints", not said and len(asked) < 12, f"{said} {len(asked)}")


@pytest.mark.parametrize("status", ["301", "302", "307", "308"])
def test_neither_key_nor_prompt_follows(held: Any, status: str) -> None:
    with serving(sent(reply(json.dumps(chat())))) as (elsewhere, asked):
        to = f"{elsewhere}/v1/chat/completions"
        with serving(sent(reply("", f"{status} Moved", location=to))) as (base, _):
            policy = EndpointPolicy(f"{base}/v1", "m", api_key="k", retries=0, timeout_s=5)
            prompt = Prompt((Message(role="user", content="x"),), None, 0)
            said = fails(lambda: policy.answer([prompt], Sampling()), PolicyError)
            policy.close()
        held("peers: the token", not said and not asked, f"{said} {asked}")


ODD: dict[str, dict[str, Any]] = {
    "tokens beyond count": {**chat(), "usage": {"prompt_tokens": 10**400}},
    "tokens below nothing": {**chat(), "usage": {"prompt_tokens": -5}},
    "tokens of text": {**chat(), "usage": {"prompt_tokens": "many"}},
    "usage as a list": {**chat(), "usage": [1]},
    "a log-probability beyond count": chat(logprobs={"content": [{"logprob": 10**400}]}),
    "a log-probability of NaN": chat(logprobs={"content": [{"logprob": float("nan")}]}),
    "a probability beyond one": chat(logprobs={"content": [{"prob": 10**400}]}),
    "half a character": chat(message={"content": "\ud800"}),
    "a reason that is a list": chat(finish_reason=[1]),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_completions_are_read_as_far_as_they_go(held: Any, name: str) -> None:
    with serving(sent(reply(json.dumps(ODD[name])))) as (base, _):
        policy = EndpointPolicy(f"{base}/v1", "m", price_in=1.0, retries=0, timeout_s=20)
        prompt = Prompt((Message(role="user", content="x"),), None, 0)
        (found,) = policy.answer([prompt], Sampling())
        policy.close()
    sane = 0 <= found.prompt_tokens <= 10**9 and not found.logprobs
    held("peers: endpoints", sane and policy.usage.cost < 1e4, found)


def test_room_that_shrinks_for_ever(held: Any) -> None:
    count = iter(range(4_000, 0, -1))

    def less(line: socket.socket, _: bytes) -> None:
        words = f"context length is {next(count)} tokens, 0 in the messages"
        line.sendall(reply(json.dumps({"error": words}), "400 Bad"))

    with serving(less) as (base, asked):
        policy = EndpointPolicy(f"{base}/v1", "m", retries=1, timeout_s=20, backoff_s=0.0)
        prompt = Prompt((Message(role="user", content="x"),), None, 0)
        said = fails(lambda: policy.answer([prompt], Sampling(max_tokens=4_096)), PolicyError)
        policy.close()
    held("peers: endpoints", not said and len(asked) < 12, f"{said} after {len(asked)}")


# --- servers of ours

BODIES: dict[str, tuple[str, str, bytes]] = {
    "20 MB of knobs": ("POST", "/knobs", b" " * 20_000_000),
    "a nest of knobs": ("POST", "/knobs", b"[" * 100_000),
    "knobs of NaN": ("POST", "/knobs", b'{"a": NaN}'),
    "knobs of text": ("POST", "/knobs", b'{"a": "x"}'),
    "knobs as a list": ("POST", "/knobs", b"[1]"),
    "no JSON": ("POST", "/statistics", b"\xff\xfe"),
    "too many tasks": ("POST", "/statistics", b"[" + b"{}," * 20_001 + b"{}]"),
    "a split that is none": ("POST", "/statistics", b'[{"split": "secret"}]'),
    "a script without the token": ("POST", "/script", b'{"script": "oracle", "reset": {}}'),
    "a script with half of it": ("POST", "/script", b'{"script": "oracle"}'),
    "a reset of nonsense": ("POST", "/reset", b'{"seed": "x"}'),
    "a step of nothing": ("POST", "/step", b"{}"),
    "a route that is none": ("GET", "/../../etc/passwd", b""),
}


@pytest.fixture(scope="module")
def math_served() -> Any:
    from fastapi.testclient import TestClient

    from coevolve.domains.openenv.server import make_app

    return TestClient(make_app(get_domain("math")), raise_server_exceptions=False)


@pytest.mark.parametrize("name", BODIES)
def test_what_clients_send(held: Any, math_served: Any, name: str) -> None:
    web, (method, route, body) = math_served, BODIES[name]
    found = web.request(method, route, content=body, headers={"content-type": "application/json"})
    held("peers: clients", 400 <= found.status_code < 500, f"{found.status_code} {found.text:.200}")
    assert web.get("/domain").status_code == 200


def test_a_request_that_drips_is_given_up(held: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from coevolve.domains.openenv import server

    monkeypatch.setattr(server, "PATIENCE_S", 0.05)

    async def never() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b" ", "more_body": True}

    status, _ = asyncio.run(server.Bounded(None).read(never))
    held("peers: clients", status == 408, status)


def test_a_burst_of_listeners(held: Any, tmp_path: Any) -> None:
    """All requests come before any answer has begun."""
    app = client(tmp_path).app
    streams = app.dashboard.streams
    statuses: list[int] = []
    over = asyncio.Event()

    async def one() -> None:
        scope = {
            "type": "http", "method": "GET", "path": "/live", "raw_path": b"/live", "headers": [
                (b"host", b"localhost")], "query_string": b"", "scheme": "http",
            "http_version": "1.1", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
            "root_path": "", "asgi": {"version": "3.0", "spec_version": "2.3"},
        }  # fmt: skip

        async def receive() -> dict[str, Any]:
            await over.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        await app(scope, receive, send)

    async def burst() -> int:
        tasks = [asyncio.ensure_future(one()) for _ in range(600)]
        while len(statuses) < 600:
            await asyncio.sleep(0.01)
        open_then = streams.open
        over.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        return open_then

    open_then = asyncio.run(burst())
    held("peers: the dashboard", statuses.count(200) == MOST == open_then, statuses.count(200))
    held("peers: the dashboard", statuses.count(503) == 600 - MOST, statuses.count(503))
    held("peers: the dashboard", streams.open == 0, streams.open)
