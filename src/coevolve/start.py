"""Runs from Python: a plan, one's own engineers, one's own domain.

import coevolve
found = coevolve.run(coevolve.Plan(versions=3), "runs/mine", engineers=[Mine()])
print(found.policy, found.lineage.best.words)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.domains.base import Domain
from coevolve.engineers.base import Engineer
from coevolve.engines.base import Engine, Observe
from coevolve.harness.plan import Plan, load_plan, make_plan
from coevolve.loop.create import More, Own, create, reopen
from coevolve.loop.final import final as open_test
from coevolve.loop.loop import run_loop
from coevolve.loop.run import Run, Say, quiet
from coevolve.store.gauge import gauge_of
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage, plan_of
from coevolve.store.paths import Paths
from coevolve.store.phases import Final


class Outcome(NamedTuple):
    """What a run has come to."""

    lineage: Lineage
    """All its versions: knobs and patches, evidence, verdicts."""
    policy: str
    """What it ends with: a folder, or the policy that it began with."""
    folder: Path


def run(
    plan: Plan | Mapping[str, Any] | str | Path = "rounds",
    folder: str | Path | None = None,
    *,
    engineers: Sequence[Engineer] = (),
    domain: Domain | None = None,
    engine: Engine | None = None,
    observe: Observe | None = None,
    say: Say = quiet,
) -> Outcome:
    """Run a plan to its end: a `Plan`, its values, the name of a preset or a TOML file.

    `engineers` take the place of those that the plan names, `domain` that of its domain, `engine`
    that of its engine. The folder is runs/NAME if not given; a run that was begun there goes on.
    """
    if isinstance(plan, Mapping):
        plan = make_plan(plan, "the plan")
    elif not isinstance(plan, Plan):
        plan = load_plan(plan)
    own = Own(engineers, domain)
    place = Path(folder) if folder else Path("runs") / plan.name
    return finished(create(own.named(plan), place, observe, say, engine, own=own))


def resume(
    folder: str | Path,
    *,
    versions: int | None = None,
    steps: int | None = None,
    engineers: Sequence[Engineer] = (),
    domain: Domain | None = None,
    engine: Engine | None = None,
    observe: Observe | None = None,
    say: Say = quiet,
) -> Outcome:
    """Go on with a run that was broken off, or give it more versions than were planned, or those
    that are to come more steps. Engineers and a domain of one's own have to be given again."""
    own, more = Own(engineers, domain), More(versions, steps)
    return finished(reopen(Path(folder), observe, say, engine, more=more, own=own))


def final(folder: str | Path, tasks: int = 1_000, *, domain: Domain | None = None) -> Final:
    """Open the test split of a run that has ended, once: its first and its last policy on tasks
    that decided nothing. Every later call returns what the first one found."""
    with Ledger.open(Path(folder).resolve()) as ledger:
        gauge = gauge_of(plan_of(ledger), Paths(ledger.folder), domain)
        return open_test(ledger, gauge, tasks)


def finished(run: Run) -> Outcome:
    with run.ledger:
        lineage = run_loop(run)
    best = lineage.best
    policy = run.paths.find(lineage.policy(best.version if best else None))
    return Outcome(lineage, policy, run.ledger.folder)
