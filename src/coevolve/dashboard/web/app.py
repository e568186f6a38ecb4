"""The server: addresses to pages, for browsers and for scripts.

    /                       every run             /compare[/NAME]   arms side by side
    /runs/RUN               one run               /skills           what held
    /runs/RUN/PAGE[/...]    lineage, proposals, diagnostics, rollouts, ledger
    /runs/RUN/live, /live   server-sent events    /runs/RUN/answer  what a person decides (POST)

Every page has a twin for scripts: `?format=json`.
"""

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from coevolve.core.errors import CoevolveError, UserError
from coevolve.dashboard.web import output
from coevolve.dashboard.web.cache import Cache
from coevolve.dashboard.web.decision import decide
from coevolve.dashboard.web.folders import RunFolder
from coevolve.dashboard.web.guard import LOCAL, Guard, from_here, same
from coevolve.dashboard.web.pages.registry import OF_RUN, WHOLE
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.dashboard.web.stream import Streams, seen_of

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

LARGEST_FORM = 50_000
"""Bytes."""
RENDERED, ROOM = 1_000, 32_000_000
"""Pages that are kept as bytes, and how many bytes that may be."""
LARGEST_KEPT = 2_000_000


class Dashboard:
    """Answers requests; each method is one kind of address."""

    def __init__(self, root: Path) -> None:
        self.site = Site(root)
        self.rendered = Cache(RENDERED, ROOM)
        self.streams = Streams()

    def page(self, request: "Request", name: str, rest: str = "") -> "Response":
        """A page about all runs."""
        query = query_of(request)
        runs = self.site.folders.runs().values()
        stamp = tuple(self.site.folders.stamp(run) for run in runs) if name == "runs" else None
        return self.answer(request, WHOLE[name], Address(None, rest, query), name, stamp)

    def of_run(self, request: "Request", address: str) -> "Response":
        """A page about one run."""
        found = self.site.folders.find(address)
        if found is None:
            return self.problem(request, 404, f"there is no run {address:.200} in this folder")
        run, rest = found
        name, _, rest = rest.partition("/")
        if name not in OF_RUN:
            return self.problem(request, 404, f"there is no page {name:.60}", run)
        asked = self.site.health.known.get(run.name)
        stamp = (self.site.folders.stamp(run), asked and (asked.busy, asked.ended))
        show, address_of = OF_RUN[name], Address(run, rest, query_of(request))
        return self.answer(request, show, address_of, name, stamp)

    def answer(
        self, request: "Request", show: Any, address: Address, tab: str, stamp: object
    ) -> "Response":
        as_json = address.query.get("format") == "json"
        key = (request.url.path, tuple(sorted(address.query.items())))
        known = self.rendered.known(key, stamp) if stamp is not None else None
        if known is not None:
            return self.respond(request, 200, known[0], as_json)
        try:
            page: Page = show(self.site, address)
            run = self.site.summary(address.run) if address.run else None
            body = (
                output.as_json(page, run)
                if as_json
                else output.html(page, run, tab, request.url.path, self.seen(address, stamp))
            )
        except Missing as error:
            return self.problem(request, 404, str(error), address.run)
        except UserError as error:
            return self.problem(request, 400, str(error), address.run)
        except CoevolveError as error:
            return self.problem(request, 500, str(error), address.run)
        if stamp is not None and not page.draft and len(body) < LARGEST_KEPT:
            self.rendered.keep(key, stamp, body)
        return self.respond(request, 200, body, as_json)

    def seen(self, address: Address, stamp: object) -> str:
        """What a page that is made now shows, for the stream that it will listen to."""
        return seen_of(stamp[0] if address.run and isinstance(stamp, tuple) else stamp)

    def problem(
        self, request: "Request", status: int, words: str, folder: RunFolder | None = None
    ) -> "Response":
        """What is wrong, on a page like any other."""
        page = Page("web/problem.html", "Problem", {"words": words, "status": status})
        run = self.site.summary(folder) if folder else None
        as_json = request.query_params.get("format") == "json"
        body = (
            output.as_json(page, run)
            if as_json
            else output.html(page, run, "problem", request.url.path)
        )
        return self.respond(request, status, body, as_json)

    def respond(self, request: "Request", status: int, body: bytes, as_json: bool) -> "Response":
        from fastapi import Response

        kind = "application/json" if as_json else "text/html; charset=utf-8"
        if not as_json:
            form = request.scope["session"].form
            body = body.replace(output.MARK.encode(), form.encode())
        return Response(body, status, {"cache-control": "no-store"}, kind)

    def decide(self, request: "Request", address: str, body: bytes) -> "Response":
        """Record an answer, and go back to the run."""
        from fastapi.responses import RedirectResponse

        found = self.site.folders.find(address)
        if found is None or found[1]:
            return self.problem(request, 404, f"there is no run {address:.200} in this folder")
        run = found[0]
        try:
            form = dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True))
        except ValueError:
            return self.problem(request, 400, "the form cannot be read", run)
        session = request.scope["session"]
        if not from_here(request.headers) or not same(form.get("form", ""), session.form):
            words = "this form is not of a page of yours; open the run again and repeat"
            return self.problem(request, 403, words, run)
        try:
            decide(run, form)
        except CoevolveError as error:
            return self.problem(request, 409, str(error), run)
        return RedirectResponse(output.at("runs", run.name), 303)


