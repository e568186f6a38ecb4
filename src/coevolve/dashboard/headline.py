"""Did it learn: the base policy beside the final checkpoint on the gate tasks, task by task."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from coevolve.dashboard.record import Record, Tried
from coevolve.dashboard.shown import percent
from coevolve.evaluation.clusters import Part, cautious, rate_over
from coevolve.evaluation.paired import Difference, paired
from coevolve.evaluation.statistics import Rate
from coevolve.harness.budget import Spent
from coevolve.harness.experiment import Experiment


class Spending(NamedTuple):
    """One kind of expense."""

    name: str
    used: float
    limit: float | None


class Tested(NamedTuple):
    """The first policy beside the last one on the test split, which decided nothing."""

    first: Rate
    last: Rate
    change: Difference
    tasks: int


class Headline(NamedTuple):
    """What a reader wants to know first."""

    answer: str
    """yes, no, unclear or unknown."""
    sentence: str
    by_gate: str
    """What the gate said, where the test split has the last word; empty before."""
    base: Rate | None
    """Of the base policy, on the gate tasks."""
    final: Rate | None
    change: Difference | None
    final_round: int | None
    """The round whose checkpoint is in force; None: the base policy still is."""
    final_policy: str
    finished: int
    """Rounds that the gate has judged."""
    planned: int | None
    kept: int
    spent: tuple[Spending, ...]
    spending_phases: tuple[str, ...]
    """Phases that recorded what they spent."""
    test: Tested | None
    """None until the test split is opened."""


def headline_of(record: Record, gates: dict[int | None, list[Tried]]) -> Headline:
    """From the gate rollouts of the base policy (None) and of each round."""
    judged = [number for number in record.rounds if record.phase(number, "gate")]
    kept = [number for number in judged if keeps(record.payload(number, "gate"))]
    last = standing(record, kept, gates)
    before, after = gates.get(None, []), gates.get(last, [])
    base, final = rate(before), rate(after)
    if base is None:
        base = base_rate(record.payload(0, "base"), record.experiment)
    change = compare(record, before, after) if judged else None
    tested = tested_of(record.payload(0, "final"))
    stands = best_words(record, judged) or "the gate kept no version" if record.tree else STANDS
    answer, sentence = judge(base, final, change, bool(judged), last, stands)
    by_gate = ""
    if tested and last is not None:  # otherwise both are the base policy
        by_gate = sentence
        answer, sentence = told("on the test split, the", tested.first, tested.last, tested.change)
    experiment = record.experiment
    trained = record.payload(last, "train").get("result", {}) if last is not None else {}
    first = experiment.policy if experiment else "the base policy"
    planned = record.config.get("versions") if record.tree else experiment and experiment.rounds
    return Headline(
        answer, sentence, by_gate, base, final, change, last, str(trained.get("policy", first)),
        len(judged), planned if isinstance(planned, int) else None, len(kept),
        *spending(record), tested,
    )  # fmt: skip


STANDS = "the gate kept none of the rounds"
"""Why the base policy still is in force."""


def best_words(record: Record, versions: Sequence[int]) -> str:
    """What a tree has come to, as its last verdict has it; empty where that was not asked."""
    found = (record.payload(number, "gate").get("best") for number in reversed(versions))
    return next((str(one["words"]) for one in found if one), "")


def tested_of(value: dict[str, Any]) -> Tested | None:
    """What `coevolve final` recorded, as far as it can be read."""
    try:
        first, last = (
            Rate(one["successes"], one["n"], one["low"], one["high"])
            for one in (value["first"]["valid"], value["last"]["valid"])
        )
        change = difference(value["change"]["valid"])
        return Tested(first, last, change, int(value["tasks"])) if change else None
    except (KeyError, TypeError, ValueError):
        return None


def difference(value: object) -> Difference | None:
    """A recorded change; None for what is none."""
    if not isinstance(value, dict) or value.keys() != set(Difference._fields):
        return None
    return Difference(**value)


def keeps(verdict: dict[str, Any]) -> bool | None:
    """Whether a recorded verdict keeps a version; None where there is none."""
    if "keep" in verdict:
        return bool(verdict["keep"])
    return verdict["verdict"] in ("kept", "root") if "verdict" in verdict else None


def standing(record: Record, kept: list[int], gates: dict[int | None, list[Tried]]) -> int | None:
    """The version in force: of rounds the last that was kept, of a tree the best of those that are
    better than the base policy."""
    if not record.tree:
        return kept[-1] if kept else None
    kept = [one for one in kept if record.payload(one, "gate").get("base", {}).get("better")]
    if not kept:
        return None
    return max(kept, key=lambda number: found.value if (found := rate(gates[number])) else -1.0)


def rate(rollouts: list[Tried]) -> Rate | None:
    """Share of valid rollouts, None without any."""
    return rate_over([Part(one.task_id, one.valid, 1) for one in rollouts]) if rollouts else None


def base_rate(counted: dict[str, Any], experiment: Experiment | None) -> Rate | None:
    """Of the base policy on the gate, by the counts that were recorded."""
    n, samples = int(counted.get("n") or 0), experiment.measured.samples if experiment else 1
    return cautious(int(counted["valid"]), n, max(1, n // samples)) if n else None


def compare(record: Record, before: list[Tried], after: list[Tried]) -> Difference | None:
    """The change on the tasks that both have tried; None if there are none."""
    earlier, later = by_task(before), by_task(after)
    both = [task for task in earlier if task in later]
    if before and after and (len(both) < len(earlier) or len(both) < len(later)):
        record.trouble(
            f"only {len(both)} of {max(len(earlier), len(later))} gate tasks have rollouts of both "
            "the base policy and the final checkpoint; the comparison is of these"
        )
    if not both:
        return None
    seed = record.experiment.seed if record.experiment else 0
    return paired([earlier[key] for key in both], [later[key] for key in both], seed)


def by_task(rollouts: list[Tried]) -> dict[str, float]:
    """The share of valid attempts at each task: several attempts are not several tasks."""
    found: dict[str, list[bool]] = {}
    for one in rollouts:
        found.setdefault(one.task_id, []).append(one.valid)
    return {task: sum(valid) / len(valid) for task, valid in found.items()}


def judge(
    base: Rate | None,
    final: Rate | None,
    change: Difference | None,
    judged: bool,
    last: int | None,
    stands: str = STANDS,
) -> tuple[str, str]:
    """The answer in one word and in one sentence."""
    if not judged:
        return "unknown", "Not known yet: no round has been judged by the gate."
    if last is None:
        return "no", f"No: {stands}, so the base policy stands."
    if base is None or final is None or change is None:
        return "unknown", "Not known: the gate rollouts to compare cannot be read."
    return told("the gate", base, final, change)


def told(where: str, base: Rate, final: Rate, change: Difference) -> tuple[str, str]:
    """Which way a rate went, and whether that is more than chance."""
    moved = f"{percent(base.value)} to {percent(final.value)}"
    numbers = (
        f"{100 * change.mean:+.1f} points, 95 % interval "
        f"{100 * change.low:+.1f} to {100 * change.high:+.1f}, n {change.n}"
    )
    if change.low > 0:
        return "yes", f"Yes: {where} valid rate rose from {moved} ({numbers})."
    if change.high < 0:
        return "no", f"No: {where} valid rate fell from {moved} ({numbers})."
    return "unclear", f"No clear change: {where} valid rate went from {moved} ({numbers})."


def spending(record: Record) -> tuple[tuple[Spending, ...], tuple[str, ...]]:
    """What the phases recorded as spent, beside the limits."""
    total, phases = Spent(), []
    for event in record.events:
        if "spent" not in event.payload:
            continue
        try:
            total += Spent.model_validate(event.payload["spent"])
        except ValueError:
            record.trouble(f"event {event.number}: `spent` is not an amount")
            continue
        if event.phase and event.phase not in phases:
            phases.append(event.phase)
    limits = record.experiment.budget.limits() if record.experiment else {}
    found = [
        Spending(name, float(getattr(total, name)), limits.get(name))
        for name in Spent.model_fields
        if getattr(total, name) or name in limits
    ]
    return tuple(found), tuple(phases)
