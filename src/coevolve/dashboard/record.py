"""A run folder as it is found: its lineage as far as it can be read, and in words what cannot.

Invariant: whatever is missing, cut off or damaged in a run is a problem to show, never an error.
Only a folder that holds no run at all is refused.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow

from coevolve.core.errors import CoevolveError, LedgerError, UserError
from coevolve.core.rollout import Rollout
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.registry import get_domain
from coevolve.harness.budget import Spent
from coevolve.harness.plan import Plan
from coevolve.loop.train import Job
from coevolve.store.approval import Question, answered, waiting
from coevolve.store.evaluations import restored
from coevolve.store.events import Event
from coevolve.store.jobs import job_of
from coevolve.store.layout import spoiled
from coevolve.store.ledger import Ledger, instead_of
from coevolve.store.lineage import Lineage, plan_of
from coevolve.store.paths import Paths
from coevolve.store.rollouts import read_file
from coevolve.store.seals import Sums
from coevolve.store.spent import spent_so_far
from coevolve.store.watch import is_copy

PLACES = ("run/*.json", "versions/*/*.json", "generations/*/*.json")
"""Where the copies of phases lie."""


class Record(NamedTuple):
    """What is known of a run."""

    folder: Path
    events: tuple[Event, ...]
    plan: Plan | None
    """None if it is lost; the lineage then stands on a plan of defaults."""
    lineage: Lineage
    domain: Domain | None
    state: str
    """As the ledger has it; `broken off` for one that was killed, `unknown` without a ledger."""
    spent: dict[int, Spent]
    """What each phase took, by the number of its event."""
    total: Spent
    """What the whole run took, with tries that were broken off."""
    reason: str
    """Why it ended early, if it did."""
    problems: list[str]
    """What is missing or broken, in the order in which it was found."""
    sums: Sums = {}
    """The seals of its files."""
    question: Question | None = None
    """What a person is asked now; the events hold all that it is about."""

    @property
    def paths(self) -> Paths:
        return Paths(self.folder)

    def trouble(self, text: str) -> None:
        """Note a problem, once."""
        if text not in self.problems:
            self.problems.append(text)


def is_run(folder: Path) -> bool:
    """Whether there is a ledger, or, where that is lost, the copies of its phases."""
    return (folder / "ledger.db").is_file() or any(folder.glob("versions/[0-9]*/*.json"))


def read_record(folder: Path) -> Record:
    """Read all that is recorded of a run."""
    if not is_run(folder):
        raise UserError(f"{folder} holds no run; {instead_of(folder)}")
    problems: list[str] = []
    state, reason = "unknown", ""
    question: Question | None = None
    plan: Plan | None = None
    total: Spent | None = None
    sums = Sums()
    try:
        with Ledger.open(folder, broken=True) as ledger:
            with suppress(LedgerError):
                question = waiting(ledger)
            events, broken = ledger.salvage()
            problems += broken
            state = str(ledger.summary()["state"])
            reason = early_end(ledger, events)
            with suppress(LedgerError):
                sums = ledger.sums()
            try:
                plan, total = plan_of(ledger), spent_so_far(ledger)
            except CoevolveError as error:
                problems.append(str(error))
    except LedgerError as error:
        problems.append(f"the ledger cannot be read: {error}")
        events = read_copies(folder, problems)
        with suppress(UserError):  # the plan that the first version was trained under
            job = job_of(Paths(folder).version(0), Job)
            plan = job.plan if job else None
    domain = None
    try:
        domain = get_domain(plan.domain) if plan else None
    except CoevolveError as error:
        problems.append(str(error))
    if plan is None:
        problems.append("the plan of the run is lost: knobs and boards cannot be shown")
    lineage, spent = folded(plan or Plan(), str(folder / "ledger.db"), events, problems)
    return Record(
        folder, tuple(events), plan, lineage, domain, state, spent,
        total or sum(spent.values(), Spent()), reason, problems, sums,
        question if state == "waiting" else None,
    )  # fmt: skip


def folded(
    plan: Plan, file: str, events: Sequence[Event], problems: list[str]
) -> tuple[Lineage, dict[int, Spent]]:
    """The lineage of all phases that can be read, and what each took."""
    lineage, spent = Lineage(plan, file), dict[int, Spent]()
    for event in events:
        if event.kind != "phase":
            continue
        try:
            spent[event.number] = lineage.take(event).spent
        except CoevolveError as error:
            problems.append(str(error))
    return lineage, spent


def early_end(ledger: Ledger, events: Sequence[Event]) -> str:
    """Why a run ended early, by its last event; empty if it did not."""
    last = events[-1] if events else None
    try:
        if last and last.kind == "answered" and (said := answered(ledger, last)):
            note = f": {said.note}" if said.note else ""
            return f"a person ended it{note}" if said.decision == "abort" else ""
        if last and last.kind in ("stopped", "failed"):
            found = (last.payload.get(name) for name in ("reason", "error"))
            return next((words for words in found if words and isinstance(words, str)), "")
    except LedgerError:
        pass  # a note of another shape tells nothing
    return ""


def read_copies(folder: Path, problems: list[str]) -> list[Event]:
    """The phases by their copies for people, for when the ledger itself is damaged."""
    found = []
    for path in sorted(one for pattern in PLACES for one in folder.glob(pattern)):
        if path.name in ("job.json", "result.json"):
            continue
        try:
            value = json.loads(path.read_bytes())
            if not is_copy(value, path, folder):
                raise ValueError(path)
            same = ("number", "place", "phase", "started", "seconds", "payload")
            values = {name: value.get(name) for name in same}
            found.append(Event(**values, time=str(value.get("ended", "")), kind="phase"))
        except (OSError, ValueError):
            problems.append(f"{path.relative_to(folder)} is not a copy of a phase")
    return sorted(found, key=lambda event: event.number)


def read_rollouts(record: Record, place: Path) -> list[Rollout]:
    """Those of whole Parquet files below a folder; labels are text, as the files have them."""
    found, changed = [], spoiled(record.folder, (), record.sums, place)
    for path, why in changed.items():
        record.trouble(f"{path.relative_to(record.folder)} cannot be read: {why}")
    for path in sorted(set(place.rglob("*.parquet")) - set(changed)):
        try:
            rows = read_file(path).to_pylist()
        except (OSError, ValueError, pyarrow.ArrowException) as error:
            reason = " ".join(str(error).split())[:160]
            record.trouble(f"{path.relative_to(record.folder)} cannot be read: {reason}")
            continue
        for row in rows:
            task = Task.model_construct(
                id=row["task_id"], domain=row["domain"], split=Split(row["split"]),
                bucket=dict(row["bucket"]),
            )  # fmt: skip
            found.append(restored(row, task))
    return found


def read_steps(record: Record, number: int) -> list[dict[str, float]]:
    """The metrics of every step of a version; a line that was cut off is left out, and said."""
    path = record.paths.version(number) / "stage" / "steps.jsonl"
    found: list[dict[str, float]] = []
    if changed := spoiled(record.folder, [path], record.sums):
        record.trouble(f"{path.relative_to(record.folder)} cannot be read: {changed[path]}")
        return found
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return found
    except (OSError, ValueError) as error:
        record.trouble(f"{path.relative_to(record.folder)} cannot be read: {error}")
        return found
    for count, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
            found.append({k: float(v) for k, v in value.items() if isinstance(v, int | float)})
        except (ValueError, AttributeError):
            record.trouble(f"{path.relative_to(record.folder)}: line {count} is cut off or no JSON")
            break
    return found
