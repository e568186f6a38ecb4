"""A run in a few numbers: the headlines of its page, for a list of many.

Invariant: a ledger that cannot be read gives a summary that says so, never an error.
"""

from typing import NamedTuple

from pydantic import ValidationError

from coevolve.core.errors import CoevolveError, LedgerError
from coevolve.core.names import several
from coevolve.dashboard.answers import MetricChange, Tested
from coevolve.dashboard.failing import Failures, failures_of
from coevolve.dashboard.headline import headline_of
from coevolve.dashboard.numbers import both_words, place_words, rate_words
from coevolve.dashboard.record import early_end, folded
from coevolve.dashboard.result import Standing, best_words
from coevolve.dashboard.web.folders import RunFolder
from coevolve.evaluation.clusters import cautious
from coevolve.evaluation.falls import Fall
from coevolve.evaluation.statistics import Rate
from coevolve.store.approval import Question, waiting
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage, plan_of
from coevolve.store.spent import spent_so_far
from coevolve.store.watch import WORDS

NOTHING = Standing(None, None, None, "no evidence")
ENDED = ("failed", "stopped")


class Summary(NamedTuple):
    """Where a run stands."""

    name: str
    state: str
    at: str = ""
    """The version or generation that it is at."""
    phase: str = ""
    """What it does there; empty if nothing."""
    planned: int | None = None
    """Versions."""
    judged: int = 0
    kept: int = 0
    controls: int = 0
    """Kept as well, and not counted with those."""
    base: Rate | None = None
    """Of the first policy on the gate."""
    final: Rate | None = None
    """Of the version that the standing tells of."""
    dev: Rate | None = None
    """Of the newest version that was measured."""
    metrics: tuple[MetricChange, ...] = ()
    """Valid and optimal answers, the first policy's and that version's."""
    falls: tuple[Fall, ...] = ()
    """What that version is worse at."""
    answer: str = "unknown"
    """Whether it learned: yes, no, unclear or unknown."""
    sentence: str = ""
    helped: str = "unknown"
    """Whether engineers helped."""
    helped_brief: str = ""
    """The number that this rests on."""
    helped_sentence: str = ""
    failing: Failures | None = None
    """What fails now."""
    standing: Standing = NOTHING
    best: str = ""
    """What the run ends with, as it stands, and why."""
    test: Tested | None = None
    """The test split, once it is open."""
    rollouts: int = 0
    tokens: int = 0
    budget: dict[str, tuple[float, float]] = {}
    """Used and allowed, of what has a limit."""
    began: str = ""
    last: str = ""
    events: int = 0
    domain: str = ""
    policy: str = ""
    engineers: str = ""
    question: Question | None = None
    reason: str = ""
    """Why it failed or stopped."""
    problem: str = ""

    @property
    def going(self) -> bool:
        return self.state in ("running", "waiting", "new")

    @property
    def beside(self) -> str:
        """What was kept beside the versions that are counted."""
        return f", and {several(self.controls, 'control')}" if self.controls else ""

    def lines(self) -> dict[str, str]:
        """For a terminal: what a ledger's summary does not say, as far as it is known."""
        asked, test = self.question, self.test
        tested = test.metrics if test else ()
        found = {
            "because": self.reason,
            "kept": f"{self.kept} of {self.judged} judged{self.beside}",
            "base, gate": both_words([(one.metric, one.before) for one in self.metrics]),
            "best, gate": both_words([(one.metric, one.after) for one in self.metrics]),
            "change": self.standing.line,
            "beware": "; ".join(fall.words for fall in self.falls),
            "best": self.best,
            "dev": rate_words(self.dev),
            "test, first": both_words([(one.metric, one.before) for one in tested]),
            "test, last": both_words([(one.metric, one.after) for one in tested]),
            "test, change": test.change.told() if test else "",
            "asks": f"question {asked.number}, {asked.gate} of {place_words(asked.place)}; answer "
            "with `coevolve approve|revise|abort`"
            if asked
            else "",
        }
        for name, (used, most) in self.budget.items():
            found[f"{name} left"] = f"{max(0.0, most - used):,.10g} of {most:,.10g}"
        return {name: words for name, words in found.items() if words}


def summary_of(run: RunFolder) -> Summary:
    """Read what is needed of a ledger, which is little."""
    try:
        with Ledger.open(run.folder, broken=True) as ledger:
            try:
                found = read(run, ledger)
            except (CoevolveError, ValidationError, ValueError, IndexError) as error:
                found = Summary(run.name, ledger.state(), problem=in_a_line(error))
            broken = ledger.state() == "broken"
            return found._replace(problem=in_a_line(ledger.faults()[0])) if broken else found
    except LedgerError as error:
        return Summary(run.name, "unknown", problem=in_a_line(error))


def in_a_line(error: object) -> str:
    return " ".join(str(error).split())[:400]


def read(run: RunFolder, ledger: Ledger) -> Summary:
    """What a ledger says of a run."""
    facts, plan, spent = ledger.summary(), plan_of(ledger), spent_so_far(ledger)
    problems: list[str] = []
    lineage, _ = folded(plan, "", ledger.events("phase"), problems)
    head = headline_of(lineage, plan, spent)
    learned, helped = head.answers
    state, phase = facts["state"], facts["phase"] or ""
    same = ("planned", "judged", "kept", "controls", "base", "final", "standing")
    return Summary(
        name=run.name, state=state, at=place_words(facts["place"]),
        phase=WORDS.get(phase.partition("-")[0], phase) if state in ("running", "waiting") else "",
        **{name: getattr(head, name) for name in same},
        answer=learned.answer, sentence=learned.sentence, test=learned.test,
        metrics=learned.metrics, falls=learned.falls,
        helped=helped.answer, helped_brief=helped.brief, helped_sentence=helped.sentence,
        failing=failures_of(lineage, None, head.standing.told),
        dev=dev_rate(lineage), best=best_words(lineage),
        rollouts=spent.rollouts, tokens=spent.tokens,
        budget={name: (float(used), float(most)) for name, (used, most) in head.spent.items()
                if most is not None},
        began=facts["first"], last=facts["last"], events=sum(facts["counts"].values()),
        domain=plan.domain, policy=plan.policy, engineers=", ".join(plan.engineers),
        question=waiting(ledger) if state == "waiting" else None,
        reason=in_a_line(early_end(ledger, ledger.events())) if state in ENDED else "",
        problem=in_a_line(problems[0]) if problems else "",
    )  # fmt: skip


def dev_rate(lineage: Lineage) -> Rate | None:
    """The newest that is there."""
    cells = next((node.dev.cells for node in reversed(lineage.nodes) if node.dev), ())
    n, tasks = sum(cell.n for cell in cells), sum(cell.tasks for cell in cells)
    return cautious(sum(cell.valid for cell in cells), n, tasks) if n else None
