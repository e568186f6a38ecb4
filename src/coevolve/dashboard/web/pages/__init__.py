"""All pages, in the order of the navigation: each turns an address into values that its template
shows."""

from collections.abc import Callable

from coevolve.dashboard.web.folders import RunFolder
from coevolve.dashboard.web.pages import (
    changes,
    compare,
    decision,
    diagnostics,
    ledger,
    rollouts,
    run,
    runs,
    skills,
    words,
)
from coevolve.dashboard.web.site import Address, Page, Site

WHOLE: dict[str, Callable[[Site, Address], Page]] = {
    "runs": runs.show,
    "compare": compare.show,
    "skills": skills.show,
    "words": words.show,
}
"""Pages about all runs."""
OF_RUN: dict[str, Callable[[Site, RunFolder, Address], Page]] = {
    "": run.show,
    "changes": changes.show,
    "diagnostics": diagnostics.show,
    "rollouts": rollouts.show,
    "ledger": ledger.show,
    "decision": decision.show,
}
"""Pages about one run."""
TABS = {name: name.capitalize() or "Overview" for name in OF_RUN if name != "decision"}
"""What they are called; a decision is only there while a run waits for it."""
