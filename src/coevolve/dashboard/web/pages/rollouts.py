"""Rollouts to look through, and one of them with everything."""

import json
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.dashboard.boards import Picture, drawn
from coevolve.dashboard.tasks import task_of
from coevolve.dashboard.text import brief, written
from coevolve.dashboard.web.filter import SOURCES, Filter, choices, filter_of, find, in_csv, one
from coevolve.dashboard.web.folders import RunFolder
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.dashboard.web.table import Table
from coevolve.dashboard.web.transcript import turns_of
from coevolve.domains import capture
from coevolve.domains.turns import has_turns

ALL = Filter()


def show(site: Site, run: RunFolder, address: Address) -> Page:
    """A page of rollouts, one rollout, or the picture of one."""
    table = site.table(run)
    title = f"{run.name}: rollouts"
    if table is None:
        words = "Counting the rollouts of this run; a million take some seconds, once …"
        waits = {"heading": "Rollouts", "words": words, "busy": True, "problems": []}
        return Page("web/waiting.html", title, waits, draft=True)
    if address.rest:
        name = address.rest.removesuffix("/picture")
        if name != address.rest:
            return picture(site, run, table, name, address.query.get("beside", ""))
        return rollout(site, run, table, name, address)
    chosen = filter_of(address.query)
    if address.query.get("format") == "csv":
        return Page("", title, {}, draft=True, csv=in_csv(table, chosen))
    found = find(table, chosen)
    values = {
        "filter": chosen._replace(page=min(chosen.page, found.pages)),
        "query": chosen.as_query(),
        "found": found,
        "choices": site.of(run, ("choices", table.changes), lambda: choices(table)),
        "sources": SOURCES,
        "problems": table.problems(),
    }
    return Page("web/rollouts.html", title, values, draft=not site.is_current(run, table))


def load(run: RunFolder, table: Table, name: str, chosen: Filter = ALL) -> dict[str, Any]:
    found = one(table, name, chosen)
    if found is None:
        raise Missing(f"run {run.name} has no rollout {name:.100}")
    return found


def rollout(site: Site, run: RunFolder, table: Table, name: str, address: Address) -> Page:
    """Everything that is stored of a rollout, as one of those that a reader looks through."""
    chosen = filter_of(address.query)
    found = load(run, table, name, chosen)
    details = found["details"]
    passed, total = details.get("passed"), details.get("total")
    if not isinstance(passed, int):
        passed, total = details.get("fixed"), details.get("fail_to_pass")
    tests = (passed, total) if isinstance(passed, int) and isinstance(total, int) else None
    record = site.record(run)
    reason = written(details.get("reason", ""))
    meaning = capture.meaning(record.domain, found["failure"])
    values = {
        "rollout": {key: value for key, value in found.items() if key != "messages"},
        "turns": turns_of(found),
        "tests": tests,
        "meaning": "" if reason.startswith(meaning) else meaning,
        "reason": reason,
        "facts": {name: written(brief(value, 400)) for name, value in details.items()},
        "details": written(json.dumps(details, indent=1, ensure_ascii=False)),
        "query": chosen.as_query(),
        "beside": address.query.get("beside", ""),
        "drawable": record.domain is not None and found["source"] != "probe",
    }
    return Page("web/rollout.html", f"{run.name}: rollout {name}", values)


def picture(site: Site, run: RunFolder, table: Table, name: str, beside: str) -> Page:
    """The answer, one that is right, and that of another rollout of the task, drawn by the domain;
    made apart, since finding the task may take a moment."""
    found = site.of(run, ("picture", name), lambda: pictures(site, run, table, name))
    own, best = found or (None, None)
    other = None
    if beside:
        rollout = load(run, table, beside)
        drawn_too = site.of(run, ("picture", beside), lambda: pictures(site, run, table, beside))
        version = rollout["version"]
        named = "first policy" if version == -1 else f"version {version}"
        other = {"name": f"{named}, {rollout['source']}", "picture": drawn_too and drawn_too[0]}
    values = {"picture": own, "best": best, "other": other if other and other["picture"] else None}
    return Page("web/picture.html", f"{run.name}: {name}", values)


def pictures(
    site: Site, run: RunFolder, table: Table, name: str
) -> tuple[Picture, Picture | None] | None:
    """The answer of a rollout, and one that is right if the domain knows any; None where the task
    cannot be found again."""
    record, rollout = site.record(run), load(run, table, name)
    task = task_of(record, rollout)
    if record.domain is None or task is None or has_turns(record.domain):
        return None
    said = [turn["content"] for turn in rollout["messages"] if turn["role"] == "assistant"]
    own = drawn(record.domain, task, said[-1] if said else "")
    try:
        best = drawn(record.domain, task, record.domain.oracle(task, ""))
    except CoevolveError:  # not every domain knows a solution
        best = None
    return own, best
