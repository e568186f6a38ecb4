"""From a run folder to plain values that templates show: everything about a run, read once.

Pure functions of what is on the disk. Invariant: every rate carries its n, and what could not be
read is in `problems`.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from coevolve import __version__
from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.dashboard.boards import Boards, boards_of
from coevolve.dashboard.changes import Change, changes_of
from coevolve.dashboard.curves import Curves, curves_of
from coevolve.dashboard.durations import Timing, timing_of
from coevolve.dashboard.failing import Failures, failures_of
from coevolve.dashboard.headline import Headline, headline_of
from coevolve.dashboard.knobs import Levels, levels_of
from coevolve.dashboard.proposals import GenerationFacts, generations_of
from coevolve.dashboard.record import Record, read_record, read_rollouts
from coevolve.dashboard.text import written
from coevolve.dashboard.versions import VersionFacts, version_facts
from coevolve.harness.plan import Plan
from coevolve.store.layout import BASE, parts_of, sound


class Facts(NamedTuple):
    """A run, ready to be shown."""

    name: str
    folder: str
    state: str
    began: str
    ended: str
    reason: str
    """Why the run ended early, if it did."""
    plan: Plan | None
    headline: Headline
    versions: tuple[VersionFacts, ...]
    generations: tuple[GenerationFacts, ...]
    curves: Curves
    levels: Levels
    boards: Boards | None
    failing: Failures | None
    timing: Timing
    problems: tuple[str, ...]
    release: str = __version__

    @property
    def changes(self) -> tuple[Change, ...]:
        """What led to every version, and what came of it."""
        return changes_of(self.versions, self.generations)

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of the run."""
        return self.plan.model_dump(mode="json") if self.plan else {}

    def as_json(self) -> dict[str, Any]:
        """The numbers for scripts; texts and pictures stay in the page."""
        head, standing = self.headline, self.headline.standing
        shown: dict[str, Any] = plain(
            {
                "run": self.name,
                "state": self.state,
                **{name: getattr(head.answers.learned, name) for name in
                   ("answer", "sentence", "test")},
                **{name: getattr(head, name) for name in ("answers", "policy", "base", "final")},
                **{name: getattr(standing, name) for name in ("version", "told", "change")},
                "versions": [
                    {
                        **{name: getattr(one.version, name) for name in
                           ("number", "generation", "parent")},
                        **{name: getattr(one, name) for name in
                           ("changed", "author", "dev", "gate", "optimal", "falls")},
                        "verdict": one.words or None,
                    }
                    for one in self.versions
                ],
                "failing": self.failing,
                "spent": {name: float(used) for name, (used, _) in head.spent.items()},
                "seconds": self.timing.running_s,
                "work_seconds": self.timing.kinds,
                "orchestration": self.timing.share,
                "orchestration_is_upper_bound": self.timing.bound,
                "problems": self.problems,
            }
        )  # fmt: skip
        return shown


def facts_of(folder: Path) -> Facts:
    """Read a run folder."""
    return facts_from(read_record(folder))


def facts_from(record: Record) -> Facts:
    """Everything that follows from a record; adds to its problems."""
    space = record.domain.space if record.domain else None
    head = headline_of(record.lineage, record.plan, record.total, space)
    rest: dict[str, Any] = {  # read before `problems`, to which they add
        "versions": tuple(version_facts(record, node) for node in record.lineage.nodes),
        "generations": generations_of(record),
        "curves": curves_of(record),
        "levels": levels_of(record),
        "boards": boards_between(record, head.standing.told),
        "failing": failures_of(record.lineage, record.domain, head.standing.told),
        "timing": timing_of(record),
    }
    check_files(record)
    times = [event.time for event in record.events]
    return Facts(
        name=record.plan.name if record.plan else record.folder.resolve().name,
        folder=str(record.folder),
        state=record.state,
        began=min(times, default=""),
        ended=max(times, default=""),
        reason=written(record.reason),
        plan=record.plan,
        headline=head,
        problems=tuple(record.problems),
        **rest,
    )


def boards_between(record: Record, version: int | None) -> Boards | None:
    """The first policy beside a version on the gate tasks."""
    if version is None:
        return None
    places = (record.paths.base_gate, record.paths.version(version) / "gate")
    before, after = (read_rollouts(record, place) for place in places)
    return boards_of(record, before, after)


def check_files(record: Record) -> None:
    """Name the rollouts that are lost or cannot be read; those of training are looked at by
    whoever counts them."""
    try:
        parts = parts_of(record.folder, (Split.TRAIN, Split.DEV, Split.GATE))
    except UserError:
        return  # without a ledger, which is said already
    there = {(part.version, part.source) for part in parts}
    measured = (part for part in parts if part.source != "train")
    _, broken = sound(record.folder, measured, record.sums)
    for one in broken:
        name = one.file.relative_to(record.folder)
        record.trouble(f"{name} cannot be read: {one.reason}")
    lineage, paths = record.lineage, record.paths
    places = {BASE: paths.base_gate} if lineage.base else {}
    places |= {node.number: paths.version(node.number) / "gate" for node in lineage.nodes
               if node.gate}  # fmt: skip
    for number, place in places.items():
        if (number, "gate") not in there:
            record.trouble(f"the gate rollouts are missing: {place.relative_to(record.folder)}")


def plain(value: Any) -> Any:
    """Any value of a page as JSON values; numbers that JSON has no word for become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    if hasattr(value, "as_json"):
        return plain(value.as_json())
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"))
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [plain(member) for member in value]
    return str(value) if isinstance(value, Path) else repr(value)
