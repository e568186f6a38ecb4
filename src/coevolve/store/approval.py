"""Gates at which a run waits for a person, who answers from another terminal.

Invariant: an answer is bound to the very question it was given to. A resumed run that asks the
same gets the same answer and bothers nobody; one that asks something else has to wait again.
"""

import json
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, TypeVar, get_args

from pydantic import ValidationError

from coevolve.core.errors import LedgerError, UserError
from coevolve.core.names import typed
from coevolve.core.rollout import Value
from coevolve.store.events import Event
from coevolve.store.ledger import Ledger
from coevolve.store.payload import encode

Decision = Literal["approve", "revise", "abort"]
Kind = TypeVar("Kind", bound=Value)


class Question(Value):
    """What a run asked at a gate."""

    number: int
    """Of the event that asked it."""
    time: str
    """When it was asked, UTC, ISO 8601."""
    place: str
    """The folder of the run that it is about."""
    gate: str
    question: dict[str, Any]


class Answer(Value):
    """What a person decided."""

    number: int
    """Of the event that recorded it."""
    time: str
    """When it was given, UTC, ISO 8601."""
    question: int
    """The number of the question."""
    decision: Decision
    note: str


def ask(ledger: Ledger, place: str, gate: str, question: Mapping[str, Any]) -> Question:
    """Ask, unless this was asked before. Only one question can be open at a time."""
    text = json.dumps(json.loads(encode(question, f"question at {gate}")), sort_keys=True)
    once = f"asked/{place}/{gate}/{sha256(text.encode('ascii')).hexdigest()}"
    with ledger.writing():
        event = ledger.find(once)
        if event is None:
            if (other := waiting(ledger)) is not None:
                raise LedgerError(
                    f"question {other.number} of run {ledger.folder.name} ({other.place}, "
                    f"{other.gate}) is still open; answer it first"
                )
            payload = {"gate": gate, "question": dict(question)}
            event = ledger.append("asked", payload, place=place, once=once)
    assert event is not None
    return asked(ledger, event)


def answer(ledger: Ledger, decision: Decision, note: str = "", number: int | None = None) -> Answer:
    """Answer the open question, or the one with this number alone. Needs no writer's lock: the run
    holds that while it waits."""
    if decision not in get_args(Decision):
        raise UserError(
            f"unknown decision {decision!r}; take one of {', '.join(get_args(Decision))}"
        )
    question = waiting(ledger)
    if question is not None and number not in (None, question.number):
        raise UserError(
            f"run {ledger.folder.name} does not wait for an answer to question {number}, but to "
            f"{question.number}; look at it again: {typed('status', ledger.folder)}"
        )
    event = None
    if question is not None:
        payload = {"question": question.number, "decision": decision, "note": note}
        once = f"answered/{question.number}"
        event = ledger.append("answered", payload, place=question.place, once=once)
    if event is None:
        state = ledger.summary()["state"]
        ended = state in ("broken off", "failed")
        more = f": go on with {typed('resume', ledger.folder)}" if ended else ""
        raise UserError(
            f"nothing waits for an answer in run {ledger.folder.name}; it is {state}{more}"
        )
    return answered(ledger, event)


def waiting(ledger: Ledger) -> Question | None:
    """The open question, if there is one."""
    for event in reversed(ledger.events("asked")):
        if ledger.find(f"answered/{event.number}") is None:
            return asked(ledger, event)
    return None


def wait(
    ledger: Ledger, question: Question, poll_s: float = 0.5, timeout_s: float | None = None
) -> Answer:
    """The answer to a question, as soon as it is there. The question stays open after a timeout."""
    end = None if timeout_s is None else time.monotonic() + timeout_s
    while (event := ledger.find(f"answered/{question.number}")) is None:
        if end is not None and time.monotonic() >= end:
            raise UserError(
                f"nobody answered question {question.number} of run {ledger.folder.name} "
                f"({question.place}, {question.gate}) in {timeout_s:g} s; answer it, and run again"
            )
        time.sleep(poll_s if end is None else max(0, min(poll_s, end - time.monotonic())))
    return answered(ledger, event)


def asked(ledger: Ledger, event: Event) -> Question:
    return understood(ledger, event, Question, place=event.place)


def answered(ledger: Ledger, event: Event) -> Answer:
    return understood(ledger, event, Answer)


def understood(ledger: Ledger, event: Event, kind: type[Kind], **more: Any) -> Kind:
    """What an event of ours says; an error that names it, if that is something else."""
    try:
        return kind.model_validate(
            {"number": event.number, "time": event.time, **more, **event.payload}
        )
    except ValidationError as error:
        problem = error.errors()[0]
        raise LedgerError(
            f"event {event.number} ({event.kind}) of {ledger.folder / 'ledger.db'} holds no "
            f"{kind.__name__.lower()}: {'.'.join(map(str, problem['loc']))} is "
            f"{problem['input']!r:.80} ({problem['msg']}); put back a copy of the file"
        ) from None