def make_app(root: Path, token: str = "", hosts: tuple[str, ...] = LOCAL) -> Guard:
    """The whole dashboard over a folder of runs."""
    try:
        from fastapi import FastAPI
    except ImportError:
        raise UserError("the dashboard needs fastapi: pip install 'coevolve[serve]'") from None
    dashboard = Dashboard(root)
    app = FastAPI(title="coevolve", docs_url=None, redoc_url=None, openapi_url=None)
    add_routes(app, dashboard)
    guarded = Guard(app, token, hosts)
    guarded.dashboard = dashboard  # type: ignore[attr-defined]
    return guarded


def add_routes(app: "FastAPI", dashboard: Dashboard) -> None:
    """Every address."""
    from fastapi import Request, Response
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import StreamingResponse

    folders = dashboard.site.folders

    def runs(request: Request) -> Response:
        return dashboard.page(request, "runs")

    def whole(request: Request) -> Response:
        _, name, *rest = request.url.path.split("/", 2)
        return dashboard.page(request, name, "/".join(rest).strip("/"))

    def of_run(request: Request, address: str) -> Response:
        return dashboard.of_run(request, address)

    def static(request: Request, name: str) -> Response:
        if name not in output.static():
            return dashboard.problem(request, 404, f"there is no file {name:.60}")
        body, kind = output.static()[name]
        return Response(body, 200, {"cache-control": "max-age=31536000, immutable"}, kind)

    async def live(request: Request, address: str = "") -> Response:
        found = folders.find(address) if address else None
        if dashboard.streams.full or (address and (found is None or found[1])):
            return Response(status_code=503 if found or not address else 404)

        def stamp() -> object:
            if found is not None:
                return folders.stamp(found[0])
            return tuple(folders.stamp(run) for run in folders.runs().values())

        return StreamingResponse(
            dashboard.streams.follow(stamp, request.query_params.get("seen", "")),
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
            media_type="text/event-stream",
        )

    async def decided(request: Request, address: str) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_FORM:
                return Response(status_code=413)
        return await run_in_threadpool(dashboard.decide, request, address, body)

    async def broken(request: Request, error: Exception) -> Response:
        # A named capture point: whatever a page stumbles over, the others go on.
        traceback.print_exception(error, file=sys.stderr)
        words = f"this page cannot be shown: {type(error).__name__}: {error}"[:500]
        return await run_in_threadpool(dashboard.problem, request, 500, words)

    app.add_api_route("/", runs)
    app.add_api_route("/runs", runs)
    app.add_api_route("/compare", whole)
    app.add_api_route("/compare/{rest:path}", whole)
    app.add_api_route("/skills", whole)
    app.add_api_route("/static/{name}", static)
    app.add_api_route("/live", live)
    app.add_api_route("/runs/{address:path}/live", live)
    app.add_api_route("/runs/{address:path}/answer", decided, methods=["POST"])
    app.add_api_route("/runs/{address:path}", of_run)
    app.add_exception_handler(404, unknown(dashboard))
    app.add_exception_handler(Exception, broken)


def unknown(dashboard: Dashboard) -> Any:
    async def answer(request: "Request", error: Exception) -> "Response":
        from fastapi.concurrency import run_in_threadpool

        return await run_in_threadpool(dashboard.problem, request, 404, "there is no such page")

    return answer


def query_of(request: "Request") -> dict[str, str]:
    return dict(request.query_params.items())
