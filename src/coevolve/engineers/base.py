"""The engineer protocol: what is known of a lineage in, patches of its front version out.

An engineer sees train and dev evidence only. What it proposes is checked, projected, kept within a
trust region, backtested and judged by whoever asked; it never touches verifier or held-out tasks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import Field

from coevolve.core.errors import EvidenceError, UserError
from coevolve.core.rollout import Value
from coevolve.diagnostics.connection import Answer
from coevolve.domains.base import Statistic
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.harness.diagnostic import Diagnostic, Finding, Reading
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch
from coevolve.harness.plan import Objective
from coevolve.harness.proposal import Proposal
from coevolve.harness.rules import BacktestRule, GateRule
from coevolve.harness.version import Version
from coevolve.store.cells import Case, Cell

REACH = 0.15
"""How far knobs may move in a version, as a share of their range, unless a plan says otherwise."""
MOST_WORDS = 1_000
"""Characters of a hypothesis."""


class Past(Value):
    """A trained version as engineers see it."""

    number: int
    knobs: dict[str, float]
    """What its training tasks were generated from."""
    dev: tuple[Cell, ...]
    """Its checkpoint on the fixed dev tasks, by all labels."""
    train: tuple[Cell, ...] = ()
    """Its training rollouts, by all labels, with groups."""
    explored: tuple[Cell, ...] = ()
    """Its checkpoint on a few tasks of kinds that are hardly trained on, by all labels."""
    cases: tuple[Case, ...] = ()
    """Failures on dev, chosen to differ."""
    engineer: str = ""
    explanation: str = ""
    """What the engineer said when it proposed these knobs."""
    bet: str = ""
    """What the backtest of its knobs said, in words."""
    verdict: Literal["kept", "reverted"] = "kept"
    """What became of it."""
    why: str = ""
    """Why it was kept or taken back, in words: the gate's numbers are not for engineers."""


class Refused(Value):
    """A patch that was never trained, and why."""

    patch: Patch
    words: str
    harness: Harness
    """What it would have come to."""
    before: Harness = Harness()
    """What it was to change."""
    asked: Any = None
    """The value that was proposed, where reach or projection made another of it."""


class Standing(NamedTuple):
    """Where a run stands."""

    base: float
    """The untrained policy's rate by the metric that counts, on tasks like those that decide."""
    noise: float
    """How far apart two trainings of the same harness end, as a standard deviation; 0: unknown."""
    gate: int
    """Attempts that decide on a version."""
    goes_on: bool
    """Whether a version is trained on from its parent's weights; otherwise from the first ones."""
    temperature: float
    """At which dev tasks and those that decide are answered."""
    width: int
    """Patches of a generation that are trained."""
    left: int
    """Versions that may still be trained."""
    budget: Mapping[str, float]
    """What may still be spent, of what is limited."""


class Acceptance(NamedTuple):
    """What a proposal has to pass to be trained, and to be kept."""

    objective: Objective = Objective()
    accept: Literal["no worse", "better", "higher"] = "no worse"
    backtest: BacktestRule = BacktestRule()
    gate: GateRule = GateRule()


def deaf(sql: str) -> Answer:
    raise EvidenceError("there is no evidence to ask")


