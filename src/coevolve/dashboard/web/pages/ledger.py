"""The ledger as a log to search in, and one event whole."""

import json
from collections import Counter
from typing import NamedTuple

from coevolve.dashboard.record import Record
from coevolve.dashboard.text import written
from coevolve.dashboard.web.filter import whole
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.store.events import Event

PAGE = 100
BEGINNING = 300
"""Characters of a payload that a line has."""
LONGEST = 400_000
"""Characters of a payload that a page shows; its JSON twin has all of them."""


class Line(NamedTuple):
    """An event as a line of the log."""

    number: int
    time: str
    kind: str
    place: str | None
    phase: str | None
    seconds: float | None
    size: int
    """Characters of its payload as JSON."""
    begins: str


class Log(NamedTuple):
    """All lines, the newest first, each with the text that is searched."""

    lines: list[Line]
    texts: list[str]
    kinds: dict[str, int]
    places: list[str]


def show(site: Site, address: Address) -> Page:
    """Events that match, the newest first; of a broken ledger, the copies of its phases."""
    run = address.run
    assert run is not None
    record = site.record(run)
    if address.rest:
        return one(run.name, record, address.rest)
    log = site.of(run, "log", lambda: log_of(record))
    query = address.query
    words, kind, place = (query.get(name, "").strip() for name in ("search", "kind", "place"))
    needles = [word.casefold() for word in words.split()]
    found = [
        line
        for line, text in zip(log.lines, log.texts, strict=True)
        if (not kind or line.kind == kind)
        and (not place or line.place == place)
        and all(needle in text for needle in needles)
    ]
    pages = max(1, -(-len(found) // PAGE))
    page = min(pages, max(1, whole(query, "page") or 1))
    values = {
        "lines": found[(page - 1) * PAGE : page * PAGE], "n": len(found), "page": page,
        "pages": pages, "kinds": log.kinds,
        "places": log.places, "filter": {"search": words, "kind": kind, "place": place},
        "problems": record.problems,
    }  # fmt: skip
    return Page("web/ledger.html", f"{run.name}: ledger", values)


def log_of(record: Record) -> Log:
    lines, texts = [], []
    for event in reversed(record.events):
        text = json.dumps(event.payload, ensure_ascii=False)
        same = {name: getattr(event, name) for name in Line._fields if hasattr(event, name)}
        lines.append(Line(**same, size=len(text), begins=text[:BEGINNING]))
        texts.append(f"{event.kind} {event.place or ''} {event.phase or ''} {text}".casefold())
    kinds = dict(Counter(event.kind for event in record.events))
    return Log(lines, texts, kinds, sorted({one.place for one in lines if one.place}))


def one(run: str, record: Record, name: str) -> Page:
    """One event with its whole payload."""
    found = [event for event in record.events if str(event.number) == name]
    if not found:
        raise Missing(f"run {run} has no event {name:.40}")
    values = {
        "event": found[0],
        "payload": shown(found[0]),
        "number": found[0].number,
        "problems": record.problems,
    }
    return Page("web/event.html", f"{run}: event {name}", values)


def shown(event: Event) -> str:
    text = json.dumps(event.payload, indent=2, ensure_ascii=False)
    # Cleaned piece by piece: a payload may be far longer than anything that a model wrote.
    cut = text[:LONGEST]
    parts = (cut[start : start + 20_000] for start in range(0, len(cut), 20_000))
    more = f"\n… {len(text) - LONGEST:,} more characters" if len(text) > LONGEST else ""
    return "".join(written(part) for part in parts) + more
