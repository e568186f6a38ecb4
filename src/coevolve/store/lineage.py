"""The lineage of a run: what its events add up to. There is one fold, and everybody reads it: the
loop while it runs and resumes, commands, pages, SQL views and comparisons.

Invariant: it follows from the plan and the recorded phases alone, whenever they are read.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from coevolve.core.errors import LedgerError, UserError
from coevolve.evaluation.difference import Difference
from coevolve.evaluation.falls import Fall, falls
from coevolve.harness.budget import Spent
from coevolve.harness.harness import Harness
from coevolve.harness.plan import Plan, make_plan, merged
from coevolve.harness.proposal import Proposal
from coevolve.harness.version import Version
from coevolve.store.events import Event
from coevolve.store.ledger import Ledger
from coevolve.store.phases import (
    Begin,
    Best,
    Check,
    Dev,
    Diagnose,
    Final,
    Gate,
    Grown,
    Learn,
    Noise,
    Phase,
    Propose,
    Scores,
    Tests,
    Train,
    phase_of,
)


@dataclass
class Node:
    """A version and all that is recorded of it."""

    version: Version
    train: Train | None = None
    dev: Dev | None = None
    gate: Gate | None = None

    @property
    def number(self) -> int:
        return self.version.number

    @property
    def policy(self) -> str:
        """Its checkpoint, relative to the run."""
        assert self.train
        return self.train.result.policy

    @property
    def spent(self) -> Spent:
        phases = (one for one in (self.train, self.dev, self.gate) if one)
        return sum((one.spent for one in phases), Spent())


@dataclass
class Generation:
    """One round of proposals: who said what, and what became of it. The first has none."""

    number: int
    check: Check | None = None
    diagnose: Diagnose | None = None
    proposed: list[Propose] = field(default_factory=list)
    """Several, where a person sent proposals back."""
    tests: Tests | None = None
    learn: Learn | None = None

    @property
    def probed(self) -> Spent:
        """What was drawn to explore and to try proposals."""
        return sum((one.spent for one in (self.diagnose, self.tests) if one), Spent())


@dataclass(repr=False)
class Lineage:
    """All versions of a run."""

    plan: Plan
    file: str = "ledger.db"
    """Of the record."""
    begin: Begin | None = None
    base: Scores | None = None
    clean: Scores | None = None
    """The first policy in the clean room; None where there is none."""
    noise: Noise | None = None
    final: Final | None = None
    nodes: list[Node] = field(default_factory=list)
    generations: list[Generation] = field(default_factory=list)

    def __repr__(self) -> str:
        kept = sum(one.valid for one in self.versions)
        return f"<lineage of {self.plan.name}: {len(self.nodes)} versions, {kept} kept>"

    def _repr_html_(self) -> str:
        from coevolve.core.html import table
        from coevolve.store.tables import glance

        return table(glance(self), repr(self)[1:-1])

    def take(self, event: Event) -> Phase:
        """Add what a phase has recorded; the same again changes nothing."""
        place, name = event.place or "", event.phase or ""
        where = f"event {event.number} ({place} {name}) of {self.file}"
        phase = phase_of(name, event.payload, where)
        kind, _, number = place.partition("/")
        try:
            if kind == "versions":
                self.of_version(int(number), phase)
            elif kind == "generations":
                self.of_generation(int(number), name, phase)
            elif name in ("begin", "base", "clean", "noise", "final"):
                setattr(self, name, phase)
            else:
                raise ValueError(f"{name} is not a phase of {place}")
        except (ValueError, IndexError) as error:
            raise LedgerError(f"{where}: what comes before it is lost ({error})") from None
        return phase

    def of_version(self, number: int, phase: Phase) -> None:
        match phase:
            case Grown() if number == len(self.nodes):
                self.nodes.append(Node(phase.version))
            case Train():
                self.nodes[number].train = phase
            case Dev():
                self.nodes[number].dev = phase
            case Gate():
                node = self.nodes[number]
                node.gate = phase
                judged = {"verdict": phase.verdict, "words": phase.words}
                node.version = node.version.model_copy(update=judged)

    def of_generation(self, number: int, name: str, phase: Phase) -> None:
        if number > len(self.generations) + 1:
            raise IndexError(f"no generation {number - 1}")
        while len(self.generations) <= number:
            self.generations.append(Generation(len(self.generations)))
        found = self.generations[number]
        match phase:
            case Propose():
                attempt = int(name.partition("-")[2] or 0)
                found.proposed[attempt:] = [phase]
            case Tests():
                found.tests = phase
            case Diagnose():
                found.diagnose = phase
            case Check():
                found.check = phase
            case Learn():
                found.learn = phase

    @property
    def versions(self) -> list[Version]:
        return [node.version for node in self.nodes]

    @property
    def proposals(self) -> list[Proposal]:
        """All that engineers have said, in order."""
        phases = (phase for one in self.generations for phase in one.proposed)
        return [said for phase in phases for listed in phase.proposals.values() for said in listed]

    @property
    def counted(self) -> int:
        """Versions that the plan's number is about."""
        return sum(not version.control for version in self.versions)

    @property
    def open(self) -> bool:
        """Whether there is anything left to train."""
        return self.counted < self.plan.versions

    def undecided(self, generation: Generation) -> bool:
        """Whether what a generation has tried may still be trained."""
        newest = generation is self.generations[-1] and generation.learn is None
        return newest and all(one.generation != generation.number for one in self.versions)

    @property
    def next_generation(self) -> int:
        """The one that is not complete yet; the first version is generation 0."""
        return 1 + max((one.number for one in self.generations if one.learn), default=0)

    def checked(self, number: int | None) -> Check | None:
        """When a version was last measured again, if it was."""
        checks = [one.check for one in self.generations if one.check]
        return next((one for one in reversed(checks) if one.version == number), None)

    @property
    def failures(self) -> int:
        """Generations in a row, up to the newest, that brought nothing to keep."""
        kept = {one.generation for one in self.versions if one.valid}
        judged = [one for one in self.generations if one.number not in kept and one.learn]
        last = max(kept, default=-1)
        return sum(one.number > last for one in judged)

    @property
    def wishes(self) -> list[tuple[str, Proposal]]:
        """What engineers said last, with their names."""
        said = self.generations[-1].proposed[-1:] if self.generations else []
        last = (pair for phase in said for pair in phase.proposals.items())
        return [(name, one) for name, listed in last for one in listed]

    @property
    def strongest(self) -> list[Node]:
        """Valid versions by the objective on gate tasks; the older of two alike first."""
        valid = [node for node in self.nodes if node.version.valid and node.gate]
        return sorted(valid, key=lambda node: (-self.score(node), node.number))

    def score(self, node: Node) -> float:
        assert node.gate
        return node.gate.scores.mean(self.plan.objective.metric)

    @property
    def front(self) -> Node | None:
        """The version that others grow from; None: the first policy.

        Where better is asked for, the strongest; otherwise training goes on from the newest that
        was kept, or the strongest of those that were kept at the same time.
        """
        found = self.strongest
        if not found or self.plan.accept != "no worse":
            return found[0] if found else None
        newest = max(node.version.generation for node in found)
        return next(node for node in found if node.version.generation == newest)

    @property
    def best(self) -> Best | None:
        """What the run would end with now, by its last verdict; None before the first."""
        judged = [node.gate for node in self.nodes if node.gate]
        return judged[-1].best if judged else None

    def harness(self, number: int | None) -> Harness:
        """What a patch of a version is a patch of; of the first policy, what the run began with."""
        return self.nodes[number or 0].version.harness

    def policy(self, number: int | None) -> str:
        """The checkpoint of a version, relative to the run; None: the first policy."""
        return self.plan.policy if number is None else self.nodes[number].policy

    def unaided(self, number: int) -> int | None:
        """The newest version on the way to one, itself included, that no proposal had changed
        anything of; None: the first policy."""
        found: int | None = number
        at: int | None = number
        while at is not None:
            one = self.versions[at]
            at = one.parent
            if one.patch or one.merged:
                found = at
        return found

    def falls(self, node: Node) -> tuple[Fall, ...]:
        """What a version is worse at than the first policy, though something else may be better."""
        if node.gate is None or self.base is None:
            return ()
        changes, rule = node.gate.base.metrics, self.plan.gate
        before, after = self.base.rates, node.gate.scores.rates
        return falls(before, after, changes, self.plan.objective.protect, rule.margin)

    def best_before(self, number: int) -> int | None:
        """The strongest checkpoint before a version, the first policy included: many small falls
        must not add up."""
        earlier = [one for one in self.strongest if one.number < number]
        base = self.base.mean(self.plan.objective.metric) if self.base else 0.0
        return earlier[0].number if earlier and self.score(earlier[0]) > base else None

    def control_of(self, version: Version) -> int | None:
        """The control of a version's generation, if there is one beside it."""
        beside = (version.generation, version.parent)
        own = [one for one in self.versions if (one.generation, one.parent) == beside]
        controls = [one.number for one in own if one.control]
        return controls[0] if controls and not version.control else None

    @property
    def controls(self) -> list[Difference]:
        """Between controls and what they repeat, where every version begins with the first
        policy."""
        repeated = [one.gate for one in self.nodes if one.version.control and one.gate]
        return [one.change for one in repeated] if self.plan.start_from == "base" else []

    @property
    def control_rollouts(self) -> int:
        """Drawn in training to tell what patches did."""
        controls = (one.train for one in self.nodes if one.version.control and one.train)
        return sum(train.spent.rollouts for train in controls)


def lineage_of(ledger: Ledger) -> Lineage:
    """The lineage that a ledger records."""
    return fold(plan_of(ledger), ledger.events("phase"), str(ledger.folder / "ledger.db"))


def fold(plan: Plan, events: Iterable[Event], file: str) -> Lineage:
    found = Lineage(plan, file)
    for event in events:
        found.take(event)
    return found


def plan_of(ledger: Ledger) -> Plan:
    """What a run was begun with, and how far it was extended since."""
    values = dict(ledger.config)
    if "versions" not in values or "target" not in values:
        raise LedgerError(
            f"{ledger.folder} was begun by an older coevolve, whose runs this one does not read; "
            "begin another run"
        )
    for event in ledger.events("extended"):
        values = merged(values, event.payload)
    file = ledger.folder / "ledger.db"
    try:
        return make_plan(values, f"event 1 (created) of {file}")
    except UserError as error:
        raise LedgerError(f"{error}: it was recorded by another coevolve, or changed") from None
