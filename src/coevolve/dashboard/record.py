"""A run folder as it is found: what can be read of it, and in words what cannot.

Invariant: whatever is missing, cut off or damaged in a run is a problem to show, never an error.
Only a folder that holds no run at all is refused.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from coevolve.core.errors import CoevolveError, LedgerError, UserError
from coevolve.core.rollout import Message, Outcome, Rollout, StopReason
from coevolve.core.splits import Split
from coevolve.domains.base import Domain
from coevolve.domains.registry import get_domain
from coevolve.harness.experiment import Experiment, Plan, make_experiment
from coevolve.ledger.events import Event
from coevolve.ledger.ledger import Ledger


class Tried(NamedTuple):
    """A rollout as far as rates need it."""

    task_id: str
    sample: int
    valid: bool
    seconds: float


class Record(NamedTuple):
    """What is known of a run."""

    folder: Path
    events: tuple[Event, ...]
    config: dict[str, Any]
    """What the run was created with; empty if that cannot be read."""
    experiment: Experiment | None
    domain: Domain | None
    state: str
    """As the ledger has it; `broken off` for one that was killed, `unknown` without a ledger."""
    problems: list[str]
    """What is missing or broken, in the order in which it was found."""
    phases: dict[tuple[int | None, str | None], Event]
    """What each phase of each round recorded."""

    def payload(self, number: int, phase: str) -> dict[str, Any]:
        """What a phase recorded; empty if there is nothing."""
        event = self.phase(number, phase)
        return event.payload if event else {}

    def phase(self, number: int, name: str) -> Event | None:
        return self.phases.get((number, name))

    @property
    def tree(self) -> bool:
        """Whether its versions branch; those of rounds do not."""
        return "versions" in self.config

    @property
    def rounds(self) -> range:
        """Every round of which anything is recorded."""
        begun = [event.round for event in self.events if event.round is not None]
        return range(max(begun) + 1) if begun else range(0)

    def place(self, number: int, *names: str) -> Path:
        """Where the files of a round are."""
        return self.folder.joinpath("rounds", f"{number:02d}", *names)

    def trouble(self, text: str) -> None:
        """Note a problem, once."""
        if text not in self.problems:
            self.problems.append(text)


def read_record(folder: Path) -> Record:
    """Read all that is recorded of a run."""
    if not (folder / "ledger.db").is_file() and not any(folder.glob("rounds/*/*.json")):
        raise UserError(f"{folder} holds no run; runs are kept under runs/")
    problems: list[str] = []
    state = "unknown"
    try:
        with Ledger.open(folder) as ledger:
            events, broken = ledger.salvage()
            summary = ledger.summary()
            state = summary["state"]
            if state == "running" and summary["process"] is None:
                state = "broken off"
        problems += broken
    except LedgerError as error:
        problems.append(f"the ledger cannot be read: {error}")
        events = read_copies(folder, problems)
    config = next((event.payload for event in events if event.kind == "created"), {})
    experiment = domain = None
    try:
        experiment = experiment_of(config) if config else None
        domain = get_domain(experiment.domain) if experiment else None
    except CoevolveError as error:
        problems.append(str(error))
    if not config:
        problems.append("the configuration of the run is lost: knobs and boards cannot be shown")
    phases = {(event.round, event.phase): event for event in events if event.kind == "phase"}
    return Record(folder, tuple(events), config, experiment, domain, state, problems, phases)


def experiment_of(config: dict[str, Any]) -> Experiment:
    """The experiment of a run; of a tree of versions, what it has in common with rounds."""
    if "versions" in config:
        common = Plan.model_fields.keys() - {"approval"}
        recipe = config.get("harness", {}).get("recipe", {})
        config = {name: config[name] for name in common if name in config} | {"recipe": recipe}
    return make_experiment(config, "the configuration of the run")


def proposers(config: dict[str, Any]) -> list[str]:
    """Who proposes: the engineers of rounds, the trainers of a tree."""
    return [str(name) for name in config.get("engineers") or config.get("trainers") or ()]


def read_copies(folder: Path, problems: list[str]) -> list[Event]:
    """The phases by their copies for people, for when the ledger itself is damaged."""
    found = []
    for path in sorted(folder.glob("rounds/*/*.json")):
        try:
            value = json.loads(path.read_bytes())
            found.append(
                Event(
                    **{name: value[name] for name in ("number", "round", "phase", "started")},
                    time=value["ended"],
                    seconds=value["seconds"],
                    kind="phase",
                    payload=value["payload"],
                )
            )
        except (OSError, ValueError, KeyError, TypeError, ValidationError):
            problems.append(f"{path.relative_to(folder)} is not a copy of a phase")
    return sorted(found, key=lambda event: event.number)


def read_rollouts(record: Record, place: Path) -> list[Rollout]:
    """All rollouts below a folder; labels are text, as the files have them."""
    return [rollout_of(row) for row in read_rows(record, place)]


def read_tried(record: Record, place: Path) -> list[Tried]:
    """The same without text, labels and reward."""
    rows = read_rows(record, place, list(Tried._fields))
    return [Tried(**row) for row in rows]


def read_rows(
    record: Record, place: Path, columns: list[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of all Parquet files below a folder, those of whole files only."""
    import pyarrow
    from pyarrow import parquet

    from coevolve.evidence.store import SCHEMA

    for path in sorted(place.rglob("*.parquet")):
        try:
            rows = parquet.read_table(path, schema=SCHEMA, columns=columns).to_pylist()
        except (OSError, ValueError, pyarrow.ArrowException) as error:
            reason = " ".join(str(error).split())[:160]
            record.trouble(f"{path.relative_to(record.folder)} cannot be read: {reason}")
            continue
        yield from rows


def rollout_of(row: dict[str, Any]) -> Rollout:
    """A rollout as its file has it."""
    outcome = Outcome.model_construct(
        valid=row["valid"], optimal=row["optimal"], reward=row["reward"],
        components=dict(row["components"]), failure=row["failure"],
        details=json.loads(row["details"]),
    )  # fmt: skip
    same = (
        "task_id", "domain", "sample", "policy", "prompt_tokens", "completion_tokens",
        "mean_logprob", "min_logprob", "entropy", "seconds", "step", "group",
    )  # fmt: skip
    return Rollout.model_construct(
        split=Split(row["split"]),
        bucket=dict(row["bucket"]),
        messages=tuple(Message.model_construct(**turn) for turn in row["messages"]),
        outcome=outcome,
        stop=StopReason(row["stop"]),
        **{name: row[name] for name in same},
    )


def read_steps(record: Record, number: int) -> list[dict[str, float]]:
    """The metrics of every step of a round; a line that was cut off is left out, and said."""
    path = record.place(number, "stage", "steps.jsonl")
    found: list[dict[str, float]] = []
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
