"""Diagnostics as values: a question asked of the evidence, what it reads, and what is alarming.

SQL of the built-in suite is ours; any other is untrusted text and only ever runs locked.
"""

import operator
from collections.abc import Iterable
from typing import Literal

from pydantic import Field, model_validator

from coevolve.core.rollout import Value

Layer = Literal["score", "signal", "behaviour", "version"]
Level = Literal["warn", "critical"]
Direction = Literal["above", "below"]
"""On which side of a threshold the alarm is."""
HELD_TO_BLOCK = 2
"""Cheats that a grown diagnostic must have found before it may block."""
LAYERS: tuple[Layer, ...] = ("score", "signal", "behaviour", "version")


class Validation(Value):
    """Why an evolved diagnostic was accepted: how it told good versions from bad ones."""

    statistic: str
    value: float
    p_value: float | None = None
    versions: int
    """How many versions it was replayed over."""
    words: str = ""


class Sighting(Value):
    """A version that the clean room has judged, and whether a grown diagnostic raised an alarm."""

    run: str
    version: int
    alarmed: bool
    honest: bool


class Diagnostic(Value):
    """A question with its answer in SQL."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    question: str
    layer: Layer
    sql: str
    """One SELECT with a row per version: `version`, `value`, `n`, and `low`, `high` where known.
    A null value counts as no row."""
    direction: Direction = "above"
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
    grown: bool = Field(default=False, exclude_if=operator.not_)
    """Whether it comes from what the clean room found out (`diagnostics.grown`)."""
    sightings: tuple[Sighting, ...] = Field(default=(), exclude_if=operator.not_)
    """What became of versions that it did not grow from."""

    @model_validator(mode="after")
    def _ordered(self) -> "Diagnostic":
        warn, critical = self.warn, self.critical
        if warn is not None and critical is not None and self.beyond(warn, critical):
            raise ValueError(f"critical {critical} is reached before warn {warn}")
        return self

    @property
    def held(self) -> int:
        """Cheats that it raised an alarm on."""
        return sum(one.alarmed and not one.honest for one in self.sightings)

    @property
    def record(self) -> str:
        """The same in words."""
        return f"held {self.held} of {len(self.sightings)}" if self.sightings else "new"

    @property
    def retired(self) -> bool:
        """Whether it accused an honest version, or overlooks more cheats than it finds."""
        missed = sum(not one.alarmed and not one.honest for one in self.sightings)
        wrong = any(one.alarmed and one.honest for one in self.sightings)
        return wrong or missed > self.held + 1

    def with_sightings(self, seen: Iterable[Sighting]) -> "Diagnostic":
        """With more of a record, each version once; it may block once it has held twice."""
        known = {(one.run, one.version): one for one in (*self.sightings, *seen)}
        made = self.model_copy(update={"sightings": tuple(known[key] for key in sorted(known))})
        return made.model_copy(update={"blocks": made.held >= HELD_TO_BLOCK and not made.retired})

    @property
    def share(self) -> bool:
        """Whether its values are shares, by what it asks, or by the interval that it asks for."""
        return "what share" in self.question.lower() or "share_low(" in self.sql

    def applies(self, domains: Iterable[str]) -> bool:
        """Whether it is about a run with these domains."""
        own = "*" in self.domains or bool(set(self.domains) & set(domains))
        return own and not self.retired

    def level(self, value: float, n: int) -> Level | None:
        """What a value means, None for nothing."""
        if n < self.least:
            return None
        if self.critical is not None and self.beyond(value, self.critical):
            return "critical"
        return "warn" if self.warn is not None and self.beyond(value, self.warn) else None

    def alarm(self, reading: "Reading") -> "Alarm | None":
        """A reading beyond a threshold as an alarm."""
        if reading.level is None:
            return None
        threshold = self.critical if reading.level == "critical" else self.warn
        assert threshold is not None
        return Alarm(
            diagnostic=self.name,
            layer=self.layer,
            version=reading.version,
            level=reading.level,
            value=reading.value,
            threshold=threshold,
            direction=self.direction,
            n=reading.n,
            blocks=self.blocks and reading.level == "critical",
        )

    def beyond(self, value: float, threshold: float) -> bool:
        return value > threshold if self.direction == "above" else value < threshold


class Reading(Value):
    """What a diagnostic says about one version."""

    version: int
    value: float
    n: int
    low: float | None = None
    high: float | None = None
    level: Level | None = None


class Trend(Value):
    """How readings moved over the versions."""

    first: float
    last: float
    change: float
    slope: float
    """Per version, by least squares."""
    versions: int


class Finding(Value):
    """A diagnostic and all its readings."""

    diagnostic: Diagnostic
    readings: tuple[Reading, ...] = ()
    trend: Trend | None = None
    error: str = ""
    """Why it could not be asked."""


class Alarm(Value):
    """A reading beyond a threshold."""

    diagnostic: str
    layer: Layer
    version: int
    level: Level
    value: float
    threshold: float
    direction: Direction
    n: int
    blocks: bool
    """It keeps the version from being promoted."""

    @property
    def words(self) -> str:
        blocking = ", blocks promotion" if self.blocks else ""
        return (
            f"{self.level}: {self.diagnostic} is {self.value:.4g}, {self.direction} "
            f"{self.threshold:g} (version {self.version}, n {self.n:,}{blocking})"
        )


class DiagnosticTrial(Value):
    """What became of a proposed diagnostic."""

    diagnostic: Diagnostic
    """As accepted: with thresholds, validation and `since`; or as proposed."""
    accepted: bool = False
    reason: str = ""
    readings: dict[int, float] = {}
    labels: dict[int, bool] = {}
    """By version: whether it turned out good."""
    value: float | None = None
    """Of the statistic."""
    p_value: float | None = None
    family: int = 0
    """How many diagnostics the p-value takes into account."""
    stability: float | None = None
