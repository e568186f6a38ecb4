"""From the values of a page to HTML or JSON.

Invariant: everything is escaped by the templates; what differs between readers is put in last, so
that a page that was rendered once can be shown to all of them.
"""

import json
import secrets
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from coevolve import __version__
from coevolve.dashboard.facts import plain
from coevolve.dashboard.report import STATIC, templates
from coevolve.dashboard.text import as_text, brief
from coevolve.dashboard.web.pages import TABS
from coevolve.dashboard.web.site import Page
from coevolve.dashboard.web.summary import Summary

if TYPE_CHECKING:
    from jinja2 import Environment

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
SERVED = (
    "icon.svg", "uPlot.min.css", "page.css", "web.css", "uPlot.iife.min.js", "page.js",
    "htmx.min.js", "web.js",
)  # fmt: skip
MARK = f"form-{secrets.token_hex(16)}"
"""Stands for the form token of whoever asks; nobody can guess it, so no text can contain it."""


@cache
def static() -> dict[str, tuple[bytes, str]]:
    """The files that pages load, with their types, by name."""
    return {name: ((STATIC / name).read_bytes(), TYPES[name.rpartition(".")[2]]) for name in SERVED}


@cache
def loaded(name: str) -> str:
    """The address of a static file; another content has another address."""
    return f"/static/{name}?{sha256(static()[name][0]).hexdigest()[:12]}"


def at(*parts: object, **query: object) -> str:
    """An address below the root, whatever characters its parts hold; a list of values is one of
    each."""
    path = "/" + "/".join(quote(str(part), safe="/") for part in parts if str(part))
    found = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(found, doseq=True)}" if found else path


@cache
def environment() -> "Environment":
    found = templates().overlay()
    found.filters.update(as_text=as_text, brief=brief)
    found.globals.update(
        at=at, loaded=loaded, tabs=TABS, release=__version__, form_token=MARK, urlencode=urlencode
    )
    return found


def html(page: Page, run: Summary | None, tab: str, seen: str = "") -> bytes:
    """A whole page; `seen` names the state that it shows."""
    given = {"title": page.title, "run": run, "tab": tab, "seen": seen}
    values = {**given, **page.values}
    text = environment().get_template(page.template).render(values)
    return text.encode("utf-8", "replace")


def as_json(page: Page, run: Summary | None) -> bytes:
    """The same values for scripts."""
    values: dict[str, Any] = {"title": page.title}
    if run is not None:
        values["run"] = plain(run)
    values |= {name: plain(value) for name, value in page.values.items()}
    return json.dumps(values, ensure_ascii=True).encode("ascii")
