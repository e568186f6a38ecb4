"""The trainer protocol: what is known of all versions in, patches for the next version out.

A trainer is an engineer of the whole harness. It sees train and dev evidence only; every patch is
checked, backtested and judged by whoever asked.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from coevolve.core.rollout import Value
from coevolve.domains.knobs import KnobSpace
from coevolve.engineers.base import Round
from coevolve.evidence.health import Finding
from coevolve.evidence.locked import Answer
from coevolve.harness.patch import Patch
from coevolve.harness.version import Version


class Lineage(NamedTuple):
    """All that a trainer may look at."""

    domain: str
    space: KnobSpace
    components: Mapping[str, str]
    """The domain's reward components, with their meaning."""
    parent: Version
    """The best valid version: patches are patches of its harness."""
    versions: tuple[Version, ...]
    """All of them, in order, with their verdicts."""
    findings: tuple[Finding, ...]
    """Every diagnostic with its readings of all versions."""
    measured: Mapping[int, Round]
    """Trained versions as knob engineers see them: knobs, and dev and train evidence by bucket."""
    ask: Callable[[str], Answer]
    """The answer to one SELECT over the evidence; an `EvidenceError` says why there is none."""
    backtest: Callable[[Patch], dict[str, Any]]
    """What a patch of the parent would do to stored rollouts."""
    failures: int = 0
    """Generations in a row that brought nothing to keep. From 4 on, look at other domains' skills;
    from 5 on, prefer removing something."""
    switch: tuple[str, ...] = ()
    """Layers of factors that failed lately (`harness.patch.FACTORS`): try others first."""
    note: str = ""
    """What a person asked to be revised, empty if nobody did."""


class Suggestion(Value):
    """A patch that somebody proposes, unchecked."""

    patch: dict[str, Any] = {}
    """What `harness.patch.Patch` takes; empty if there is none."""
    skill: str = ""
    """The skill that it comes from, if it comes from one."""
    failure: str = ""
    """Why there is no patch: a trainer's failure is data."""
    shown: str = ""
    """What a model was shown, word for word; empty for rules."""
    tokens: int = 0
    money: float = 0.0
    calls: tuple[dict[str, Any], ...] = ()
    """Everything that a model asked for on its way to the patch, and what it was told."""
    diagnostics: tuple[dict[str, Any], ...] = ()
    """What `evidence.diagnostic.Diagnostic` takes: new ones, that are tried over history."""


class Trainer(Protocol):
    """Anything that proposes patches."""

    name: str

    def propose(self, lineage: Lineage, seed: int) -> list[Suggestion]:
        """In order of preference; the same for the same lineage and seed."""
        ...
