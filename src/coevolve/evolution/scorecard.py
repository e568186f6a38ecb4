"""How far backtests can be trusted: what they predicted beside what came of it.

Read off the ledger alone, from three phases of a version: `patch` (the version), `backtest` (what
was found) and `gate` (`change` of the valid rate, `moved` of the patch's metric).
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from coevolve.core.names import lookup
from coevolve.core.rollout import Value
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.evolution.backtests.backtested import Backtested, Prediction
from coevolve.harness.patch import FACTORS, Patch
from coevolve.harness.version import Version
from coevolve.ledger.ledger import Ledger

Kind = TypeVar("Kind", Version, Backtested)
Result = Literal["hit", "miss", "unclear", "untrained"]
"""unclear: nothing was predicted, or the metric was not measured. untrained: refused, or not judged
yet."""
Moved = Literal["up", "down", "same"]


class Line(Value):
    """One patch."""

    version: int
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


def scorecard(ledger: Ledger) -> Scorecard:
    """The predictions of a run's backtests and what came of them."""
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for event in ledger.events("phase"):
        if event.round is not None and event.phase in ("patch", "backtest", "gate"):
            found.setdefault(event.round, {})[event.phase] = event.payload
    lines = [
        line_of(known(Version, phases["patch"]), phases)
        for _, phases in sorted(found.items())
        if phases.get("patch", {}).get("patch") and "backtest" in phases
    ]
    layers = sorted({line.layer for line in lines})
    totals = [total_of(name, [one for one in lines if one.layer == name]) for name in layers]
    return Scorecard(lines, [*totals, total_of("all", lines)])


def line_of(version: Version, phases: dict[str, dict[str, Any]]) -> Line:
    """One version: prediction, outcome, and whether they agree."""
    patch = version.patch
    assert patch is not None
    tested, gate = known(Backtested, phases["backtest"]), phases.get("gate")
    facts = outcome(patch, tested.prediction, gate) if gate else {"result": "untrained"}
    return Line(
        version=version.number,
        factor=patch.factor,
        layer=lookup("factor", patch.factor, FACTORS)[0],
        metric=patch.metric,
        wanted=patch.direction,
        passed=tested.passed,
        predicted=tested.prediction,
        **facts,
    )


def outcome(patch: Patch, predicted: Prediction, gate: dict[str, Any]) -> dict[str, Any]:
    """Where the metric went, and whether that was predicted."""
    before, after = gate["moved"]["before"], gate["moved"]["after"]
    if before is None or after is None:
        return {"before": before, "after": after, "verdict": gate["verdict"], "result": "unclear"}
    moved: Moved = "up" if after > before else "down" if after < before else "same"
    change, result = gate["change"], "hit" if moved == predicted else "miss"
    return {
        "before": before,
        "after": after,
        "moved": moved,
        "sure": patch.metric == "valid" and (change["low"] > 0 or change["high"] < 0),
        "verdict": gate["verdict"],
        "result": "unclear" if predicted == "unclear" else result,
    }


def known(kind: type[Kind], payload: dict[str, Any]) -> Kind:
    """A value from a phase that records more beside it."""
    fields = {name: payload[name] for name in kind.model_fields}
    return kind.model_validate(fields)


def total_of(layer: str, lines: Sequence[Line]) -> Total:
    """Counts, and the share of predictions that came true."""
    told = [line for line in lines if line.result in ("hit", "miss")]
    sure = [line for line in told if line.sure]
    return Total(
        layer=layer,
        patches=len(lines),
        refused=sum(not line.passed for line in lines),
        unclear=sum(line.result == "unclear" for line in lines),
        hits=wilson(sum(line.result == "hit" for line in told), len(told)),
        sure_hits=wilson(sum(line.result == "hit" for line in sure), len(sure)),
    )
