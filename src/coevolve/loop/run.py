"""What a run is made of: its plan, its record, and whoever does the work."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from coevolve.core.rollout import Rollout
from coevolve.diagnostics.health import Diagnosis, Health
from coevolve.engineers.ask import Make
from coevolve.engines import stage
from coevolve.harness.harness import Harness
from coevolve.harness.plan import Plan
from coevolve.store.gauge import Gauge
from coevolve.store.jobs import Work
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage
from coevolve.store.paths import Paths
from coevolve.store.phases import Phase

Kind = TypeVar("Kind", bound=Phase)
Say = Callable[[str], None]
Team = Callable[[str], Mapping[str, Make]]
"""How to make the engineers of a checkpoint."""


def quiet(line: str) -> None:
    """Says nothing."""


@dataclass
class Run:
    """The parts of one run, and where it stands."""

    plan: Plan
    ledger: Ledger
    gauge: Gauge
    team: Team
    work: Work
    """How versions are trained and measured."""
    say: Say = quiet
    note: str = ""
    """What a person asked for when versions were completed."""
    vain: int = 0
    """Generations in a row, since the program was started, in which nobody proposed anything that
    can be tried."""
    lineage: Lineage = field(init=False)
    paths: Paths = field(init=False)

    def __post_init__(self) -> None:
        self.lineage = Lineage(self.plan, str(self.ledger.folder / "ledger.db"))
        self.paths = Paths(self.ledger.folder)
        self.gauge.paths = self.paths

    def phase(self, place: str, name: str, work: Callable[[], Kind]) -> Kind:
        """The result of a phase: the recorded one, or else that of `work`, recorded now. Either way
        the lineage knows it."""
        self.ledger.phase(place, name, lambda: work().model_dump(mode="json"))
        event = self.ledger.find(f"phase/{place}/{name}")
        assert event is not None
        return self.lineage.take(event)  # type: ignore[return-value]

    def is_recorded(self, place: str, name: str) -> bool:
        return self.ledger.find(f"phase/{place}/{name}") is not None

    def gate(self, number: int | None) -> list[Rollout]:
        """The gate rollouts of a version, read back; None: of the first policy."""
        place = self.paths.base_gate if number is None else self.paths.version(number) / "gate"
        return self.gauge.measure(self.lineage.policy(number), self.gauge.gate, place)

    def clean(self, number: int | None) -> list[Rollout]:
        """A version in the clean room; None: the first policy."""
        return self.gauge.measure_clean(self.lineage.policy(number), self.paths.clean(number))

    def reference(self, number: int | None) -> list[Rollout]:
        """The same, or what came of it when the version was measured again."""
        check = self.lineage.checked(number)
        if check is None:
            return self.gate(number)
        place = self.paths.noise(f"check-{check.draw:02d}")
        policy = self.lineage.policy(number)
        return self.gauge.measure(policy, self.gauge.gate, place, check.draw)

    def health(self, only: Collection[str] | None = None) -> Health:
        """What all diagnostics say of the versions that there are now, or only the named ones and
        those that may block a version."""
        with Diagnosis(self.ledger.folder) as diagnosis:
            if only is None:
                return diagnosis.health()
            every = diagnosis.suite.of(diagnosis.domains())
            return diagnosis.health([one.name for one in every if one.blocks or one.name in only])


def decided(plan: Plan) -> Plan:
    """The plan with what its recipe leaves open decided: what is recorded is what is used."""
    recipe = stage.decided(plan.recipe, plan.policy, plan.engine)
    return plan.model_copy(update={"recipe": recipe})


def first_harness(plan: Plan, gauge: Gauge) -> Harness:
    """Of the first version: the named knobs as they are, the others as `start` says."""
    space = gauge.domain.space
    base = space.random(plan.seed) if plan.start == "random" else None
    knobs = space.project(space.whole(plan.knobs), base=base)
    return Harness(
        knobs=dict(knobs), reward=plan.reward, filters=plan.filters, wording=plan.wording,
        recipe=plan.recipe,
    )  # fmt: skip
