"""One version: what it changed, what it trained on, what was measured, and what the gate said.

Invariant: nothing is judged anew; what is shown is what was recorded.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from coevolve.core.task import Label
from coevolve.dashboard.knobs import harness_before
from coevolve.dashboard.numbers import label
from coevolve.dashboard.proposals import expected, in_words
from coevolve.dashboard.record import Record
from coevolve.dashboard.result import compared_with, rate_of
from coevolve.dashboard.text import Line, as_text, diff, written
from coevolve.domains.base import Domain
from coevolve.domains.change import one_change, version_words
from coevolve.engineers.breakdown import carrying
from coevolve.engines.base import Result
from coevolve.evaluation.clusters import cautious
from coevolve.evaluation.falls import Fall
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.evaluation.tally import str_key
from coevolve.harness.backtest import Backtest
from coevolve.harness.harness import Harness
from coevolve.harness.patch import changes, flat
from coevolve.harness.version import Version
from coevolve.store.cells import Case, Cell, merged
from coevolve.store.lineage import Lineage, Node
from coevolve.store.phases import Gate


class KnobChange(NamedTuple):
    """A knob that is another than in the parent."""

    name: str
    words: str
    before: float
    after: float


class Kind(NamedTuple):
    """Tasks of one kind: a row or a column of results."""

    name: str
    labels: dict[str, str]
    """As rollouts have them."""


class Evidence(NamedTuple):
    """Results on one kind of tasks."""

    tasks: str
    """dev or training."""
    rate: Rate
    dead: Rate | None
    """Groups in which every rollout earned the same; only training tries tasks several times."""
    failures: list[tuple[str, int]]
    down: str
    """The labels that rows are by."""
    across: str
    columns: list[Kind]
    rows: list[tuple[Kind, list[tuple[int, int] | None], tuple[int, int]]]
    """Valid and n of each column, and of the whole row."""


class VersionFacts(NamedTuple):
    """Everything about one version."""

    version: Version
    author: str
    changed: str
    """What it changes, in a sentence."""
    hypothesis: str
    expected: str
    """What its patch is to move."""
    knobs: tuple[KnobChange, ...]
    """Those that are other than in its parent."""
    diffs: tuple[tuple[str, tuple[Line, ...]], ...]
    """Every other factor that is."""
    backtest: Backtest | None
    trained: Result | None
    dev: Rate | None
    gate: Rate | None
    """Of valid answers."""
    optimal: Rate | None
    """The same of optimal ones."""
    falls: tuple[Fall, ...]
    """What it is worse at than the first policy."""
    judged: Gate | None
    objective: str
    """The metric that decides."""
    words: str
    """What the gate said."""
    against: str
    """What it compared the version with."""
    evidence: tuple[Evidence, ...]
    cases: tuple[Case, ...]
    missing: tuple[str, ...]
    """Phases that are not there."""

    @property
    def number(self) -> int:
        return self.version.number

    @property
    def label(self) -> str:
        """What it changes, in a word or two."""
        patch = self.version.patch
        if patch is None:
            return self.changed.removeprefix("no change: ")
        return written(patch.factor.removeprefix("recipe.").replace("_", " "))

    @property
    def verdict(self) -> str:
        """In one word; empty while it is not judged."""
        return self.version.verdict or ""


def version_facts(record: Record, node: Node) -> VersionFacts:
    """What the ledger has on a version."""
    version, gate, lineage = node.version, node.gate, record.lineage
    patch = version.patch
    before = harness_before(lineage, version.parent)
    tables = (
        evidence_of(record, "dev", node.dev.cells if node.dev else ()),
        evidence_of(record, "training", node.train.cells if node.train else ()),
    )
    phases = {"train": node.train, "dev": node.dev, "gate": gate}
    return VersionFacts(
        version=version,
        author=written(version.author),
        changed=changed(record, version, before),
        hypothesis=in_words(patch.hypothesis) if patch else "",
        expected=expected(patch) if patch else "",
        knobs=knob_changes(record.domain, before, version.harness) if before else (),
        diffs=diffs_of(before, version.harness) if before else (),
        backtest=backtest_of(lineage, version),
        trained=result_of(record, node),
        dev=tables[0].rate if tables[0] else None,
        gate=rate_of(gate.scores, lineage.plan) if gate else None,
        optimal=rate_of(gate.scores, lineage.plan, "optimal") if gate else None,
        falls=lineage.falls(node),
        judged=gate,
        objective=lineage.plan.objective.metric,
        words=written(gate.words) if gate else "",
        against=compared_with(lineage, gate.against) if gate else "",
        evidence=tuple(one for one in tables if one),
        cases=node.dev.cases if node.dev else (),
        missing=tuple(name for name, phase in phases.items() if phase is None),
    )


def changed(record: Record, version: Version, before: Harness | None) -> str:
    """What sets a version apart from its parent, in a sentence."""
    space = record.domain.space if record.domain else None
    return written(version_words(version, before or version.harness, space))


def diffs_of(before: Harness, after: Harness) -> tuple[tuple[str, tuple[Line, ...]], ...]:
    """The factors other than knobs in which a harness is another than its parent's."""
    old, new = flat(before), flat(after)
    return tuple(
        (name, diff(as_text(old[name]), as_text(new[name])))
        for name in changes(before, after)
        if name != "knobs"
    )