class View(NamedTuple):
    """All of a lineage that an engineer may look at."""

    space: KnobSpace
    incumbent: Knobs
    """The knobs in force."""
    history: tuple[Past, ...]
    """Trained versions on the way to the parent, and what failed beside it, oldest first; never
    empty."""
    training: dict[str, Any]
    """Bookkeeping: `round`, `rounds`, `steps`; what the reward is made of; and the recipe."""
    target: Mapping[str, Statistic] = {}
    """What dev tasks are like: by knob, the statistic of tasks that it moves."""
    acceptance: Acceptance | None = None
    """By which rules proposals are taken and versions kept, where that is known."""
    note: str = ""
    """What a person asked for, empty if nobody did."""
    returned: str = ""
    """The proposals that they sent back with it, in words."""
    reader: str = ""
    """The engineer who looks, where that matters."""
    reach: float = REACH
    """How far knobs may move."""
    domain: str = ""
    components: Mapping[str, str] = {}
    """The domain's reward components, with their meaning."""
    parent: Version = Version(number=0, parent=None, harness=Harness(), verdict="root")
    """Patches are patches of its harness."""
    versions: tuple[Version, ...] = ()
    """All of them, in order, with their verdicts."""
    refused: tuple[Refused, ...] = ()
    """What was proposed and not trained, in order."""
    measured: Mapping[int, Past] = {}
    """Every trained version, by its number."""
    findings: tuple[Finding, ...] = ()
    """Every diagnostic with its readings of all versions."""
    factors: tuple[str, ...] = ("knobs",)
    """What may be patched."""
    ask: Callable[[str], Answer] = deaf
    """The answer to one SELECT over the evidence; an `EvidenceError` says why there is none."""
    read: Callable[[Diagnostic], tuple[Reading, ...]] = lambda diagnostic: ()
    """What a diagnostic says of each version, asked of one at a time."""
    backtest: Callable[[Patch, int], dict[str, Any]] = lambda patch, version: {
        "words": "there is no backtest"
    }
    """What a patch of a version would do to stored rollouts."""
    meanings: Mapping[str, str] = {}
    """What the domain's failure classes mean."""
    standing: Standing | None = None
    notebooks: Mapping[str, Sequence[str]] = {}
    """By engineer: what it asked, noted and proposed before, and what became of that."""
    failures: int = 0
    """Generations in a row that brought nothing to keep. From 4 on, look at other domains' skills;
    from 5 on, prefer removing something."""
    switch: tuple[str, ...] = ()
    """Layers of factors that failed lately (`harness.patch.FACTORS`): try others first."""

    @property
    def last(self) -> Past:
        return self.history[-1]

    def of(self, number: int) -> "View":
        """The same for a patch of another version, which has to be one that was kept."""
        kept = {one.number: one for one in self.versions if one.valid}
        if number not in kept:
            listed = ", ".join(map(str, kept)) or "none"
            raise UserError(f"version {number} was not kept; grow from one that was: {listed}")
        knobs = self.space.project(kept[number].harness.knobs)
        return self._replace(parent=kept[number], incumbent=knobs)

    @property
    def tried(self) -> set[str]:
        """Digests of every harness that was trained or refused."""
        trained = {one.harness.digest() for one in self.versions}
        return trained | {one.harness.digest() for one in self.refused}


class Edit(Value):
    """One local change of one knob."""

    knob: str = Field(max_length=100)
    action: Literal["raise", "lower", "set"]
    value: float | None = None
    """For `set`; `raise` and `lower` go one step of the trust region."""


class Engineer(Protocol):
    """Anything that proposes."""

    name: str

    def propose(self, view: View, seed: int) -> Sequence[Proposal | Patch]:
        """Patches of the parent, in order of preference; the same for the same view and seed."""
        ...


def change_knobs(knobs: Mapping[str, Any], words: str, author: str = "") -> Proposal:
    """A proposal of knobs; those that are not named stay as they are."""
    if not knobs:
        return Proposal(words=words)
    why = words[:MOST_WORDS] or "no reason given"
    return Proposal(
        patch=Patch(factor="knobs", value=dict(knobs), hypothesis=why, author=author), words=words
    )


def proposals_of(said: object) -> list[Proposal]:
    """What an engineer returns, as it is recorded: a bare patch is a proposal of it."""
    if not isinstance(said, Iterable) or isinstance(said, str | Patch | Proposal):
        raise TypeError(f"propose returned {said!r:.80}; return a list of coevolve.Patch, or []")
    found = []
    for one in said:
        if isinstance(one, Patch):
            one = Proposal(patch=one, words=one.hypothesis)
        if not isinstance(one, Proposal):
            raise TypeError(f"propose returned a list with {one!r:.80}; make it a coevolve.Patch")
        found.append(one)
    return found
