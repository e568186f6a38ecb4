"""Skills: patch patterns as data, with the record of where they held and where they failed.

Rules are skills that come with the program. Invariant: whether a skill is offered, shared or turned
against follows from its record and nothing else.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Value
from coevolve.harness.diagnostic import Layer
from coevolve.harness.patch import FACTORS
from coevolve.harness.template import FITTING, NUMBERS, Template
from coevolve.harness.trigger import trigger
from coevolve.harness.version import Verdict

SIGNS: tuple[Layer, ...] = ("signal", "behaviour", "version", "score")
"""Layers of diagnostics, in the order in which skills of equal record are tried: without a signal
nothing else can be learned."""
DOMAINS_TO_SHARE = 2
"""Domains in which a learned skill must have held before others are offered it."""
FAILURES_TO_TURN = 3
"""Failures after which a skill may turn negative, and by how many times they must outnumber what
held."""


class Trial(Value):
    """What became of one version that a skill led to."""

    run: str
    """Its name, and a hash of its plan."""
    domain: str
    version: int
    verdict: Verdict
    gain: float | None = None
    """Mean change on gate tasks against the parent; None if it was not measured."""
    low: float | None = None
    high: float | None = None
    """Its 95 % interval."""
    n: int = 0
    """Gate tasks."""
    date: str = ""
    waits: bool = False
    """It came from elsewhere and no person has accepted it: it counts for nothing."""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.run, self.domain, self.version

    @property
    def held(self) -> bool:
        """Kept, and better beyond chance: what is kept as no worse speaks neither for nor
        against."""
        return self.verdict == "kept" and (self.low is None or self.low > 0)

    @property
    def failed(self) -> bool:
        """Trained and not kept; what a backtest rejected was never tried in earnest."""
        return self.verdict in ("pruned", "reverted")


class Skill(Value):
    """When to change what, how, and what should come of it."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    summary: str = Field(min_length=1, max_length=300)
    trigger: str = Field(default="", max_length=500)
    """When it applies (`harness.trigger`); empty: when nothing else does."""
    factor: str
    template: Template
    hypothesis: str = Field(min_length=1, max_length=900)
    """If we change X, then Y improves, because Z; `{old}` and `{new}` are filled in."""
    metric: str = "valid"
    direction: Literal["up", "down"] = "up"
    least: float = Field(default=0.0, ge=0)
    layer: Layer = "signal"
    """Where its signs show."""
    rank: int = 50
    """Among skills of equal record, the smaller comes first."""
    domains: tuple[str, ...] = ("*",)
    """Where it may be offered from the start; a learned one, where it was learned."""
    negative: bool = False
    """Do not do this when the trigger holds."""
    learned: bool = False
    """Distilled from a run, as opposed to written by a person."""
    provenance: str = ""
    waits: bool = False
    """It came from elsewhere and no person has accepted it."""
    evidence: tuple[Trial, ...] = ()

    @model_validator(mode="after")
    def _sound(self) -> "Skill":
        try:
            lookup("factor", self.factor, FACTORS)
            trigger(self.trigger)
        except UserError as error:
            raise ValueError(str(error)) from None
        kinds, kind = FITTING.get(self.factor, NUMBERS), self.template.kind
        if kind not in kinds:
            raise ValueError(f"a template '{kind}' is none for {self.factor}: {', '.join(kinds)}")
        return self

    def trials(self, domain: str = "") -> list[Trial]:
        """Those of a domain, or all, that count."""
        return [one for one in self.evidence if domain in ("", one.domain) and not one.waits]

    def held(self, domain: str = "") -> int:
        return sum(one.held for one in self.trials(domain))

    def failed(self, domain: str = "") -> int:
        return sum(one.failed for one in self.trials(domain))

    @property
    def held_in(self) -> tuple[str, ...]:
        """Domains in which it held, by name."""
        return tuple(sorted({one.domain for one in self.trials() if one.held}))

    @property
    def quarantined(self) -> bool:
        """Whether no engineer may hear of it: it is from elsewhere, was not accepted, and has not
        held here."""
        return self.waits and not self.held()

    def from_elsewhere(self) -> "Skill":
        """As it is taken in: nothing of its record counts until a person accepts it."""
        return self.model_copy(update={"waits": True, "evidence": self.told(waits=True)})

    def accepted(self) -> "Skill":
        """With all that came from elsewhere."""
        return self.model_copy(update={"waits": False, "evidence": self.told(waits=False)})

    def told(self, waits: bool) -> tuple[Trial, ...]:
        return tuple(one.model_copy(update={"waits": waits}) for one in self.evidence)

    def warns(self, domain: str) -> bool:
        """Whether it says what not to do in this domain."""
        if self.negative:
            return self.reaches(domain)
        if not self.trigger or self.quarantined:
            return False  # local search saw no sign, so its failures say nothing about one
        held, failed = self.held(domain), self.failed(domain)
        return failed >= FAILURES_TO_TURN and failed >= FAILURES_TO_TURN * held

    def offered(self, domain: str) -> bool:
        """Whether an engineer of this domain may follow it."""
        proven = not self.learned or bool(self.held_in)
        return proven and not self.negative and not self.warns(domain) and self.reaches(domain)

    def reaches(self, domain: str) -> bool:
        """Whether it is about this domain, or has held in enough others."""
        if self.quarantined:
            return False
        at_home = "*" in self.domains or domain in self.domains or domain in self.held_in
        return at_home or len(self.held_in) >= DOMAINS_TO_SHARE

    def applies(self, known: Mapping[str, float]) -> bool:
        """Whether its signs are there."""
        return trigger(self.trigger).holds(known)

    def tried(self, trial: Trial) -> "Skill":
        """With one more trial; one of the same version takes its place."""
        known = {one.key: one for one in self.evidence} | {trial.key: trial}
        ordered = sorted(known.values(), key=lambda one: (one.date, *one.key))
        return self.model_copy(update={"evidence": tuple(ordered)})
