"""What a run that waits asks a person, as a decision: proposals side by side, with what their
backtests foretell and tasks of the environments that they make."""

from coevolve.dashboard.decision import decision_of, samples_of
from coevolve.dashboard.web.folders import RunFolder
from coevolve.dashboard.web.site import Address, Missing, Page, Site

TASKS = "tasks/"


def show(site: Site, run: RunFolder, address: Address) -> Page:
    """The open question, if there is one; below it, tasks of one of its environments."""
    record, title = site.record(run), f"{run.name}: decision"
    question = record.question
    decision = site.of(run, "decision", lambda: decision_of(record, question)) if question else None
    if address.rest:
        name = address.rest.removeprefix(TASKS)
        if name == address.rest:
            raise Missing(f"there is no page {address.rest:.40} of a decision")
        known = {"now": decision.harness} if decision else {}
        known |= {
            str(at): one.harness for at, one in enumerate(decision.options if decision else ())
        }
        # Empty where the question was answered while its page was on its way.
        tasks = (
            site.of(run, ("samples", name), lambda: samples_of(record, known[name]))
            if name in known
            else []
        )
        return Page("web/tasks.html", title, {"tasks": tasks})
    facts = site.facts(run)
    parent = decision.parent if decision else None
    answered = [event for event in record.events if event.kind == "answered"]
    values = {
        "decision": decision,
        "parent": facts.versions[parent] if parent is not None else None,
        "change": next(
            (one for one in facts.changes if decision and one.name == decision.about), None
        ),
        "folder": facts.folder,
        "last": answered[-1].payload if answered else None,
        "problems": facts.problems,
    }
    return Page("web/decision.html", title, values)
