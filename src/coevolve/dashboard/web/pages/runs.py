"""Every run at a glance."""

from coevolve.dashboard.web.site import Address, Page, Site

ORDER = (
    "waiting", "running", "new", "failed", "broken", "broken off", "unknown", "stopped", "done",
)  # fmt: skip
"""What needs somebody comes first."""


def show(site: Site, address: Address) -> Page:
    """All runs, those that wait for a person first, then the newest."""
    found = [site.summary(run) for run in site.folders.runs().values()]
    found.sort(key=lambda one: one.last, reverse=True)
    found.sort(key=lambda one: ORDER.index(one.state) if one.state in ORDER else len(ORDER))
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
