"""`coevolve run`, `resume` and `status`: rounds of training and redesign."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevolve.core.errors import UserError

if TYPE_CHECKING:
    from coevolve.cli.live import View
    from coevolve.evolution.rounds import Rounds
    from coevolve.ledger.approval import Decision

DEMO = Path(__file__).parents[1] / "configs" / "demo.toml"
"""What runs when no experiment is named."""
TALLIES = ("seconds", "phases", "counts")
"""Facts about a run that are numbers by name."""
UNFINISHED = {"broken off": "", "failed": "", "waiting": "nobody runs it: answer, then "}
"""States in which a run without a process needs one, and what comes first."""

Run = Annotated[Path, typer.Argument(help="Folder of a run.")]
Note = Annotated[str, typer.Option("--note", help="Said to the engineer, or to whoever reads.")]
Question = Annotated[
    int | None,
    typer.Option(help="Answer this one alone, as `status` numbers it, if it is still open."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]


def run(
    experiment: Annotated[
        Path | None, typer.Argument(help="A TOML file; without one, the built-in demo.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; runs/NAME if not given.")
    ] = None,
    engineer: Annotated[
        list[str] | None,
        typer.Option("--engineer", "-e", help="Repeatable; who proposes, by preference."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the experiment's.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Run rounds: train, measure, judge, let engineers redesign the tasks.

    Killed, it goes on with the same command, or with `coevolve resume FOLDER`.

    Engineers: fixed, random, uniform, learnability, bandit, ceiling, target, frontier; policy (the
    checkpoint itself), base (the untrained one), smollm2, or http://HOST/v1#MODEL.
    """
    from coevolve.harness.experiment import load_experiment

    changes: dict[str, Any] = {}
    for name, value in (("engineers", engineer), ("seed", seed), ("rounds", rounds)):
        if value is not None:
            changes[name] = value
    chosen = load_experiment(experiment or DEMO, changes)
    from coevolve.cli.live import view_of
    from coevolve.engines.trl.engine import TrlEngine
    from coevolve.evolution.assembly import create

    folder, view = output or Path("runs") / chosen.name, view_of(as_json)
    finish(create(chosen, folder, TrlEngine(), view.tell, view.say), view, as_json)


def resume(folder: Run, as_json: AsJson = False) -> None:
    """Go on with a run that was broken off; one that is done is only shown."""
    from coevolve.cli.evolving import finish as finish_tree
    from coevolve.cli.live import view_of
    from coevolve.engines.trl.engine import TrlEngine
    from coevolve.evolution.assembly import reopen
    from coevolve.evolution.rounds import Rounds

    view = view_of(as_json)
    found = reopen(folder, TrlEngine(), view.tell, view.say)
    if isinstance(found, Rounds):
        finish(found, view, as_json)
    else:
        finish_tree(found, view, as_json)


def finish(rounds: "Rounds", view: "View", as_json: bool) -> None:
    """Run to the end and say what came of it."""
    from coevolve.cli.show import PLAIN, out

    standing = view.run(rounds)
    if as_json:
        facts = {
            "policy": standing.policy,
            "rounds": [
                past.model_dump(mode="json", exclude={"dev", "cases"}) for past in standing.history
            ],
        }
        print(json.dumps(facts))
        return
    for past in standing.history:
        dev = sum(cell.valid for cell in past.dev), sum(cell.n for cell in past.dev)
        out.print(
            f"round {past.number} ({past.engineer}): dev {dev[0]}/{dev[1]} valid; {past.verdict}",
            **PLAIN,
        )
    out.print(f"policy: {standing.policy}", **PLAIN)
    out.print(f"look at it: coevolve report {rounds.ledger.folder} --open", **PLAIN)


def status(folder: Run, as_json: AsJson = False) -> None:
    """Where a run stands: state, round, phase, what it gained, what is left, time by phase."""
    from coevolve.dashboard.web.glance import read
    from coevolve.dashboard.web.places import Place
    from coevolve.dashboard.web.plain import plain
    from coevolve.ledger.ledger import Ledger

    if not folder.is_dir():
        raise UserError(f"{folder} is no folder of a run; runs are kept under runs/")
    with Ledger.open(folder) as ledger:
        facts, glance = ledger.summary(), read(Place(folder.name, folder), ledger)
    if as_json:
        print(json.dumps({**plain(glance), **facts}))
        return
    for name, value in {**facts, **glance.lines()}.items():
        words = (
            ", ".join(f"{key} {n:.4g}" for key, n in value.items()) if name in TALLIES else value
        )
        print(f"{name:12} {'-' if words is None else words}")
    if facts["process"] is None and facts["state"] in UNFINISHED:
        print(f"{'next':12} {UNFINISHED[facts['state']]}coevolve resume {folder}")


def approve(folder: Run, note: Note = "", question: Question = None) -> None:
    """Let a run that waits for a person go on."""
    decide(folder, "approve", note, question)


def revise(folder: Run, note: Note, question: Question = None) -> None:
    """Send a proposal back to the engineer, with a note that it is shown."""
    decide(folder, "revise", note, question)


def abort(folder: Run, note: Note = "", question: Question = None) -> None:
    """End a run that waits for a person; what it has is kept."""
    decide(folder, "abort", note, question)


def decide(folder: Path, decision: "Decision", note: str, question: int | None) -> None:
    from coevolve.ledger.approval import answer
    from coevolve.ledger.ledger import Ledger

    if decision == "revise" and not note.strip():
        raise UserError("--note is empty: say what the engineer should change")
    with Ledger.open(folder) as ledger:
        given, process = answer(ledger, decision, note, question), ledger.summary()["process"]
    print(f"{given.decision}: recorded as event {given.number} of {folder}")
    if process is None:
        print(f"nobody runs it now: coevolve resume {folder}")
