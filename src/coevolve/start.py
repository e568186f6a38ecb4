"""Runs from Python: a plan, one's own engineers, one's own domain.

import coevolve
found = coevolve.run(coevolve.Plan(versions=3), "runs/mine", engineers=[Mine()])
print(found.policy, found.lineage.best.words)
coevolve.read("runs/mine").versions()  # a frame of pandas
"""

from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.core.errors import UserError
from coevolve.dashboard.answers import answers_of
from coevolve.domains.base import Domain
from coevolve.engineers.base import Engineer
from coevolve.engines.base import Engine, Observe
from coevolve.engines.stage import steps_of
from coevolve.harness.plan import Plan, load_plan, make_plan
from coevolve.loop.create import More, Own, create, reopen
from coevolve.loop.final import final as open_test
from coevolve.loop.loop import run_loop
from coevolve.loop.run import Run, Say, quiet
from coevolve.store import tables
from coevolve.store.gauge import gauge_of
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage, lineage_of, plan_of
from coevolve.store.paths import Paths
from coevolve.store.phases import Final

FRAMES = ("pandas", "polars")


class Outcome(NamedTuple):
    """What a run has come to. Its tables are frames of pandas, or of Polars if that is named."""

    lineage: Lineage
    """All its versions: knobs and patches, evidence, verdicts."""
    policy: str
    """What it ends with: a folder, or the policy that it began with."""
    folder: Path

    def versions(self, library: str = "pandas") -> Any:
        """A row for each version: what it changed, what the gate said, what it cost."""
        return frame(tables.versions(self.lineage), library)

    def steps(self, library: str = "pandas") -> Any:
        """Every metric of every training step."""
        numbers = (node.number for node in self.lineage.nodes)
        return frame(list(steps_of(self.folder, numbers)), library)

    def rollouts(self, library: str = "pandas", columns: Sequence[str] | None = None) -> Any:
        """Train and dev rollouts. All columns include the texts, which may take much memory."""
        return arrow_frame(self.folder, library, columns)

    @property
    def answers(self) -> str:
        """Whether it learned, and whether engineers helped."""
        return "\n".join(answers_of(self.lineage, tables.space_of(self.lineage)).lines)

    def __repr__(self) -> str:
        return f"{self.lineage!r} in {self.folder}, ends with {self.policy}\n{self.answers}"

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{escape(line)}</p>" for line in self.answers.splitlines())
        return f"{lines}{self.lineage._repr_html_()}<p>It ends with {escape(self.policy)}</p>"


def run(
    plan: Plan | Mapping[str, Any] | str | Path = "rounds",
    folder: str | Path | None = None,
    *,
    engineers: Sequence[Engineer] = (),
    domain: Domain | None = None,
    engine: Engine | None = None,
    observe: Observe | None = None,
    say: Say = quiet,
) -> Outcome:
    """Run a plan to its end: a `Plan`, its values, the name of a preset or a TOML file.

    `engineers` take the place of those that the plan names, `domain` that of its domain, `engine`
    that of its engine. The folder is runs/NAME if not given; a run that was begun there goes on.
    """
    if isinstance(plan, Mapping):
        plan = make_plan(plan, "the plan")
    elif not isinstance(plan, Plan):
        plan = load_plan(plan)
    own = Own(engineers, domain)
    place = Path(folder) if folder else Path("runs") / plan.name
    return finished(create(own.named(plan), place, observe, say, engine, own=own))


def resume(
    folder: str | Path,
    *,
    versions: int | None = None,
    steps: int | None = None,
    engineers: Sequence[Engineer] = (),
    domain: Domain | None = None,
    engine: Engine | None = None,
    observe: Observe | None = None,
    say: Say = quiet,
) -> Outcome:
    """Go on with a run that was broken off, or give it more versions than were planned, or those
    that are to come more steps. Engineers and a domain of one's own have to be given again."""
    own, more = Own(engineers, domain), More(versions, steps)
    return finished(reopen(Path(folder), observe, say, engine, more=more, own=own))


def final(folder: str | Path, tasks: int = 1_000, *, domain: Domain | None = None) -> Final:
    """Open the test split of a run that has ended, once: its first and its last policy on tasks
    that decided nothing. Every later call returns what the first one found."""
    with Ledger.open(Path(folder).resolve()) as ledger:
        gauge = gauge_of(plan_of(ledger), Paths(ledger.folder), domain)
        return open_test(ledger, gauge, tasks)


def read(folder: str | Path) -> Outcome:
    """What a run has come to so far; nothing is run, and nothing is written."""
    with Ledger.open(Path(folder).resolve()) as ledger:
        return outcome(lineage_of(ledger), ledger.folder)


def finished(run: Run) -> Outcome:
    with run.ledger:
        return outcome(run_loop(run), run.ledger.folder)


def outcome(lineage: Lineage, folder: Path) -> Outcome:
    best = lineage.best
    policy = Paths(folder).find(lineage.policy(best.version if best else None))
    return Outcome(lineage, policy, folder)


def library_of(name: str) -> Any:
    """pandas or Polars."""
    if name not in FRAMES:
        raise UserError(f"frames are of {' or '.join(FRAMES)}, not of '{name}'")
    try:
        return import_module(name)
    except ImportError:
        raise UserError(f"this needs {name}: pip install {name}") from None


def frame(rows: list[dict[str, Any]], library: str) -> Any:
    """Rows as a frame; a column that only some of them have is empty in the others."""
    more = {"infer_schema_length": None} if library == "polars" else {}
    return library_of(library).DataFrame(rows, **more)


def arrow_frame(folder: Path, library: str, columns: Sequence[str] | None) -> Any:
    """Rollouts of the visible splits as a frame."""
    found = library_of(library)
    from pyarrow import concat_tables

    from coevolve.store.rollouts import SCHEMA

    unknown = [name for name in columns or () if name not in SCHEMA.names]
    if unknown:
        raise UserError(
            f"rollouts have no column '{unknown[0]}'; they have {', '.join(SCHEMA.names)}"
        )
    empty = SCHEMA.empty_table().select(columns or SCHEMA.names)
    parts = [tables.plain(empty, 0)]
    parts += [block for one in tables.rollouts(folder, columns) for block in one.blocks]
    whole = concat_tables(parts)
    return found.from_arrow(whole) if library == "polars" else whole.to_pandas()
