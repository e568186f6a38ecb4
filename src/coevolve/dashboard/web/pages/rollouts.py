"""Rollouts to look through, and one of them with everything."""

import json
from typing import Any

from coevolve.dashboard.boards import Picture
from coevolve.dashboard.proposals import written
from coevolve.dashboard.web.browsing import SOURCES, choices, filter_of, find, one
from coevolve.dashboard.web.counted import Counted
from coevolve.dashboard.web.pages.overview import broken_files
from coevolve.dashboard.web.places import Place
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.dashboard.web.telling import turns_of


def show(site: Site, address: Address) -> Page:
    """A page of rollouts, one rollout, or the picture of one."""
    place = address.run
    assert place is not None
    counted = site.counted(place)
    title = f"{place.name}: rollouts"
    if counted is None:
        return Page("web/counting.html", title, {"counting": True}, draft=True)
    if address.rest:
        name = address.rest.removesuffix("/picture")
        if name != address.rest:
            return picture(site, place, counted, name)
        return rollout(site, place, counted, name)
    chosen = filter_of(address.query)
    found = find(counted, chosen)
    values = {
        "filter": chosen._replace(page=min(chosen.page, found.pages)),
        "query": chosen.as_query(),
        "found": found,
        "choices": site.of(place, ("choices", counted.changes), lambda: choices(counted)),
        "sources": SOURCES,
        "problems": broken_files(counted),
    }
    return Page("web/rollouts.html", title, values, draft=not site.is_current(place, counted))


def load(site: Site, place: Place, counted: Counted, name: str) -> dict[str, Any]:
    found = one(counted, name)
    if found is None:
        raise Missing(f"run {place.name} has no rollout {name:.100}")
    return found


def rollout(site: Site, place: Place, counted: Counted, name: str) -> Page:
    """Everything that is stored of a rollout."""
    found = load(site, place, counted, name)
    details = found["details"]
    passed, total = details.get("passed"), details.get("total")
    if not isinstance(passed, int):
        passed, total = details.get("fixed"), details.get("fail_to_pass")
    tests = (passed, total) if isinstance(passed, int) and isinstance(total, int) else None
    record = site.record(place)
    reason = written(details.get("reason", ""))
    meaning = (record.domain.failures if record.domain else {}).get(found["failure"] or "", "")
    values = {
        "rollout": {key: value for key, value in found.items() if key != "messages"},
        "turns": turns_of(found),
        "tests": tests,
        "meaning": "" if reason.startswith(meaning) else meaning,
        "reason": reason,
        "details": written(json.dumps(details, indent=1, ensure_ascii=False)),
        "drawable": record.domain is not None and found["source"] != "probe",
    }
    return Page("web/rollout.html", f"{place.name}: rollout {name}", values)


def picture(site: Site, place: Place, counted: Counted, name: str) -> Page:
    """The answer, drawn by its domain; made apart, since finding the task may take a moment."""

    def make() -> Picture | None:
        return site.pictures(place).draw(load(site, place, counted, name))

    found = site.of(place, ("picture", name), make)
    return Page("web/picture.html", f"{place.name}: {name}", {"picture": found})
