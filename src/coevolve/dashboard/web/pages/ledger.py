"""The ledger as a log to search in, and one event whole."""

import json
from typing import Any

from coevolve.core.errors import LedgerError
from coevolve.dashboard.proposals import written
from coevolve.dashboard.web.browsing import whole
from coevolve.dashboard.web.places import Place
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.ledger.events import BEGINNING, Event, Line
from coevolve.ledger.ledger import Ledger

PAGE = 100
LONGEST = 400_000
"""Characters of a payload that a page shows; its JSON twin has all of them."""


def show(site: Site, address: Address) -> Page:
    """Events that match, newest first."""
    place = address.run
    assert place is not None
    if address.rest:
        return one(place, address.rest)
    query = address.query
    words, kind, round = query.get("search", ""), query.get("kind", ""), whole(query, "round")
    page = max(1, whole(query, "page") or 1)
    lines, n, kinds, problem = search(site, place, words, kind, round, page)
    values = {
        "lines": lines, "n": n, "page": page, "pages": max(1, -(-n // PAGE)), "kinds": kinds,
        "filter": {"search": words, "kind": kind, "round": "" if round is None else str(round)},
        "problems": [problem] if problem else [],
    }  # fmt: skip
    return Page("web/ledger.html", f"{place.name}: ledger", values)


def search(
    site: Site, place: Place, words: str, kind: str, round: int | None, page: int
) -> tuple[list[Line], int, dict[str, int], str]:
    """Lines, how many there are, the kinds that occur, and what is wrong with the ledger."""
    skip = (page - 1) * PAGE
    try:
        with Ledger.open(place.folder) as ledger:
            kinds = ledger.summary()["counts"]
            return *ledger.search(words, kind, round, PAGE, skip), kinds, ""
    except LedgerError as error:
        record = site.record(place)
        found = [
            line_of(event)
            for event in reversed(record.events)
            if (not kind or event.kind == kind)
            and (round is None or event.round == round)
            and matches(event, words)
        ]
        problem = f"{error} Below are the copies of its phases."
        return found[skip : skip + PAGE], len(found), {"phase": len(record.events)}, problem


def matches(event: Event, words: str) -> bool:
    text = f"{event.kind} {event.phase} {json.dumps(event.payload)}".casefold()
    return all(json.dumps(word)[1:-1].casefold() in text for word in words.split())


def line_of(event: Event) -> Line:
    text = json.dumps(event.payload)
    same = {name: getattr(event, name) for name in Line.model_fields if hasattr(event, name)}
    return Line(**same, size=len(text), begins=text[:BEGINNING])


def one(place: Place, name: str) -> Page:
    """One event with its whole payload."""
    if not name.isdecimal() or len(name) > 12:
        raise Missing(f"'{name:.40}' is no number of an event")
    problem, event = "", None
    try:
        with Ledger.open(place.folder) as ledger:
            event = ledger.get(int(name))
    except LedgerError as error:
        problem = str(error)
    if event is None and not problem:
        raise Missing(f"run {place.name} has no event {name}")
    values: dict[str, Any] = {
        "event": event,
        "payload": shown(event) if event else "",
        "problems": [problem] if problem else [],
        "number": int(name),
    }
    return Page("web/event.html", f"{place.name}: event {name}", values)


def shown(event: Event) -> str:
    text = json.dumps(event.payload, indent=2, ensure_ascii=False)
    # Cleaned line by line: a payload may be far longer than anything that a model wrote.
    cut = text[:LONGEST]
    parts = (cut[start : start + 20_000] for start in range(0, len(cut), 20_000))
    more = f"\n… {len(text) - LONGEST:,} more characters" if len(text) > LONGEST else ""
    return "".join(written(part) for part in parts) + more
