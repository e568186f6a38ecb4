"""Running a scenario: its tree, and beside it the loop that only looks at the score.

    OUTPUT/NAME            the tree, as `coevolve evolve` grows it
    OUTPUT/NAME-trained    the same without a backtest, where the backtest has rejected the patch:
                           what the other loop trains, and what the gate says to that

Both are runs that `coevolve diagnose` reads, and that go on where they were killed.
"""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.engineers.trainer import Lineage, Suggestion
from coevolve.evolution.evolving import Evolving
from coevolve.evolution.gallery.scenario import Scenario
from coevolve.evolution.gallery.score_only import Scored, scored
from coevolve.evolution.growing import one_by_one
from coevolve.evolution.tree import Tree
from coevolve.harness.evolution import make_evolution
from coevolve.harness.version import Version
from coevolve.ledger.ledger import Ledger

Say = Callable[[str], None]


class Proposer:
    """Proposes the patch of a scenario."""

    name = "gallery"

    def __init__(self, scenario: Scenario) -> None:
        self.patch = dict(scenario.patch)

    def propose(self, lineage: Lineage, seed: int) -> list[Suggestion]:
        return [Suggestion(patch=self.patch)]


class Judgement(NamedTuple):
    """What a tree made of a patch."""

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
    tree = grown_tree(scenario, output / scenario.name, None, say, **changes)
    version, trees = tree.versions[1], [tree]
    ours, trained = judgement(tree, version), None
    if version.verdict == "rejected":
        root, again = tree.ledger.folder, output / f"{scenario.name}-trained"
        tree = grown_tree(scenario, again, root, say, **{**changes, "backtest": {"on": False}})
        trained = judgement(tree, tree.versions[1])
        trees.append(tree)
    before, after = (one.harness for one in tree.versions[:2])
    found = scored(tree, scenario.score, (before, after))
    took = sum(seconds_of(one.ledger) for one in trees)
    for one in trees:
        one.ledger.close()
    return Row(scenario, found, ours, trained, took, trees[0].ledger.folder)


def grown_tree(
    scenario: Scenario, folder: Path, root: Path | None, say: Say, **changes: Any
) -> Evolving:
    """The tree of a scenario, grown to its end; from the root of another one, if given."""
    values = {**scenario.plan, "name": folder.name, **changes}
    evolution = make_evolution(values, f"the scenario {scenario.name}")
    parts, proposer = scenario.parts(evolution), Proposer(scenario)
    ledger = Ledger.create(folder, evolution.model_dump(mode="json"))
    if root:
        reuse(root, folder)
    tree = Evolving(
        evolution,
        ledger,
        parts.measuring,
        lambda checkpoint: {proposer.name: lambda: proposer},
        one_by_one(parts.engine, parts.measuring, None),
        folder / "library",
        partial(tell, say, folder.name),
    )
    tree.run()
    return tree


def tell(say: Say, name: str, line: str) -> None:
    say(f"{name}: {line}")


ROOT = ("base", "twins", "noise", "rounds/00")
"""All that the root of a tree is, in the order in which it is taken over."""


def reuse(before: Path, after: Path) -> None:
    """Take over the root of a tree with the same root, unless there is one already."""
    for name in ROOT:
        source, target = before / name, after / name
        if source.is_dir() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}")
            shutil.copytree(source, part, dirs_exist_ok=True)
            part.rename(target)


def judgement(tree: Tree, version: Version) -> Judgement:
    """What was decided about a version, and by which check."""
    assert version.verdict is not None
    if version.verdict == "rejected":
        found = tree.recorded(version.number, "backtest")["words"]
        return Judgement("rejected", f"backtest: {first_of(found)}", version.words)
    facts = tree.recorded(version.number, "gate")
    return Judgement(version.verdict, check_of(facts), version.words)


def first_of(words: str) -> str:
    """The first thing that a backtest found wrong, without its numbers in brackets."""
    return words.partition("; ")[0].partition(" (")[0]


def check_of(facts: dict[str, Any]) -> str:
    """Which check of the gate decided, in the order in which it asks them."""
    change = facts["change"]
    if facts["verdict"] == "kept":
        return ""
    if facts["blocking"]:
        names = [alarm["diagnostic"] for alarm in facts["blocking"]]
        return f"diagnostic {', '.join(names)}"
    if change["high"] < 0:
        return "gate: worse"
    if facts["broken"]:
        return "protected bucket"
    if change["low"] <= 0:
        return "gate: not beyond chance"
    if change["mean"] <= facts["floor"]:
        return "noise floor"
    return "criterion"


def seconds_of(ledger: Ledger) -> float:
    """What the phases of a run took, whenever they were run."""
    return sum(event.seconds or 0.0 for event in ledger.events("phase"))
