"""One run: whether it learns, what it is at, what it costs, and its knobs."""

from typing import Any

from coevolve.dashboard.report import chart_data
from coevolve.dashboard.web.site import Address, Page, Site


def show(site: Site, address: Address) -> Page:
    """The facts of the report, and where the run stands now."""
    place = address.run
    assert place is not None
    facts = site.facts(place)
    counted = site.counted(place)
    counts = (
        site.of(place, ("counts", counted.changes), counted.counts) if counted is not None else []
    )
    dead = [(str(one.version), one.dead) for one in counts if one.source == "train" and one.dead]
    if not dead:
        dead = [
            (str(one.number), found.dead)
            for one in facts.rounds
            for found in one.evidence
            if found.tasks == "training" and found.dead
        ]
    broken = broken_files(counted) if counted is not None else []
    problems = (*facts.problems, *(one for one in broken if one not in facts.problems))
    values = {
        "facts": facts._replace(problems=problems),
        "charts": chart_data(facts),
        "levels": facts.levels,
        "dead": dead,
        "counts": counts,
        "counting": counted is None,
        "config": facts.config,
    }
    return Page("web/overview.html", place.name, values, draft=not site.is_current(place, counted))


def broken_files(counted: Any) -> list[str]:
    """Files of rollouts that cannot be read, in words."""
    return [
        f"{one.file.relative_to(counted.folder)} cannot be read: {one.reason}"
        for one in counted.broken
    ]