def knob_changes(domain: Domain | None, before: Harness, after: Harness) -> tuple[KnobChange, ...]:
    """The knobs that are others, and no more, the largest changes first; of those in use, if any
    of them is."""
    if domain is None:
        nothing = float("nan")
        names = dict.fromkeys([*before.knobs, *after.knobs])
        both = {n: (before.knobs.get(n, nothing), after.knobs.get(n, nothing)) for n in names}
        return tuple(
            KnobChange(written(name), f"{written(name)} {old:.6g} → {new:.6g}", old, new)
            for name, (old, new) in both.items()
            if old != new
        )
    old, new = (domain.space.project(one.knobs) for one in (before, after))
    pairs = new.difference(old)
    used = {knob.name for one in (old, new) for knob in one.in_use()}
    pairs = {name: pair for name, pair in pairs.items() if name in used} or pairs
    knobs = [domain.space.knobs[name] for name in pairs]
    knobs.sort(key=lambda one: -abs(new[one.name] - old[one.name]) / (one.high - one.low))
    return tuple(
        KnobChange(one.name, written(one_change(one, *pairs[one.name])), *pairs[one.name])
        for one in knobs
    )


def backtest_of(lineage: Lineage, version: Version) -> Backtest | None:
    """The backtest that a version's patch has passed."""
    if version.patch is None or version.generation >= len(lineage.generations):
        return None
    tests = lineage.generations[version.generation].tests
    tried = tests.tried if tests else ()
    return next((one.backtest for one in tried if one.patch == version.patch), None)


def result_of(record: Record, node: Node) -> Result | None:
    """What came of training; says so where the checkpoint is gone."""
    if node.train is None:
        return None
    inside = record.paths.find(node.policy)
    if inside != node.policy and not Path(inside).is_dir():
        record.trouble(f"the checkpoint of version {node.number} is missing: {node.policy}")
    return node.train.result


def evidence_of(record: Record, tasks: str, all_cells: Sequence[Cell]) -> Evidence | None:
    """Valid rollouts by four labels, two down and two across, with n; None if there are none."""
    if not all_cells:
        return None
    known = record.domain.buckets if record.domain else sorted(all_cells[0].labels)
    names = [name for name in known if carrying(all_cells, name)][:4]
    cells = carrying(all_cells, *names)
    whole = merged(cells, ())[0]
    failures = sorted(whole.failures.items(), key=lambda item: (-item[1], item[0]))
    down, across = names[0::2], names[1::2]
    columns = keys(cells, across)
    rows = []
    for key in keys(cells, down):
        members = [cell for cell in cells if key_of(cell, down) == key]
        found = {key_of(cell, across): cell for cell in merged(members, across)}
        counts = [(found[c].valid, found[c].n) if c in found else None for c in columns]
        total = merged(members, ())[0]
        rows.append((kind_of(down, key), counts, (total.valid, total.n)))
    return Evidence(
        tasks,
        cautious(whole.valid, whole.n, whole.tasks),
        wilson(whole.dead, whole.groups) if whole.groups and tasks == "training" else None,
        failures,
        " × ".join(down),
        " × ".join(across),
        [kind_of(across, column) for column in columns],
        rows,
    )


def key_of(cell: Cell, names: list[str]) -> tuple[Label, ...]:
    return tuple(cell.labels[name] for name in names)


def keys(cells: list[Cell], names: list[str]) -> list[tuple[Label, ...]]:
    """All combinations of labels, numbers in numeric order."""
    found = {key_of(cell, names) for cell in cells}
    return sorted(found, key=lambda key: [str_key(part) for part in key])


def kind_of(names: list[str], key: tuple[Label, ...]) -> Kind:
    words = " · ".join(label(part) for part in key) or "all"
    return Kind(words, {name: str(part) for name, part in zip(names, key, strict=True)})
