"""An evolution: everything that decides a tree of versions, as sparse TOML."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from coevolve.core.names import lookup
from coevolve.harness.checked import checked, read_toml
from coevolve.harness.experiment import Plan
from coevolve.harness.harness import Harness
from coevolve.harness.rules import BacktestRule, DiagnosticRule, PromotionRule

SHIPPED = {path.stem: path for path in (Path(__file__).parents[1] / "configs").glob("tree*.toml")}
"""Trees that come with the package, by name."""


class Evolution(Plan):
    """A tree of versions. Each is trained from `policy`, under a harness of its own."""

    versions: int = Field(ge=1, le=10_000)
    """How many are trained, the root and merges among them."""
    width: int = Field(default=1, ge=1, le=64)
    """How many grow from one parent at the same time."""
    candidates: int = Field(default=6, ge=1, le=64)
    """How many patches are backtested at most to find those."""
    trainers: tuple[str, ...] = ("rules",)
    """Who proposes patches, in order of preference: rules, a knob engineer, policy, base, smollm2,
    or an address."""
    harness: Harness = Harness()
    """Of the root."""
    gate: PromotionRule = PromotionRule()
    backtest: BacktestRule = BacktestRule()
    approval: tuple[Literal["diagnosis", "design", "backtest", "completion"], ...] = ()
    asks_after: int = Field(default=2, ge=0)
    """Failures in a row after which a person has to approve every design; 0: never."""
    diagnostic: DiagnosticRule = DiagnosticRule()
    """When a new diagnostic is believed."""
    skills: Path | None = None
    """Folder of the skills that are used and added to; `skills` beside the run if not given."""


def load_evolution(word: str, changes: dict[str, Any]) -> Evolution:
    """A shipped tree by name, or a TOML file."""
    is_path = "/" in word or word.endswith(".toml")
    path = Path(word) if is_path else lookup("tree", word, SHIPPED)
    return make_evolution({**read_toml(path), **changes}, str(path))


def make_evolution(values: dict[str, Any], where: str) -> Evolution:
    """An evolution from plain values."""
    return checked(Evolution, values, where)
