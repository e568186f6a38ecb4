"""The engineer protocol: evidence of past rounds in, proposals for the next round's knobs out.

An engineer sees dev and train evidence only. What it proposes is projected onto the knob space and
kept within a trust region by whoever asked; it never touches reward, verifier or held-out tasks.
"""

from typing import Any, Literal, NamedTuple, Protocol

from pydantic import Field

from coevolve.core.rollout import Value
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.evidence.cells import Case, Cell


class Round(Value):
    """What is known of a finished round."""

    number: int
    knobs: dict[str, float]
    """What its training tasks were generated from."""
    dev: tuple[Cell, ...]
    """The checkpoint after the round on the fixed dev tasks, by all labels."""
    train: tuple[Cell, ...] = ()
    """Its training rollouts, by all labels, with groups."""
    cases: tuple[Case, ...] = ()
    """Failures on dev, chosen to differ."""
    engineer: str = ""
    explanation: str = ""
    """What the engineer said when it proposed these knobs."""
    verdict: Literal["kept", "reverted", "stopped"] = "kept"
    """What became of its checkpoint and knobs; of a stopped training the checkpoint was kept, but
    not the knobs. No more than that: the gate's numbers are not for engineers."""


class View(NamedTuple):
    """All that an engineer may look at."""

    space: KnobSpace
    incumbent: Knobs
    """The knobs in force."""
    history: tuple[Round, ...]
    """Finished rounds, oldest first; never empty."""
    training: dict[str, Any]
    """Bookkeeping: `round`, `rounds`, `steps`; what the reward is made of; and the recipe."""
    note: str = ""
    """What a person asked for, empty if nobody did."""
    returned: str = ""
    """The proposals that they sent back with it, in words."""
    reader: str = ""
    """The engineer who looks, where that matters."""

    @property
    def last(self) -> Round:
        return self.history[-1]


class Edit(Value):
    """One local change of one knob."""

    knob: str = Field(max_length=100)
    action: Literal["raise", "lower", "set"]
    value: float | None = None
    """For `set`; `raise` and `lower` go one step of the trust region."""


class Proposal(Value):
    """A configuration, as a whole or as local edits of the incumbent."""

    knobs: dict[str, Any] = {}
    """The whole configuration, unchecked; empty if there are edits."""
    edits: tuple[Edit, ...] = ()
    explanation: str = ""
    failure: str = ""
    """Why there is no usable proposal, if there is none: an engineer's failure is data."""
    shown: str = ""
    """What a model was shown, word for word; empty for rules and for further answers to it."""
    tokens: int = 0
    """What a model read and wrote to make it."""
    money: float = 0.0
    """What that cost."""


class Engineer(Protocol):
    """Anything that proposes."""

    name: str

    def propose(self, view: View, seed: int) -> list[Proposal]:
        """Proposals in order of preference; the same for the same view and seed."""
        ...
