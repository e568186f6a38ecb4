"""All pages, in the order of the navigation."""

from collections.abc import Callable

from coevolve.dashboard.web.pages import (
    compare,
    diagnostics,
    ledger,
    lineage,
    overview,
    proposals,
    rollouts,
    runs,
    skills,
)
from coevolve.dashboard.web.site import Address, Page, Site

Show = Callable[[Site, Address], Page]

WHOLE: dict[str, Show] = {"runs": runs.show, "compare": compare.show, "skills": skills.show}
"""Pages about all runs."""
OF_RUN: dict[str, Show] = {
    "": overview.show,
    "lineage": lineage.show,
    "proposals": proposals.show,
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
