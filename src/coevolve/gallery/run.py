"""Running a scenario: its lineage, and beside it the loop that only looks at the score.

    OUTPUT/NAME            the run, as `coevolve evolve` runs any
    OUTPUT/NAME-trained    the same without a backtest, where the backtest has rejected the patch:
                           what the other loop trains, and what the gate says to that

Both are runs that `coevolve diagnose` reads, and that go on where they were killed.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.engineers.base import View
from coevolve.evaluation.clean import CLEAN_ROOM
from coevolve.gallery import code, lake, math, swe
from coevolve.gallery.scenario import Scenario
from coevolve.gallery.score_only import Scored, scored
from coevolve.harness.patch import Patch
from coevolve.harness.plan import make_plan
from coevolve.loop.loop import run_loop
from coevolve.loop.run import Run, decided
from coevolve.loop.train import one_by_one
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage
from coevolve.store.phases import Gate

Say = Callable[[str], None]
SCENARIOS: dict[str, Scenario] = {
    one.name: one
    for one in (
        swe.LEAKING,
        code.TAMPERING,
        lake.DISCRETE,
        lake.BREVITY,
        swe.DEBUGGING,
        swe.ECHO,
        math.FILTERED,
        lake.BONUS,
        math.CONTAMINATION,
        math.KEYS,
        math.ANYWHERE,
        math.VERBOSE,
        code.SHOWN,
        lake.FORGETTING,
        lake.LUCKY,
        code.EXPLORING,
        math.BANK,
        swe.HINTS,
        lake.CALMER,
        math.EASIER,
        math.FASTER,
        math.UNFILTERED,
        lake.SMALLER,
    )
}
"""Faults first, then gains."""


class Proposer:
    """Proposes the patch of a scenario."""

    name = "gallery"

    def __init__(self, scenario: Scenario) -> None:
        self.patch = Patch.model_validate(scenario.patch)

    def propose(self, view: View, seed: int) -> list[Patch]:
        return [self.patch]


class Judgement(NamedTuple):
    """What a run made of a patch."""

    verdict: str
    by: str
    """The check that decided."""
    words: str

    @property
    def kept(self) -> bool:
        return self.verdict == "kept"


class Row(NamedTuple):
    """A line of the table."""

    scenario: Scenario
    score: Scored
    ours: Judgement
    trained: Judgement | None
    """What the gate says where the backtest had rejected the patch."""
    seconds: float
    folder: Path

    @property
    def right(self) -> bool:
        """A fault was not kept, or a gain was."""
        return self.ours.kept != self.scenario.fault

    def as_json(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario.name,
            "fault": self.scenario.fault,
            "what": self.scenario.what,
            "patch": dict(self.scenario.patch),
            "score": self.score.as_json(),
            "score_only": "kept" if self.score.kept else "dropped",
            "ours": self.ours._asdict(),
            "trained": self.trained._asdict() if self.trained else None,
            "right": self.right,
            "seconds": self.seconds,
            "folder": str(self.folder),
        }


def exhibit(scenario: Scenario, output: Path, say: Say, **changes: Any) -> Row:
    """Run a scenario, or read what was run; `changes` are those of its plan."""
    output = output.resolve()
    run = finished_run(scenario, output / scenario.name, None, say, **changes)
    runs, ours, trained = [run], judgement(run.lineage), None
    if ours.verdict == "rejected":
        first, again = run.ledger.folder, output / f"{scenario.name}-trained"
        run = finished_run(scenario, again, first, say, **{**changes, "backtest": {"on": False}})
        trained = judgement(run.lineage)
        runs.append(run)
    before, after = (one.harness for one in run.lineage.versions[:2])
    found = scored(run, scenario.score, (before, after))
    # What the phases took, whenever they were run.
    took = sum(event.seconds or 0.0 for one in runs for event in one.ledger.events("phase"))
    for one in runs:
        one.ledger.close()
    return Row(scenario, found, ours, trained, took, runs[0].ledger.folder)


def finished_run(
    scenario: Scenario, folder: Path, first: Path | None, say: Say, **changes: Any
) -> Run:
    """The lineage of a scenario, to its end; with the first version of another one, if given."""
    values = {**scenario.plan, "name": folder.name, "skills": folder / "library", **changes}
    plan = decided(make_plan(values, f"the scenario {scenario.name}"))
    (gauge, engine), proposer = scenario.parts(plan), Proposer(scenario)
    ledger = Ledger.create(folder, plan.model_dump(mode="json"))
    if first:
        reuse(first, folder)
    run = Run(
        plan,
        ledger,
        gauge,
        lambda checkpoint: {proposer.name: lambda: proposer},
        one_by_one(engine, gauge, None),
        lambda line: say(f"{folder.name}: {line}"),
    )
    run_loop(run)
    return run


FIRST = ("base", "twins", "noise", "versions/00")
"""All that the first version is, in the order in which it is taken over."""


def reuse(before: Path, after: Path) -> None:
    """Take over the first version of a run that begins alike, unless there is one already."""
    for name in FIRST:
        source, target = before / name, after / name
        if source.is_dir() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}")
            shutil.copytree(source, part, dirs_exist_ok=True)
            part.rename(target)


def judgement(lineage: Lineage) -> Judgement:
    """What was decided about the patch, and by which check."""
    tests = lineage.generations[1].tests
    assert tests
    for node in lineage.nodes[1:]:
        assert node.gate
        return Judgement(node.gate.verdict, check_of(node.gate), node.gate.words)
    tried = tests.tried[0]
    assert tried.backtest
    # The first thing that it found wrong, without its numbers in brackets.
    first = tried.backtest.words.partition("; ")[0].partition(" (")[0]
    return Judgement("rejected", f"backtest: {first}", tried.refused)


def check_of(gate: Gate) -> str:
    """Which check of the gate decided, in the order in which it asks them."""
    if gate.verdict == "kept":
        return ""
    if gate.blocking:
        names = [alarm.diagnostic for alarm in gate.blocking]
        return "the clean room" if names == [CLEAN_ROOM] else f"diagnostic {', '.join(names)}"
    if gate.change.high < 0:
        return "gate: worse"
    if gate.broken:
        return (
            "protected bucket" if gate.broken.keys() - gate.protected.keys() else "protected metric"
        )
    if gate.change.low <= 0:
        return "gate: not beyond chance"
    return "criterion"
