"""The test split, opened once: what a run has achieved, on tasks that nothing was decided by.

Invariant: whatever was measured the first time is what every later question is answered with.
"""

import time
from typing import Any

from coevolve.core.errors import UserError
from coevolve.core.rollout import Rollout
from coevolve.core.splits import Split
from coevolve.evaluation.clusters import rate_of
from coevolve.evaluation.paired import by_task, paired
from coevolve.evolution.deciding import spent_on
from coevolve.evolution.measuring import Measuring
from coevolve.ledger.events import STATES, Event
from coevolve.ledger.ledger import Ledger

ENDS = ("done", "stopped")


def final(ledger: Ledger, measuring: Measuring, count: int) -> dict[str, Any]:
    """The first policy and the last one on test tasks."""
    end = ended(ledger)
    if end is None:
        raise UserError(
            f"{ledger.folder} is {ledger.state()}: the test split is opened once, when a run has "
            f"ended; `coevolve resume {ledger.folder}` goes on with it"
        )
    policies = {"first": measuring.plan.policy, "last": str(end.payload["policy"])}

    def work() -> dict[str, Any]:
        began = time.monotonic()
        tasks = measuring.held_out(Split.TEST, count, "final")
        # Each policy once: where nothing is better than no training, they are the same.
        places = {policy: name for name, policy in reversed(policies.items())}
        asked = {
            policy: measuring.measure(policy, tasks, ledger.folder / "final" / name)
            for policy, name in places.items()
        }
        found = {name: asked[policy] for name, policy in policies.items()}
        every = [one for rollouts in asked.values() for one in rollouts]
        return {
            "tasks": len(tasks),
            "words": end.payload.get("words", ""),
            **{
                name: {"policy": policies[name], **rates(rollouts)}
                for name, rollouts in found.items()
            },
            "change": {
                metric: paired(by_task(found["first"], metric), by_task(found["last"], metric))
                .as_json()
                for metric in ("valid", "optimal")
            },
            "spent": spent_on(every, began),
        }  # fmt: skip

    found = ledger.phase(0, "final", work)
    if ledger.state() != end.kind:
        ledger.note(end.kind, **end.payload)
    return found


def ended(ledger: Ledger) -> Event | None:
    """How a run has ended, if it has and did not go on."""
    events = [event for event in ledger.events() if event.phase != "final"]
    last = next((one for one in reversed(events) if one.kind in STATES), None)
    return last if last and last.kind in ENDS and "policy" in last.payload else None


def rates(rollouts: list[Rollout]) -> dict[str, Any]:
    return {metric: rate_of(rollouts, metric).as_json() for metric in ("valid", "optimal")}
