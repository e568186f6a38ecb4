"""Who may ask, and what a browser may do with the answer.

On this machine's own address everybody may look; any other address needs a token. Invariant: no
request that a page of another site could have caused changes anything: the session's cookie is not
sent from there, its form's token is not known there, and its origin is named.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlencode

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "coevolve"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""Nothing is loaded but what is served here, and nothing written inline is run or styles."""
LOCAL = ("localhost", "127.0.0.1", "[::1]")


class Session(NamedTuple):
    """A browser that was let in."""

    value: str
    """What its cookie holds."""
    form: str
    """What its forms must send along."""


class Guard:
    """ASGI middleware around the pages; `scope["session"]` tells them whose request it is."""

    def __init__(self, app: App, token: str = "", hosts: tuple[str, ...] = LOCAL) -> None:
        self.app, self.token, self.hosts = app, token, hosts
        self.secret = secrets.token_bytes(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from fastapi import Request
        from fastapi.responses import PlainTextResponse, RedirectResponse

        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        headers = request.headers
        if not self.token and host_of(headers.get("host", "")) not in self.hosts:
            words = "This dashboard answers to the name localhost only.\n"
            await PlainTextResponse(words, 421, HEADERS)(scope, receive, send)
            return
        session, known = self.session_of(request.cookies.get(COOKIE, ""))
        if self.token and not known:
            query = dict(request.query_params)
            bearer = headers.get("authorization", "").removeprefix("Bearer ")
            if same(query.pop("token", ""), self.token):
                # The same page without the token; two slashes would lead to another host.
                place = (
                    "/" + scope["path"].lstrip("/\\") + (f"?{urlencode(query)}" if query else "")
                )
                given = {**HEADERS, "set-cookie": self.cookie(session)}
                await RedirectResponse(place, 303, given)(scope, receive, send)
                return
            if not same(bearer, self.token):
                words = "Open the address with ?token=..., as `coevolve serve` printed it.\n"
                await PlainTextResponse(words, 401, HEADERS)(scope, receive, send)
                return
        scope["session"] = session

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                given += [(n.encode(), v.encode()) for n, v in HEADERS.items()]
                if not known:
                    given.append((b"set-cookie", self.cookie(session).encode()))
                message = {**message, "headers": given}
            await send(message)

        await self.app(scope, receive, guarded)

    def session_of(self, cookie: str) -> tuple[Session, bool]:
        """The session of a cookie of ours, or a new one; and whether it is an old one."""
        nonce, _, mark = cookie.partition(".")
        if same(mark, self.sign("session", nonce)):
            return Session(cookie, self.sign("form", nonce)), True
        nonce = secrets.token_urlsafe(18)
        return Session(f"{nonce}.{self.sign('session', nonce)}", self.sign("form", nonce)), False

    def sign(self, use: str, nonce: str) -> str:
        return hmac.new(self.secret, f"{use}:{nonce}".encode(), sha256).hexdigest()

    def cookie(self, session: Session) -> str:
        return f"{COOKIE}={session.value}; Path=/; HttpOnly; SameSite=Strict"


def from_here(headers: MutableMapping[str, str] | Any) -> bool:
    """Whether a browser says that a request comes from a page of this server."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    return origin is None or origin.partition("://")[2] == headers.get("host")


def same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def host_of(header: str) -> str:
    """The name in a Host header, without its port."""
    end = header.rfind("]") + 1
    return header[: header.find(":", end) if ":" in header[end:] else None].lower()


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
