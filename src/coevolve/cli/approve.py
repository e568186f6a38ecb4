"""`coevolve approve`: let a run go on that waits for a person; also how any answer is recorded."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coevolve.cli.resume import Run
from coevolve.core.errors import UserError
from coevolve.core.names import typed

if TYPE_CHECKING:
    from coevolve.store.approval import Decision

Note = Annotated[
    str, typer.Option("--note", help="A note for the engineer, and for whoever reads the record.")
]
Question = Annotated[
    int | None,
    typer.Option(help="Only answer this question, by its number in `status`."),
]


def approve(folder: Run, note: Note = "", question: Question = None) -> None:
    """Let a run continue that is waiting for a person."""
    decide(folder, "approve", note, question)


def decide(folder: Path, decision: "Decision", note: str, question: int | None) -> None:
    from coevolve.store.approval import answer
    from coevolve.store.ledger import Ledger

    if decision == "revise" and not note.strip():
        raise UserError("--note is empty: say what the engineer should change")
    with Ledger.open(folder) as ledger:
        given, process = answer(ledger, decision, note, question), ledger.summary()["process"]
    print(f"{given.decision}: recorded as event {given.number} of {folder}")
    if process is None:
        print(f"nobody runs it now: {typed('resume', folder)}")
