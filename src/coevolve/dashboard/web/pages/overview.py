"""One run: whether it learns, what it is at, what it costs, and its knobs."""

from coevolve.dashboard.web.site import Address, Page, Site
from coevolve.dashboard.web.table import Table


def show(site: Site, address: Address) -> Page:
    """The facts of the report, and where the run stands now."""
    run = address.run
    assert run is not None
    facts = site.facts(run)
    table = site.table(run)
    counts = site.of(run, ("counts", table.changes), table.counts) if table is not None else []
    dead = [(str(one.version), one.dead) for one in counts if one.source == "train" and one.dead]
    if not dead:
        dead = [
            (str(one.number), found.dead)
            for one in facts.versions
            for found in one.evidence
            if found.tasks == "training" and found.dead
        ]
    broken = broken_files(table) if table is not None else []
    problems = (*facts.problems, *(one for one in broken if one not in facts.problems))
    values = {
        "facts": facts._replace(problems=problems),
        "charts": facts.curves,
        "levels": facts.levels,
        "dead": dead,
        "counts": counts,
        "counting": table is None,
        "config": facts.settings,
    }
    return Page("web/overview.html", run.name, values, draft=not site.is_current(run, table))


def broken_files(table: Table) -> list[str]:
    """Files of rollouts that cannot be read, in words."""
    return [
        f"{one.file.relative_to(table.folder)} cannot be read: {one.reason}" for one in table.broken
    ]
