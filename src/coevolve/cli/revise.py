"""`coevolve revise`: send a proposal back."""

from coevolve.cli.approve import Note, Question, decide
from coevolve.cli.resume import Run


def revise(folder: Run, note: Note, question: Question = None) -> None:
    """Send a proposal back to the engineer, with a note."""
    decide(folder, "revise", note, question)
