"""One occasion of growth: is a diagnostic wanted, who proposes, what is accepted.

Invariant: it follows from the run's evidence and suite, its verdicts and the proposals alone. Where
it is recorded first and kept then, a run that was killed accepts and refuses the same.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from coevolve.core.rollout import Value
from coevolve.evidence.diagnostic import Diagnostic
from coevolve.evidence.health import Health
from coevolve.evolution.diagnostics.keeping import refused_trials
from coevolve.evolution.diagnostics.need import loud, needs_diagnostic
from coevolve.evolution.diagnostics.screening import from_grid
from coevolve.evolution.diagnostics.separation import labels_of
from coevolve.evolution.diagnostics.trials import Occasion, Trial, try_diagnostics, try_threshold
from coevolve.harness.rules import DiagnosticRule
from coevolve.harness.version import Version

Propose = Callable[[str], Sequence[Diagnostic]]
"""Diagnostics of an engineer, who is told why one is wanted."""


class Growth(Value):
    """What came of it."""

    reason: str = ""
    """Why a diagnostic was wanted; empty: none was."""
    trials: tuple[Trial, ...] = ()

    @property
    def accepted(self) -> list[Diagnostic]:
        return [trial.diagnostic for trial in self.trials if trial.accepted]


def grow(
    folder: Path,
    health: Health,
    versions: Sequence[Version],
    since: int,
    propose: Propose | None = None,
    rule: DiagnosticRule | None = None,
    seed: int = 0,
) -> Growth:
    """Try what is proposed for the versions from `since` on, if anything is wanted; without an
    engineer the grid proposes. Nothing is written: see `keeping.keep_trials`."""
    chosen = rule or DiagnosticRule()
    reason = needs_diagnostic(health, versions, chosen)
    if not reason:
        return Growth()
    occasion = Occasion(
        folder=folder, labels=labels_of(versions), since=since, rule=chosen, seed=seed
    )
    revised = [try_threshold(name, occasion) for name in loud(health, versions)]
    if propose is None:
        proposed = from_grid(occasion)
    else:
        proposed = [one.model_copy(update={"built_in": False}) for one in propose(reason)]
    earlier = tried_before(folder, proposed, occasion)
    trials = try_diagnostics(proposed, occasion.model_copy(update={"earlier": earlier}))
    return Growth(reason=reason, trials=(*(one for one in revised if one is not None), *trials))


def tried_before(folder: Path, proposed: Sequence[Diagnostic], occasion: Occasion) -> int:
    """How many other diagnostics were refused on the same versions."""
    now = {(one.name, one.sql) for one in proposed}
    return sum(
        trial.labels == occasion.labels and (trial.diagnostic.name, trial.diagnostic.sql) not in now
        for trial in refused_trials(folder)
    )
