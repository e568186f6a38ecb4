"""The pages that show the facts of one run: its overview, its lineage, and what engineers said."""

from collections.abc import Sequence
from typing import Any, TypeVar

from coevolve.dashboard.proposals import GenerationFacts
from coevolve.dashboard.result import best_words
from coevolve.dashboard.text import written
from coevolve.dashboard.versions import VersionFacts
from coevolve.dashboard.web.diagram import layout
from coevolve.dashboard.web.folders import RunFolder
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.store.paths import version_place

Member = TypeVar("Member", VersionFacts, GenerationFacts)


def overview(site: Site, run: RunFolder, address: Address) -> Page:
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


def lineage(site: Site, run: RunFolder, address: Address) -> Page:
    """Which version grew from which, as a picture with its table, or one version with
    everything."""
    facts = site.facts(run)
    values: dict[str, Any] = {"problems": facts.problems}
    if not address.rest:
        values |= {
            "versions": facts.versions,
            "refused": [(one.number, tried, changed) for one in facts.generations
                        for tried, version, changed in one.tried if version is None],
            "best": written(best_words(site.record(run).lineage)),
            "tree": layout([one.version for one in facts.versions]),
        }  # fmt: skip
        return Page("web/lineage.html", f"{run.name}: lineage", values)
    found = member(facts.versions, run, "version", address.rest)
    place = version_place(found.number)
    values |= {
        "one": found,
        "last": len(facts.versions) - 1,
        "digest": found.version.harness.digest(),
        "events": [
            (event.phase, event.number)
            for event in site.record(run).events
            if event.kind == "phase" and event.place == place
        ],
    }
    return Page("web/version.html", f"{run.name}: version {address.rest}", values)


def proposals(site: Site, run: RunFolder, address: Address) -> Page:
    """What engineers saw and said, and what became of it: all generations as a table, or one with
    everything."""
    facts = site.facts(run)
    values: dict[str, Any] = {"problems": facts.problems}
    if not address.rest:
        values["generations"] = facts.generations
        return Page("web/proposals.html", f"{run.name}: proposals", values)
    values["generation"] = member(facts.generations, run, "generation", address.rest)
    values["first"], values["last"] = facts.generations[0].number, facts.generations[-1].number
    return Page("web/generation.html", f"{run.name}: generation {address.rest}", values)


def member(members: Sequence[Member], run: RunFolder, kind: str, number: str) -> Member:
    """The one that an address names by its number."""
    for one in members:
        if str(one.number) == number:
            return one
    raise Missing(f"run {run.name} has no {kind} {number:.40}")
