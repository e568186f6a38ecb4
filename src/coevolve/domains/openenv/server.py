"""Serving a domain: OpenEnv's own routes, and ours for what its messages have no place for.

Invariant: scripts are played only for who knows the token, since the oracle is one of them.
"""

import asyncio
import random
import resource
import secrets
import socket
from functools import partial
from typing import Annotated, Any

from fastapi import Body, FastAPI, Header, HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.types import ConcurrencyConfig

from coevolve.core import server as listening
from coevolve.core.errors import CoevolveError
from coevolve.core.names import lookup
from coevolve.core.rollout import Message, Value
from coevolve.domains.base import Domain
from coevolve.domains.openenv.connection import LONGEST, PATIENCE_S
from coevolve.domains.openenv.declaration import (
    DECLARATION,
    KNOBS,
    SCRIPT,
    STATISTICS,
    USAGE,
    Declaration,
    Number,
    Reset,
    Resources,
    declare,
    token,
)
from coevolve.domains.openenv.environment import (
    DomainEnvironment,
    Serving,
    TextAction,
    TextObservation,
    TextState,
)
from coevolve.domains.turns import players

MOST_RESETS = 20_000
"""Tasks that statistics are asked of at a time."""
IDLE_S = 600.0
"""A session in which nothing is said for so long is over."""
MOST_BESIDE = 64
"""Connections at a time beside those of sessions."""


class Bounded:
    """ASGI middleware that reads requests: one that is too long, or takes too long to come, is
    refused before anything is made of it. A session in which nothing is said ends."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await self.app(scope, partial(self.hear, receive), send)
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, body = await self.read(receive)
        if status:
            await Response(status_code=status)(scope, receive, send)
            return
        whole = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Any:
            return whole.pop() if whole else await receive()

        await self.app(scope, replay, send)

    async def hear(self, receive: Any) -> Any:
        """The next message of a session, or its end."""
        try:
            async with asyncio.timeout(IDLE_S):
                return await receive()
        except TimeoutError:
            return {"type": "websocket.disconnect", "code": 1001}

    async def read(self, receive: Any) -> tuple[int, bytes]:
        """Why a request is refused, 0 if it is not; and its body."""
        body = bytearray()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    part = await receive()
                    body += part.get("body", b"")
                    if len(body) > LONGEST:
                        return 413, b""
                    if not part.get("more_body"):
                        return 0, bytes(body)
        except TimeoutError:
            return 408, b""


class Asked(Value):
    """A turn that a script is to take."""

    script: str
    reset: Reset
    seed: int = 0
    """Of the script's own random numbers."""
    messages: tuple[Message, ...] = ()
    """What was said so far, for scripts of several turns."""


def make_app(domain: Domain, sessions: int = 64, resources: Resources | None = None) -> FastAPI:
    """The application that serves a domain to so many sessions at a time."""
    serving = Serving(domain)
    app: FastAPI = create_fastapi_app(
        partial(DomainEnvironment, serving), TextAction, TextObservation,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=IDLE_S),
        env_name=domain.name, state_cls=TextState,
    )  # fmt: skip
    app.add_middleware(Bounded)
    declaration = declare(domain, resources or Resources())

    @app.exception_handler(CoevolveError)
    async def refuse(_request: Any, error: CoevolveError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(RequestValidationError)
    async def unreadable(_request: Any, error: RequestValidationError) -> JSONResponse:
        """Without what was sent: it may be no JSON."""
        told = [{name: one[name] for name in ("type", "loc", "msg")} for one in error.errors()]
        return JSONResponse({"detail": told[:20]}, 422)

    @app.get(DECLARATION)
    def declared() -> Declaration:
        return declaration

    @app.post(KNOBS)
    def mended(values: dict[str, Number]) -> dict[str, Any]:
        """The problem with some knobs, if there is one, and the nearest without it."""
        known = {**domain.space.defaults(), **values}
        return {"problem": domain.space.rule(known), "nearest": dict(domain.space.project(known))}

    @app.post(STATISTICS)
    def statistics(resets: Annotated[list[Reset], Body(max_length=MOST_RESETS)]) -> dict[str, Any]:
        tasks = [serving.task(reset) for reset in resets]
        with serving.alone:
            return dict(domain.statistics(tasks))

    @app.post(SCRIPT)
    def script(asked: Asked, authorization: str = Header("")) -> dict[str, str]:
        known = token()
        if not known or not secrets.compare_digest(authorization.encode(), known.encode()):
            raise HTTPException(403, "scripts are played only for who knows the server's token")
        return {"text": play(serving, asked)}

    @app.get(USAGE)
    def usage() -> dict[str, float]:
        """The most memory that this process had."""
        return {"memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}

    return app


def play(serving: Serving, asked: Asked) -> str:
    """What a script says."""
    domain, rng = serving.domain, random.Random(asked.seed)
    said = lookup("scripted policy", asked.script, domain.scripts)
    task = serving.task(asked.reset)
    player = players(domain).get(asked.script)
    with serving.alone:
        if player is not None and asked.messages:
            return player(task, rng, asked.messages)
        return said(task, rng, asked.reset.style)


def serve(app: FastAPI, where: socket.socket, sessions: int = 64) -> None:
    """Serve so many sessions until the process is told to end."""
    most = MOST_BESIDE + sessions
    listening.serve(
        app, where, most, PATIENCE_S, ws="websockets-sansio", ws_max_size=LONGEST,
        ws_per_message_deflate=False,
    )  # fmt: skip
