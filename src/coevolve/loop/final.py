"""The test split, opened once: what a run has achieved, on tasks that nothing was decided by.

Invariant: whatever was measured the first time is what every later question is answered with.
"""

import time

from coevolve.core.errors import UserError
from coevolve.core.names import typed
from coevolve.core.rollout import Rollout
from coevolve.core.splits import Split
from coevolve.evaluation.clusters import rate_of
from coevolve.evaluation.difference import Difference, by_task, paired
from coevolve.evaluation.target import FINAL
from coevolve.loop.measure import spent_on
from coevolve.store.events import STATES, Event
from coevolve.store.gauge import Gauge
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage, lineage_of
from coevolve.store.paths import RUN, Paths
from coevolve.store.phases import Final, Share, Tested

ENDS = ("done", "stopped")
METRICS = ("valid", "optimal")


def final(ledger: Ledger, gauge: Gauge, count: int) -> Final:
    """The first policy, version 0 and the last one on test tasks."""
    end = ended(ledger)
    if end is None:
        raise UserError(
            f"{ledger.folder} is {ledger.state()}: the test split is opened once, when a run has "
            f"ended; `{typed('resume', ledger.folder)}` goes on with it"
        )
    nodes = lineage_of(ledger).nodes
    trained = nodes[0].policy if nodes and nodes[0].train else gauge.plan.policy
    policies = {"first": gauge.plan.policy, "root": trained, "last": str(end.payload["policy"])}

    def work() -> Final:
        began = time.monotonic()
        tasks = gauge.target.held_out(Split.TEST, count, FINAL)
        # Each policy once: where nothing is better than no training, some are the same.
        places = {policy: name for name, policy in reversed(policies.items())}
        asked = {
            policy: gauge.measure(policy, tasks, Paths(ledger.folder).final / name)
            for policy, name in places.items()
        }
        first, root, last = (asked[policy] for policy in policies.values())
        return Final(
            tasks=len(tasks),
            words=str(end.payload.get("words", "")),
            first=tested(policies["first"], first),
            last=tested(policies["last"], last),
            change=changes(first, last),
            root=tested(policies["root"], root),
            beyond=changes(root, last),
            spent=spent_on([one for rollouts in asked.values() for one in rollouts], began),
        )

    ledger.phase(RUN, "final", lambda: work().model_dump(mode="json"))
    if ledger.state() != end.kind:
        ledger.note(end.kind, **end.payload)
    found: Lineage = lineage_of(ledger)
    assert found.final
    return found.final


def ended(ledger: Ledger) -> Event | None:
    """How a run has ended, if it has and did not go on."""
    events = [event for event in ledger.events() if event.phase != "final"]
    last = next((one for one in reversed(events) if one.kind in STATES), None)
    return last if last and last.kind in ENDS and "policy" in last.payload else None


def changes(before: list[Rollout], after: list[Rollout]) -> dict[str, Difference]:
    return {metric: paired(by_task(before, metric), by_task(after, metric)) for metric in METRICS}


def tested(policy: str, rollouts: list[Rollout]) -> Tested:
    found = {metric: rate_of(rollouts, metric) for metric in METRICS}
    return Tested(
        policy=policy,
        rates={
            metric: Share(rate=one.value, low=one.low, high=one.high, n=one.n)
            for metric, one in found.items()
        },
    )
