"""Generation by generation: what engineers saw and said, and what became of it."""

from typing import Any

from coevolve.dashboard.web.site import Address, Missing, Page, Site


def show(site: Site, address: Address) -> Page:
    """All generations as a table, or one with everything."""
    run = address.run
    assert run is not None
    facts = site.facts(run)
    if not address.rest:
        values: dict[str, Any] = {"generations": facts.generations, "problems": facts.problems}
        return Page("web/proposals.html", f"{run.name}: proposals", values)
    found = [one for one in facts.generations if str(one.number) == address.rest]
    if not found:
        raise Missing(f"run {run.name} has no generation {address.rest:.40}")
    numbers = [one.number for one in facts.generations]
    values = {
        "generation": found[0], "first": numbers[0], "last": numbers[-1],
        "problems": facts.problems,
    }  # fmt: skip
    return Page("web/generation.html", f"{run.name}: generation {address.rest}", values)
