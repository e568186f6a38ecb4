"""All pages, in the order of the navigation: each turns an address into values that its template
shows."""

from collections.abc import Callable

from coevolve.dashboard.web.pages import compare, diagnostics, ledger, rollouts, run, runs, skills
from coevolve.dashboard.web.site import Address, Page, Site

Show = Callable[[Site, Address], Page]

WHOLE: dict[str, Show] = {"runs": runs.show, "compare": compare.show, "skills": skills.show}
"""Pages about all runs."""
OF_RUN: dict[str, Show] = {
    "": run.overview,
    "lineage": run.lineage,
    "proposals": run.proposals,
    "diagnostics": diagnostics.show,
    "rollouts": rollouts.show,
    "ledger": ledger.show,
}
"""Pages about one run."""
TABS = {
    "": "Overview", "lineage": "Lineage", "proposals": "Proposals", "diagnostics": "Diagnostics",
    "rollouts": "Rollouts", "ledger": "Ledger",
}  # fmt: skip
"""What they are called."""
