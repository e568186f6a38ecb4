"""One run: what it came to, and what that rests on."""

from coevolve.dashboard.web.folders import RunFolder
from coevolve.dashboard.web.site import Address, Page, Site


def show(site: Site, run: RunFolder, address: Address) -> Page:
    """Whether it learns, where it stands now, what it costs, and its knobs."""
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
    broken = table.problems() if table is not None else []
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
