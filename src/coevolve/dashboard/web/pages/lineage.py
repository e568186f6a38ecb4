"""The lineage: which version grew from which, what each changed, and what was decided about it."""

from typing import Any

from coevolve.dashboard.headline import best_words
from coevolve.dashboard.text import written
from coevolve.dashboard.web.diagram import layout
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.store.paths import version_place


def show(site: Site, address: Address) -> Page:
    """The picture with its table, or one version with everything."""
    run = address.run
    assert run is not None
    facts = site.facts(run)
    if not address.rest:
        values: dict[str, Any] = {
            "versions": facts.versions,
            "refused": [(one.number, tried) for one in facts.generations
                        for tried, version in one.tried if version is None],
            "best": written(best_words(site.record(run).lineage)),
            "tree": layout([one.version for one in facts.versions]),
            "problems": facts.problems,
        }  # fmt: skip
        return Page("web/lineage.html", f"{run.name}: lineage", values)
    found = [one for one in facts.versions if str(one.number) == address.rest]
    if not found:
        raise Missing(f"run {run.name} has no version {address.rest:.40}")
    place = version_place(found[0].number)
    values = {
        "one": found[0],
        "last": len(facts.versions) - 1,
        "digest": found[0].version.harness.digest(),
        "events": [
            (event.phase, event.number)
            for event in site.record(run).events
            if event.kind == "phase" and event.place == place
        ],
        "problems": facts.problems,
    }
    return Page("web/version.html", f"{run.name}: version {address.rest}", values)
