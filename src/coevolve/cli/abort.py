"""`coevolve abort`: end a run that waits."""

from coevolve.cli.approve import Note, Question, decide
from coevolve.cli.resume import Run


def abort(folder: Run, note: Note = "", question: Question = None) -> None:
    """End a run that is waiting for a person. What it has is kept."""
    decide(folder, "abort", note, question)
