"""The changes of a run: all of them as a tree and a table, or one from evidence to verdict."""

from typing import Any

from coevolve.dashboard.changes import Change
from coevolve.dashboard.curves import Curves, Lines, laid, panels_of, steps_of
from coevolve.dashboard.record import Record
from coevolve.dashboard.result import best_words
from coevolve.dashboard.text import written
from coevolve.dashboard.web.diagram import layout
from coevolve.dashboard.web.folders import RunFolder
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.store.paths import generation_place, version_place


def show(site: Site, run: RunFolder, address: Address) -> Page:
    """Which version grew from which, and what was not trained; or one change."""
    facts = site.facts(run)
    if address.rest:
        return one(site, run, address.rest)
    values = {
        "versions": facts.versions,
        "idle": [one for one in facts.generations if not one.versions],
        "refused": [(one.number, tried, changed) for one in facts.generations
                    for tried, version, changed in one.tried
                    if version is None and (tried.refused or not one.undecided)],
        "best": written(best_words(site.record(run).lineage)),
        "tree": layout([one.version for one in facts.versions]),
        "problems": facts.problems,
    }  # fmt: skip
    return Page("web/changes.html", f"{run.name}: changes", values)


def one(site: Site, run: RunFolder, name: str) -> Page:
    """One change, with its neighbours; of a generation, the first."""
    facts, record = site.facts(run), site.record(run)
    changes = facts.changes
    at = next((at for at, change in enumerate(changes) if name in names(change)), None)
    if at is None:
        raise Missing(f"run {run.name} has no change {name:.40}")
    change = changes[at]
    values: dict[str, Any] = {
        "change": change,
        "before": changes[at - 1] if at else None,
        "after": changes[at + 1] if at + 1 < len(changes) else None,
        "place": at + 1,
        "n": len(changes),
        "grown": [one for one in facts.versions
                  if change.one and change.one.number in (one.version.parent, *one.version.merged)],
        "curves": curves_of(record, change),
        "digest": change.one.version.harness.digest() if change.one else "",
        "events": [(event.phase, event.number) for event in record.events
                   if event.kind == "phase" and event.place in places(change)],
        "problems": facts.problems,
    }  # fmt: skip
    return Page("web/change.html", f"{run.name}: {change.title.lower()}", values)


def names(change: Change) -> set[str]:
    """What an address may call it."""
    first = change.generation if change.first else None
    return {change.name, *({f"generation-{first.number}"} if first else ())}


def places(change: Change) -> set[str]:
    """Where it is recorded."""
    found = {generation_place(change.generation.number)} if change.generation else set()
    return found | ({version_place(change.one.number)} if change.one else set())


def curves_of(record: Record, change: Change) -> Curves:
    """Its training on top of its parent's, if that was another."""
    wanted = [one for one in (change.parent, change.one) if one]
    lines = [
        Lines(f"version {one.number}", one.number, steps)
        for one in wanted
        if change.one and (steps := steps_of(record, one.number))
    ]
    return laid(lines, panels_of(record), again=True)
