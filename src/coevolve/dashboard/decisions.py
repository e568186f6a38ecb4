"""One round as it was decided: what it trained on, what the gate said, what the backtest chose.

Invariant: nothing is judged anew; what is shown is what was recorded.
"""

from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from coevolve.dashboard.evidence import Evidence, evidence_of
from coevolve.dashboard.headline import difference, keeps, rate
from coevolve.dashboard.levels import incumbent_after
from coevolve.dashboard.proposals import Attempt, attempts_of, written
from coevolve.dashboard.record import Record, Tried
from coevolve.dashboard.shown import labels
from coevolve.domains.knobs import Knobs
from coevolve.engines.base import Result
from coevolve.evaluation.paired import Difference
from coevolve.evaluation.statistics import Interval, Rate


class Verdict(NamedTuple):
    """What the gate said."""

    keep: bool | None
    """None: nothing."""
    word: str
    """kept, reverted, or what else a tree says of a version."""
    words: str
    change: Difference | None
    broken: dict[str, Difference]


class Probe(NamedTuple):
    """A candidate as the backtest measured it."""

    name: str
    changed: int | None
    """Knobs in use in which it differs from the incumbent."""
    alive: Rate
    signal: Interval
    better: float
    forgotten: Interval
    tokens: Interval
    taken: bool
    """Whether these knobs are used next; an engineer may propose several."""


class Choice(NamedTuple):
    """What is used next, and why."""

    chosen: str
    words: str
    probes: tuple[Probe, ...]


class RoundFacts(NamedTuple):
    """Everything about one round."""

    number: int
    author: str
    """Who the knobs of this round are from."""
    trained: Result | None
    dev: Rate | None
    gate: Rate | None
    verdict: Verdict
    evidence: tuple[Evidence, ...]
    cases: tuple[dict[str, Any], ...]
    attempts: tuple[Attempt, ...]
    choice: Choice | None
    missing: tuple[str, ...]
    """Phases that are not there."""


def round_facts(record: Record, number: int, knobs: list[Knobs], gate: list[Tried]) -> RoundFacts:
    """What the ledger has on a round, and the gate rate from its rollouts."""
    trained, dev = record.payload(number, "train"), record.payload(number, "dev")
    evidence = tuple(
        found
        for tasks, cells in (("dev", dev.get("cells")), ("training", trained.get("cells")))
        if (found := evidence_of(record, tasks, cells))
    )
    incumbent = incumbent_after(record, knobs, number) if knobs else None
    return RoundFacts(
        number,
        author(record, number),
        result_of(record, number, trained.get("result")),
        next((one.rate for one in evidence if one.tasks == "dev"), None),
        rate(gate),
        judged(record, number),
        evidence,
        tuple(shown_case(case) for case in dev.get("cases", ()) if isinstance(case, dict)),
        attempts_of(record, number, incumbent),
        choice_of(record, number, incumbent),
        missing(record, number),
    )


def author(record: Record, number: int) -> str:
    """Whose tasks, or whose patch, a version was trained on."""
    if record.tree:
        return written(record.payload(number, "patch").get("author") or "unknown")
    chosen = record.payload(number - 1, "backtest").get("chosen") if number else "start"
    return str(chosen or "unknown")


def result_of(record: Record, number: int, value: object) -> Result | None:
    """What came of training; says so where the checkpoint is gone."""
    if value is None:
        return None
    try:
        result = Result.model_validate(value)
    except ValidationError:
        record.trouble(f"the result of training in round {number} cannot be read")
        return None
    own = Path(result.policy).parts[-2:] == ("stage", "policy")
    if own and not record.place(number, "stage", "policy").is_dir():
        record.trouble(f"the checkpoint of round {number} is missing: rounds/{number:02d}/stage")
    return result


def judged(record: Record, number: int) -> Verdict:
    """What the gate said of a version, or the backtest that kept it from being trained."""
    found = verdict_of(record.payload(number, "gate"))
    tested = record.payload(number, "backtest") if record.tree else {}
    if found.keep is None and tested.get("passed") is False:
        return found._replace(word="rejected")
    return found


def verdict_of(value: dict[str, Any]) -> Verdict:
    """The verdict as far as it is recorded."""
    change, broken = value.get("change"), value.get("broken") or {}
    keep = keeps(value)
    return Verdict(
        keep,
        str(value.get("verdict", "kept" if keep else "reverted" if keep is False else "")),
        str(value.get("words", "")),
        difference(change),
        {name: Difference(**fall) for name, fall in broken.items()},
    )


def choice_of(record: Record, number: int, incumbent: Knobs | None) -> Choice | None:
    """What the backtest chose, None if there was none."""
    value = record.payload(number, "backtest")
    if not value:
        return None
    try:
        probes = tuple(probe_of(probe, value, incumbent) for probe in value.get("probes", ()))
    except (KeyError, TypeError, ValueError):
        record.trouble(f"the probes of round {number} cannot be read")
        probes = ()
    return Choice(str(value.get("chosen", "")), str(value.get("words", "")), probes)


def probe_of(value: dict[str, Any], choice: dict[str, Any], incumbent: Knobs | None) -> Probe:
    alive = value["alive"]
    changed = None
    if incumbent is not None:
        knobs = incumbent.space.project(value["knobs"])
        used = {knob.name for one in (incumbent, knobs) for knob in one.in_use()}
        changed = len(used & knobs.difference(incumbent).keys())
    return Probe(
        str(value["name"]),
        changed,
        Rate(alive["successes"], alive["n"], alive["low"], alive["high"]),
        Interval(value["signal"], *value["signal_interval"]),
        value["better"],
        Interval(value["forgotten"], *value["forgotten_interval"]),
        Interval(value["tokens"], *value["tokens_interval"]),
        (value["name"], value["knobs"]) == (choice["chosen"], choice["knobs"]),
    )


def missing(record: Record, number: int) -> tuple[str, ...]:
    """The phases of a round that should be there and are not."""
    if record.tree:
        rejected = record.payload(number, "backtest").get("passed") is False
        expected = ("patch", "backtest") if rejected else ("patch", "train", "dev", "gate")
        return tuple(name for name in expected if record.phase(number, name) is None)
    last = record.experiment is not None and number + 1 >= record.experiment.rounds
    expected = ("train", "dev", "gate", *(() if last else ("propose", "backtest")))
    return tuple(name for name in expected if record.phase(number, name) is None)


def shown_case(case: dict[str, Any]) -> dict[str, Any]:
    """A failure with its texts made fit to show."""
    return {
        "task_id": written(case.get("task_id", "")),
        "labels": labels(case.get("labels", {})),
        "task": written(case.get("task", "")),
        "answer": written(case.get("answer", "")),
        "failure": written(case.get("failure", "")),
        "reason": written((case.get("details") or {}).get("reason", "")),
    }
