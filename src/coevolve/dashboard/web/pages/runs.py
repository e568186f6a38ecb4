"""Every run at a glance."""

from collections.abc import Iterable

from coevolve.dashboard.web.site import Address, Page, Site
from coevolve.dashboard.web.summary import Summary

ORDER = (
    "waiting", "running", "new", "failed", "broken", "broken off", "unknown", "stopped", "done",
)  # fmt: skip
"""What needs somebody comes first."""


def in_order(runs: Iterable[Summary]) -> list[Summary]:
    """Those that need somebody first, then the newest."""
    found = sorted(runs, key=lambda one: one.last, reverse=True)
    found.sort(key=lambda one: ORDER.index(one.state) if one.state in ORDER else len(ORDER))
    return found


def show(site: Site, address: Address) -> Page:
    """All runs, those that wait for a person first, then the newest."""
    found = in_order(site.summary(run) for run in site.folders.runs().values())
    words = address.query.get("search", "").casefold().split()
    shown = [
        one
        for one in found
        if all(w in f"{one.name} {one.state} {one.domain}".casefold() for w in words)
    ]
    values = {
        "runs": shown,
        "live": any(one.going for one in found),
        "n": len(found),
        "search": address.query.get("search", ""),
        "folder": str(site.folders.root),
    }
    return Page("web/runs.html", "Runs", values)
