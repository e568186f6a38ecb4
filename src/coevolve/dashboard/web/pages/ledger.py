"""The ledger as a log to search in, and one event whole."""

import json
from collections import Counter

from coevolve.dashboard.record import Record
from coevolve.dashboard.text import written
from coevolve.dashboard.web.filter import whole
from coevolve.dashboard.web.folders import RunFolder
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.store.events import Event

PAGE = 100
SHOWN = ("number", "time", "kind", "place", "phase", "seconds")
"""Of an event, in a line of the log."""
BEGINNING = 300
"""Characters of a payload that a line has."""
LONGEST = 400_000
"""Characters of a payload that a page shows; its JSON twin has all of them."""


def show(site: Site, run: RunFolder, address: Address) -> Page:
    """Events that match, the newest first; of a broken ledger, the copies of its phases."""
    record = site.record(run)
    if address.rest:
        return one(run.name, record, address.rest)
    query = address.query
    words, kind, place = (query.get(name, "").strip() for name in ("search", "kind", "place"))
    needles = [word.casefold() for word in words.split()]
    found = [
        (event, payload)
        for event, payload, text in site.of(run, "log", lambda: log_of(record))
        if (not kind or event.kind == kind)
        and (not place or event.place == place)
        and all(needle in text for needle in needles)
    ]
    pages = max(1, -(-len(found) // PAGE))
    page = min(pages, max(1, whole(query, "page") or 1))
    shown = found[(page - 1) * PAGE : page * PAGE]
    values = {
        "lines": [
            {**{name: getattr(event, name) for name in SHOWN}, "size": len(payload),
             "begins": said(event) or payload[:BEGINNING], "said": bool(said(event))}
            for event, payload in shown
        ],
        "n": len(found), "page": page, "pages": pages,
        "kinds": Counter(event.kind for event in record.events),
        "places": sorted({event.place for event in record.events if event.place}),
        "filter": {"search": words, "kind": kind, "place": place},
        "problems": record.problems,
    }  # fmt: skip
    return Page("web/ledger.html", f"{run.name}: ledger", values)


def said(event: Event) -> str:
    """What an event says in words; empty where it has only values."""
    found = (event.payload.get(name) for name in ("words", "reason", "error", "note"))
    return next((words for words in found if words and isinstance(words, str)), "")[:BEGINNING]


def log_of(record: Record) -> list[tuple[Event, str, str]]:
    """All events, the newest first, each with its payload as JSON and the text that is searched."""
    found = []
    for event in reversed(record.events):
        payload = json.dumps(event.payload, ensure_ascii=False)
        text = f"{event.kind} {event.place or ''} {event.phase or ''} {payload}".casefold()
        found.append((event, payload, text))
    return found


def one(run: str, record: Record, name: str) -> Page:
    """One event with its whole payload."""
    event = next((one for one in record.events if str(one.number) == name), None)
    if event is None:
        raise Missing(f"run {run} has no event {name:.40}")
    values = {
        "event": event,
        "payload": shown(event),
        "number": event.number,
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
