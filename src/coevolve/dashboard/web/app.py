"""The server: addresses to pages, for browsers and for scripts.

    /                       every run             /compare[/NAME]   arms side by side
    /runs/RUN               one run               /skills, /words   what held, what is meant
    /runs/RUN/PAGE[/...]    changes, diagnostics, rollouts, ledger, decision
    /runs/RUN/live, /live   server-sent events    /runs/RUN/answer  what a person decides (POST)

Every page has a twin for scripts, `?format=json`; rollouts also have `?format=csv`.
"""

import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from coevolve.core.errors import CoevolveError, UserError
from coevolve.dashboard.web import output
from coevolve.dashboard.web.cache import Cache
from coevolve.dashboard.web.folders import RunFolder
from coevolve.dashboard.web.guard import LOCAL, Guard, from_here, same
from coevolve.dashboard.web.pages import OF_RUN, WHOLE
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.dashboard.web.stream import Streams, seen_of
from coevolve.store import approval
from coevolve.store.ledger import Ledger

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

LARGEST_FORM = 50_000
"""Bytes."""
LONGEST_NOTE = 4_000
RENDERED, ROOM = 1_000, 32_000_000
"""Pages that are kept as bytes, and how many bytes that may be."""
LARGEST_KEPT = 2_000_000
KINDS = {
    "html": "text/html; charset=utf-8", "json": "application/json",
    "csv": "text/csv; charset=utf-8",
}  # fmt: skip
"""How pages are given out."""


class Dashboard:
    """Answers requests; each method is one kind of address."""

    def __init__(self, root: Path) -> None:
        self.site = Site(root)
        self.rendered = Cache(RENDERED, ROOM)
        self.streams = Streams()

    def page(self, request: "Request", name: str, rest: str = "") -> "Response":
        """A page about all runs."""
        runs = self.site.folders.runs().values()
        stamp = tuple(self.site.folders.stamp(run) for run in runs) if name == "runs" else None
        query = request.query_params
        address = Address(rest, query, tuple(query.getlist("run")))
        show = partial(WHOLE[name], self.site, address)
        return self.answer(request, show, None, name, stamp, seen_of(stamp))

    def of_run(self, request: "Request", address: str) -> "Response":
        """A page about one run."""
        found = self.site.folders.find(address)
        if found is None:
            return self.problem(request, 404, f"there is no run {address:.200} in this folder")
        run, rest = found
        name, _, rest = rest.partition("/")
        if name not in OF_RUN:
            return self.problem(request, 404, f"there is no page {name:.60}", run)
        asked, now = self.site.health.known.get(run.name), self.site.folders.stamp(run)
        stamp = (now, asked and (asked.busy, asked.ended))
        show = partial(OF_RUN[name], self.site, run, Address(rest, request.query_params))
        return self.answer(request, show, run, name, stamp, seen_of(now))

    def answer(
        self, request: "Request", show: Callable[[], Page], run: RunFolder | None, tab: str,
        stamp: object, seen: str,
    ) -> "Response":  # fmt: skip
        """A page as it was made before, or made now; `seen` names the state that it shows."""
        key = (request.url.path, tuple(sorted(request.query_params.multi_items())))
        known = self.rendered.known(key, stamp) if stamp is not None else None
        if known is not None:
            return self.respond(request, 200, known[0])
        try:
            page = show()
            body = self.body(request, page, run, tab, seen)
        except Missing as error:
            return self.problem(request, 404, str(error), run)
        except UserError as error:
            return self.problem(request, 400, str(error), run)
        except CoevolveError as error:
            return self.problem(request, 500, str(error), run)
        if stamp is not None and not page.draft and len(body) < LARGEST_KEPT:
            self.rendered.keep(key, stamp, body)
        return self.respond(request, 200, body)

    def problem(
        self, request: "Request", status: int, words: str, run: RunFolder | None = None
    ) -> "Response":
        """What is wrong, on a page like any other."""
        page = Page("web/problem.html", "Problem", {"words": words, "status": status})
        wanted = "json" if request.query_params.get("format") == "json" else "html"
        body = self.body(request, page, run, "problem", wanted=wanted)
        return self.respond(request, status, body, wanted)

    def body(
        self,
        request: "Request",
        page: Page,
        folder: RunFolder | None,
        tab: str,
        seen: str = "",
        wanted: str = "",
    ) -> bytes:
        """A page for a browser, or for a script."""
        wanted = wanted or format_of(request)
        run = self.site.summary(folder) if folder else None
        if wanted == "json":
            return output.as_json(page, run)
        if wanted == "csv":
            if page.csv is None:
                raise UserError("there is no CSV of this page, but of a run's rollouts")
            return page.csv
        return output.html(page, run, tab, seen)

    def respond(self, request: "Request", status: int, body: bytes, wanted: str = "") -> "Response":
        from fastapi import Response

        wanted = wanted or format_of(request)
        if wanted == "html":
            body = body.replace(output.MARK.encode(), request.scope["session"].form.encode())
        return Response(body, status, {"cache-control": "no-store"}, KINDS[wanted])

    def decide(self, request: "Request", address: str, body: bytes) -> "Response":
        """Record an answer, and go back to what is asked next."""
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
            record_answer(run, form)
        except CoevolveError as error:
            return self.problem(request, 409, str(error), run)
        return RedirectResponse(output.at("runs", run.name, "decision"), 303)


def format_of(request: "Request") -> str:
    """How a page is wanted: html, json or csv."""
    wanted = request.query_params.get("format") or "html"
    if wanted not in KINDS:
        raise UserError(f"unknown format '{wanted:.40}'; take one of {', '.join(KINDS)}")
    return wanted


def record_answer(run: RunFolder, form: Mapping[str, str]) -> None:
    """Record what a person decided, through the ledger like an answer from a terminal; it counts
    only for the question that was on the page."""
    decision, note = form.get("decision", ""), form.get("note", "").strip()
    if len(note) > LONGEST_NOTE:
        raise UserError(f"the note has {len(note):,} characters; use at most {LONGEST_NOTE:,}")
    if decision == "revise" and not note:
        raise UserError("a revision needs a note that tells the engineer what to change")
    with Ledger.open(run.folder) as ledger:
        question = approval.waiting(ledger)
        if question is None or str(question.number) != form.get("question"):
            raise UserError(
                f"run {run.name} no longer waits for this answer; look at the page again"
            )
        approval.answer(ledger, decision, note, question.number)  # type: ignore[arg-type]


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

    class Followed(StreamingResponse):
        """Counted from its request on, however it ends."""

        async def __call__(self, *how: Any) -> None:
            try:
                await super().__call__(*how)
            finally:
                dashboard.streams.leave()

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
        if address and (found is None or found[1]):
            return Response(status_code=404)
        if not dashboard.streams.enter():
            return Response(status_code=503)

        def stamp() -> object:
            if found is not None:
                return folders.stamp(found[0])
            return tuple(folders.stamp(run) for run in folders.runs().values())

        return Followed(
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

    async def unknown(request: Request, error: Exception) -> Response:
        return await run_in_threadpool(dashboard.problem, request, 404, "there is no such page")

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
    app.add_api_route("/words", whole)
    app.add_api_route("/static/{name}", static)
    app.add_api_route("/live", live)
    app.add_api_route("/runs/{address:path}/live", live)
    app.add_api_route("/runs/{address:path}/answer", decided, methods=["POST"])
    app.add_api_route("/runs/{address:path}", of_run)
    app.add_exception_handler(404, unknown)
    app.add_exception_handler(Exception, broken)
