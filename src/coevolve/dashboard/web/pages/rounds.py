"""Round by round: what the engineer saw, what it said, and what became of it."""

from typing import Any

from coevolve.dashboard.web.site import Address, Missing, Page, Site


def show(site: Site, address: Address) -> Page:
    """All rounds as a table, or one with everything."""
    place = address.run
    assert place is not None
    facts = site.facts(place)
    if not address.rest:
        values: dict[str, Any] = {
            "rounds": [
                {
                    "number": one.number, "tasks_by": one.author, "dev": one.dev, "gate": one.gate,
                    "verdict": one.verdict, "trained": one.trained,
                    "said": [
                        {"engineer": said.engineer, "explanation": said.explanation,
                         "failure": said.failure, "asked": len(said.asked) + said.more}
                        for attempt in one.attempts for said in attempt.said
                    ],
                    "chosen": one.choice.chosen if one.choice else "",
                    "missing": one.missing,
                }
                for one in facts.rounds
            ],
            "problems": facts.problems,
        }  # fmt: skip
        return Page("web/rounds.html", f"{place.name}: rounds", values)
    found = [one for one in facts.rounds if str(one.number) == address.rest]
    if not found:
        raise Missing(f"run {place.name} has no round {address.rest:.40}")
    values = {"round": found[0], "last": len(facts.rounds) - 1, "problems": facts.problems}
    return Page("web/round.html", f"{place.name}: round {address.rest}", values)
