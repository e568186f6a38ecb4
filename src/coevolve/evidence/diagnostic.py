"""Diagnostics as data: a question asked of the evidence, with the thresholds of its alarms.

They are read from TOML: the built-in suite, then the `diagnostics/` folder of a run, where a name
that exists already replaces it. SQL of the built-in suite is ours; any other is untrusted text and
only ever runs in the locked connection.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from coevolve.core.errors import UserError
from coevolve.core.rollout import Value
from coevolve.harness.checked import checked, read_toml

Layer = Literal["score", "signal", "behaviour", "version"]
Level = Literal["warn", "critical"]
LAYERS: tuple[Layer, ...] = ("score", "signal", "behaviour", "version")
BUILT_IN = Path(__file__).parent / "diagnostics"


class Validation(Value):
    """Why an evolved diagnostic was accepted: how it told good versions from bad ones."""

    statistic: str
    value: float
    p_value: float | None = None
    versions: int
    """How many versions it was replayed over."""
    words: str = ""


class Diagnostic(Value):
    """A question with its answer in SQL."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    question: str
    layer: Layer
    sql: str
    """One SELECT with a row per version: `version`, `value`, `n`, and `low`, `high` where known.
    A null value counts as no row."""
    direction: Literal["above", "below"] = "above"
    """On which side of a threshold the alarm is."""
    warn: float | None = None
    critical: float | None = None
    least: int = Field(default=10, ge=1)
    """No alarm is raised on a smaller n."""
    domains: tuple[str, ...] = ("*",)
    blocks: bool = False
    """A critical alarm keeps the version from being promoted."""
    rollouts: str = ""
    """Condition on the view `rollouts`: those behind an alarm. Empty: none in particular."""
    provenance: str = ""
    """Where it comes from."""
    validation: Validation | None = None
    since: int = 0
    """The first version that it is asked of."""
    revised: int = 0
    """The first version that its thresholds hold for."""
    built_in: bool = False
    """Whether its SQL came with the program. A file cannot claim it."""

    @model_validator(mode="after")
    def _ordered(self) -> "Diagnostic":
        if self.warn is not None and self.critical is not None:
            outer, inner = (
                (self.critical, self.warn)
                if self.direction == "above"
                else (self.warn, self.critical)
            )
            if outer < inner:
                raise ValueError(f"critical {self.critical} is reached before warn {self.warn}")
        return self

    def applies(self, domains: Iterable[str]) -> bool:
        """Whether it is about a run with these domains."""
        return "*" in self.domains or bool(set(self.domains) & set(domains))

    def level(self, value: float, n: int) -> Level | None:
        """What a value means, None for nothing."""
        if n < self.least:
            return None
        levels: tuple[tuple[Level, float | None], ...]
        levels = (("critical", self.critical), ("warn", self.warn))
        for level, threshold in levels:
            if threshold is not None and self.beyond(value, threshold):
                return level
        return None

    def threshold(self, level: Level) -> float:
        """The number that an alarm of this level has passed."""
        found = self.critical if level == "critical" else self.warn
        assert found is not None
        return found

    def beyond(self, value: float, threshold: float) -> bool:
        return value > threshold if self.direction == "above" else value < threshold


class Suite(NamedTuple):
    """Diagnostics by name."""

    diagnostics: dict[str, Diagnostic]

    def of(self, domains: Iterable[str]) -> list[Diagnostic]:
        """Those about a run with these domains, layer by layer."""
        chosen = [one for one in self.diagnostics.values() if one.applies(domains)]
        return sorted(chosen, key=lambda one: LAYERS.index(one.layer))


def load_suite(run: Path | None = None) -> Suite:
    """The built-in suite, and over it what a run has of its own."""
    found = {one.name: one for one in read_folder(BUILT_IN, built_in=True)}
    if run is not None:
        found |= {one.name: one for one in read_folder(run / "diagnostics")}
    return Suite(found)


def read_folder(folder: Path, built_in: bool = False) -> list[Diagnostic]:
    """All diagnostics of the TOML files in a folder, in the order of their names."""
    found: dict[str, Path] = {}
    read: list[Diagnostic] = []
    for file in sorted(folder.glob("*.toml")):
        for diagnostic in read_file(file, built_in):
            if diagnostic.name in found:
                raise UserError(
                    f"{file}: '{diagnostic.name}' is in {found[diagnostic.name]} too; rename one"
                )
            found[diagnostic.name] = file
            read.append(diagnostic)
    return read


def read_file(file: Path, built_in: bool = False) -> list[Diagnostic]:
    """One table per diagnostic, named after it."""
    read = []
    for name, values in read_toml(file).items():
        if not isinstance(values, dict):
            raise UserError(f"{file}: {name} = {values!r:.60} is no diagnostic; begin with [NAME]")
        whole = {**values, "name": name, "built_in": built_in}
        read.append(checked(Diagnostic, whole, f"{file}, [{name}]"))
    return read
