"""Serving a domain: OpenEnv's own routes, and ours for what its messages have no place for.

Invariant: scripts are played only for who knows the token, since the oracle is one of them.
"""

import random
import resource
import secrets
import socket
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI, Header, HTTPException
from fastapi.responses import JSONResponse
from openenv.core.env_server.http_server import create_fastapi_app

from coevolve.core.errors import CoevolveError, UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Message, Value
from coevolve.domains.base import Domain
from coevolve.domains.openenv.declaration import (
    DECLARATION,
    KNOBS,
    SCRIPT,
    STATISTICS,
    USAGE,
    Declaration,
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
        partial(DomainEnvironment, serving), TextAction, TextObservation, sessions,
        env_name=domain.name, state_cls=TextState,
    )  # fmt: skip
    declaration = declare(domain, resources or Resources())

    @app.exception_handler(CoevolveError)
    async def refuse(_request: Any, error: CoevolveError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.get(DECLARATION)
    def declared() -> Declaration:
        return declaration

    @app.post(KNOBS)
    def mended(values: dict[str, float]) -> dict[str, Any]:
        """The problem with some knobs, if there is one, and the nearest without it."""
        known = {**domain.space.defaults(), **values}
        return {"problem": domain.space.rule(known), "nearest": dict(domain.space.project(known))}

    @app.post(STATISTICS)
    def statistics(resets: list[Reset]) -> dict[str, Any]:
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


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections; port 0 is any that is free."""
    six = ":" in host
    family = socket.AF_INET6 if six else socket.AF_INET
    try:  # who connects before the server is ready waits
        return socket.create_server((host, port), family=family, backlog=128, dualstack_ipv6=six)
    except OSError as error:
        raise UserError(f"cannot listen at {host}, port {port}: {error.strerror}") from None


def serve(app: FastAPI, where: socket.socket) -> None:
    """Serve until the process is told to end."""
    settings = uvicorn.Config(app, log_level="warning", ws="websockets-sansio", ws_max_size=2**26)
    uvicorn.Server(settings).run(sockets=[where])
