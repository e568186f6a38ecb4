"""How far backtests can be trusted: what they predicted beside what came of it.

Read off the lineage alone.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from coevolve.core.names import lookup
from coevolve.core.rollout import Value
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.harness.backtest import Backtest, Prediction
from coevolve.harness.patch import FACTORS, Patch
from coevolve.store.lineage import Lineage, Node
from coevolve.store.phases import Gate

Result = Literal["hit", "miss", "unclear", "untrained"]
"""unclear: nothing was predicted, or the metric was not measured. untrained: refused, or not judged
yet."""
Moved = Literal["up", "down", "same"]


class Line(Value):
    """One patch."""

    generation: int
    version: int | None
    """None if it was not trained."""
    factor: str
    layer: str
    metric: str
    wanted: str
    """The direction that the patch's author expects."""
    passed: bool
    predicted: Prediction
    before: float | None = None
    after: float | None = None
    moved: Moved | None = None
    """Where the metric went; None if nobody knows."""
    sure: bool = False
    """Whether the move is beyond noise; known of the valid rate only."""
    verdict: str = ""
    result: Result


class Total(NamedTuple):
    """All patches of one layer of factors, or of all."""

    layer: str
    patches: int
    refused: int
    unclear: int
    """Trained, and either nothing was predicted or the metric was not measured."""
    hits: Rate
    """Among trained patches with a prediction."""
    sure_hits: Rate
    """Among those of them whose metric moved beyond noise."""

    @property
    def misses(self) -> int:
        return self.hits.n - self.hits.successes

    def as_json(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "misses": self.misses,
            "hits": self.hits.as_json(),
            "sure_hits": self.sure_hits.as_json(),
        }


class Scorecard(NamedTuple):
    """Line by line, and summed up by layer; the last total is of all layers."""

    lines: list[Line]
    totals: list[Total]

    def as_json(self) -> dict[str, Any]:
        return {
            "lines": [line.model_dump() for line in self.lines],
            "totals": [total.as_json() for total in self.totals],
        }


def scorecard(lineage: Lineage) -> Scorecard:
    """The predictions of a run's backtests and what came of them."""
    trained = {
        (node.version.generation, node.version.author, node.version.patch.model_dump_json()): node
        for node in lineage.nodes
        if node.version.patch
    }
    lines = []
    for generation in lineage.generations:
        for one in generation.tests.tried if generation.tests else ():
            if one.backtest:
                key = (generation.number, one.author, one.patch.model_dump_json())
                lines.append(line_of(generation.number, one.patch, one.backtest, trained.get(key)))
    layers = sorted({line.layer for line in lines})
    totals = [total_of(name, [one for one in lines if one.layer == name]) for name in layers]
    return Scorecard(lines, [*totals, total_of("all", lines)])


def line_of(generation: int, patch: Patch, tested: Backtest, node: Node | None) -> Line:
    """One patch: prediction, outcome, and whether they agree."""
    gate = node.gate if node else None
    facts = outcome(patch, tested.prediction, gate) if gate else {"result": "untrained"}
    return Line(
        generation=generation,
        version=node.number if node else None,
        factor=patch.factor,
        layer=lookup("factor", patch.factor, FACTORS)[0],
        metric=patch.metric,
        wanted=patch.direction,
        passed=tested.passed,
        predicted=tested.prediction,
        **facts,
    )


def outcome(patch: Patch, predicted: Prediction, gate: Gate) -> dict[str, Any]:
    """Where the metric went, and whether that was predicted."""
    before, after = gate.moved.before, gate.moved.after
    found = {"before": before, "after": after, "verdict": gate.verdict}
    if before is None or after is None:
        return {**found, "result": "unclear"}
    moved: Moved = "up" if after > before else "down" if after < before else "same"
    change, result = gate.change, "hit" if moved == predicted else "miss"
    return {
        **found,
        "moved": moved,
        "sure": patch.metric == "valid" and (change.low > 0 or change.high < 0),
        "result": "unclear" if predicted == "unclear" else result,
    }


def total_of(layer: str, lines: Sequence[Line]) -> Total:
    """Counts, and the share of predictions that came true."""
    predicted = [line for line in lines if line.result in ("hit", "miss")]
    sure = [line for line in predicted if line.sure]
    return Total(
        layer=layer,
        patches=len(lines),
        refused=sum(not line.passed for line in lines),
        unclear=sum(line.result == "unclear" for line in lines),
        hits=wilson(sum(line.result == "hit" for line in predicted), len(predicted)),
        sure_hits=wilson(sum(line.result == "hit" for line in sure), len(sure)),
    )
