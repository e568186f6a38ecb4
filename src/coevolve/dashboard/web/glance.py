"""A run at a glance: from its ledger alone, so that a list of many runs is quick.

Invariant: a ledger that cannot be read gives a glance that says so, never an error.
"""

from typing import Any, NamedTuple

from pydantic import ValidationError

from coevolve.core.errors import LedgerError
from coevolve.dashboard.headline import Tested, base_rate, difference, keeps, tested_of
from coevolve.dashboard.record import experiment_of, proposers
from coevolve.dashboard.shown import interval, percent, points
from coevolve.dashboard.web.places import Place
from coevolve.evaluation.clusters import cautious
from coevolve.evaluation.paired import Difference
from coevolve.evaluation.statistics import Rate
from coevolve.harness.budget import Spent
from coevolve.harness.experiment import Experiment
from coevolve.ledger.approval import Question, waiting
from coevolve.ledger.ledger import Ledger
from coevolve.ledger.watching import WORDS


class Glance(NamedTuple):
    """Where a run stands."""

    name: str
    state: str
    round: int | None
    phase: str
    """What it is at, in words; empty if at nothing."""
    planned: int | None
    """Rounds or versions."""
    tree: bool
    judged: int
    kept: int
    base: Rate | None
    dev: Rate | None
    """Of the last version that was measured."""
    best: str
    """What a tree has come to, beside no training; empty where that was not asked."""
    change: Difference | None
    """Of the last version that was judged, paired."""
    test: Tested | None
    """The test split, once it is open."""
    rollouts: int
    tokens: int
    budget: dict[str, tuple[float, float]]
    """Used and allowed, of what has a limit."""
    began: str
    last: str
    events: int
    domain: str
    policy: str
    engineers: str
    question: Question | None
    problem: str

    @property
    def going(self) -> bool:
        return self.state in ("running", "waiting", "new")

    def lines(self) -> dict[str, str]:
        """For a terminal: what a ledger's summary does not say, as far as it is known."""
        found = {
            "kept": f"{self.kept} of {self.judged} judged",
            "base, gate": rate_words(self.base),
            "best": self.best,
            "dev": rate_words(self.dev),
            "last change": change_words(self.change),
            "test, first": rate_words(self.test.first) if self.test else "",
            "test, last": rate_words(self.test.last) if self.test else "",
            "test, change": change_words(self.test.change) if self.test else "",
            "asks": f"question {self.question.number}, {self.question.gate} of round "
            f"{self.question.round}; answer with `coevolve approve|revise|abort`"
            if self.question
            else "",
        }
        for name, (used, most) in self.budget.items():
            found[f"{name} left"] = f"{max(0.0, most - used):,.10g} of {most:,.10g}"
        return {name: words for name, words in found.items() if words}


def rate_words(rate: Rate | None) -> str:
    return f"{percent(rate.value)} valid {interval(rate)}, n {rate.n}" if rate else ""


def change_words(change: Difference | None) -> str:
    if change is None:
        return ""
    return (
        f"{points(change.mean)} points [{points(change.low)}, {points(change.high)}], n {change.n}"
    )


def glance_of(place: Place) -> Glance:
    """Read what is needed of a ledger, which is little."""
    try:
        with Ledger.open(place.folder) as ledger:
            return read(place, ledger)
    except (LedgerError, ValidationError, KeyError, TypeError, ValueError) as error:
        return unreadable(place, " ".join(str(error).split())[:400])


def read(place: Place, ledger: Ledger) -> Glance:
    summary = ledger.summary()
    state = summary["state"]
    round, phase = summary["round"], summary["phase"]
    config = ledger.config
    experiment = known(config)
    small = {name: ledger.members(name) for name in ("spent", "change", "keep", "verdict", "best")}
    judged = {number: {"keep": value} for number, value in small["keep"]}
    judged |= {
        number: {"verdict": value}
        for number, value in small["verdict"]
        if isinstance(value, str) and value != "rejected" and number not in judged
    }
    spent = sum_of(small["spent"])
    limits = experiment.budget.limits() if experiment else {}
    versions = config.get("versions")
    tree = "versions" in config
    base = ledger.find("phase/0/base")
    final = ledger.find("phase/0/final")
    return Glance(
        name=place.name, state=state, round=round,
        phase=words(phase) if state in ("running", "waiting") else "",
        planned=versions
        if isinstance(versions, int)
        else experiment.rounds if experiment else None,
        tree=tree,
        judged=len(judged), kept=sum(bool(keeps(one)) for one in judged.values()),
        base=base_rate(base.payload, experiment) if base else None, dev=last_dev(ledger, round),
        best=next((value["words"] for _, value in reversed(small["best"]) if value), ""),
        change=next((found for _, value in reversed(small["change"])
                     if (found := difference(value))), None),
        test=tested_of(final.payload) if final else None,
        rollouts=spent.rollouts, tokens=spent.tokens,
        budget={name: (float(getattr(spent, name)), float(most)) for name, most in limits.items()},
        began=summary["first"], last=summary["last"], events=sum(summary["counts"].values()),
        domain=str(config.get("domain", "")), policy=str(config.get("policy", "")),
        engineers=", ".join(proposers(config)),
        question=waiting(ledger) if state == "waiting" else None, problem="",
    )  # fmt: skip


def known(config: dict[str, Any]) -> Experiment | None:
    try:
        return experiment_of(config)
    except Exception:  # whatever is wrong with a configuration, the run page says it
        return None


def words(phase: str | None) -> str:
    if phase is None:
        return ""
    return WORDS.get(phase.partition("-")[0], phase)


def sum_of(members: list[tuple[int, Any]]) -> Spent:
    """What the phases spent, as far as that can be read."""
    total = Spent()
    for _, value in members:
        try:
            total += Spent.model_validate(value)
        except ValidationError:
            continue
    return total


def last_dev(ledger: Ledger, round: int | None) -> Rate | None:
    """The dev rate of the last version that has one, of the last two."""
    for number in range(round or 0, max(-1, (round or 0) - 2), -1):
        event = ledger.find(f"phase/{number}/dev")
        cells = event.payload.get("cells", ()) if event else ()
        if n := sum(cell["n"] for cell in cells):
            tasks = sum(cell.get("groups", 0) for cell in cells) or n
            return cautious(sum(cell["valid"] for cell in cells), n, tasks)
    return None


def unreadable(place: Place, problem: str) -> Glance:
    return Glance(
        name=place.name, state="unknown", round=None, phase="", planned=None, tree=False, judged=0,
        kept=0, base=None, dev=None, best="", change=None, test=None, rollouts=0, tokens=0,
        budget={}, began="", last="", events=0, domain="", policy="", engineers="", question=None,
        problem=problem,
    )  # fmt: skip
