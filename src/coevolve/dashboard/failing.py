"""What fails now: the failures of the version that is told, beside those of the first one."""

from typing import NamedTuple

from coevolve.dashboard.numbers import interval, percent
from coevolve.domains import capture
from coevolve.domains.base import Domain
from coevolve.evaluation.clusters import cautious
from coevolve.evaluation.statistics import Rate
from coevolve.store.cells import Cell, pooled
from coevolve.store.lineage import Lineage, Node


class Failing(NamedTuple):
    """One class of failures on dev tasks."""

    name: str
    meaning: str
    before: Rate
    """Of all attempts of the first version."""
    now: Rate


class Failures(NamedTuple):
    """On dev tasks, which engineers see, too."""

    first: int
    version: int
    rows: tuple[Failing, ...]
    """The most frequent now first."""

    @property
    def failed(self) -> bool:
        """Whether anything fails now."""
        return bool(self.rows and self.rows[0].now.successes)

    @property
    def sentence(self) -> str:
        """What fails most now."""
        if not self.failed:
            return f"Nothing: version {self.version} fails at no dev task."
        most = self.rows[0]
        meaning = f" ({most.meaning})" if most.meaning else ""
        before = f"; {percent(most.before.value)} in version {self.first}"
        return (
            f"Most of all {most.name}{meaning}: {percent(most.now.value)} of the dev attempts of "
            f"version {self.version} {interval(most.now)}, n {most.now.n}"
            f"{before if self.first != self.version else ''}."
        )


def failures_of(lineage: Lineage, domain: Domain | None, told: int | None) -> Failures | None:
    """Those of a version, or of the newest; None where no version was measured."""
    measured = [node for node in lineage.nodes if node.dev]
    if not measured:
        return None
    chosen = next((node for node in measured if node.number == told), measured[-1])
    before, now = dev(measured[0]), dev(chosen)
    names = sorted({*before.failures, *now.failures}, key=lambda name: -now.failures.get(name, 0))
    rows = tuple(
        Failing(name, capture.meaning(domain, name), rate(before, name), rate(now, name))
        for name in names
    )
    return Failures(measured[0].number, chosen.number, rows)


def dev(node: Node) -> Cell:
    return pooled(node.dev.cells if node.dev else ())


def rate(cell: Cell, name: str) -> Rate:
    return cautious(cell.failures.get(name, 0), cell.n, cell.tasks)
