"""Answers that follow a pydantic model, with a bounded number of repairs.

Invariant: no text that a policy writes raises anything here; it ends as a value or as a failure.
"""

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from coevolve.core.fence import fenced
from coevolve.core.files import storable
from coevolve.core.rollout import Message, StopReason
from coevolve.core.thought import CLOSE, OPEN, spoken
from coevolve.policies.base import Completion, Policy, Prompt, Sampling

MOST_CHARACTERS, MOST_DEPTH = 200_000, 40
"""Longer answers, and deeper ones, are not read at all."""
ECHOED_CHARACTERS = 4_000
"""How much of a wrong answer, and of the schema, a repair shows."""
FAILURE_CHARACTERS = 2_000
LISTED_ERRORS = 10
FIRST = "First think about it in a few sentences, without any JSON; that is asked for afterwards."
THEN = "Now give the answer: exactly one JSON object, as described, and nothing else."
OBJECT_START = re.compile(r"\{\s*[\"'}]")
"""Also single quotes: they are meant as JSON, and the error should say what is wrong."""

Model = TypeVar("Model", bound=BaseModel)


class Answered(NamedTuple, Generic[Model]):
    """What came of a question, repairs included."""

    value: Model | None
    failure: str
    """Why the last answer could not be used, empty if it could."""
    texts: tuple[str, ...]
    """All answers in order."""
    completions: tuple[Completion, ...]


class Unusable(Exception):
    """A text holds no JSON object that could be taken."""


def answer_json(
    policy: Policy,
    messages: Sequence[Message],
    schema: type[Model],
    sampling: Sampling,
    repairs: int = 2,
    sample: int = 0,
    think: int = 0,
) -> Answered[Model]:
    """Ask for one JSON object that `schema` accepts, and ask again when it is not one.

    `sampling` may bring a narrower JSON schema that answers are held to. What is held to one from
    its first token on cannot think: with `think`, it may first say anything in so many tokens.
    """
    schema_text = sampling.json_schema or json.dumps(schema.model_json_schema())
    constrained = sampling.model_copy(update={"json_schema": schema_text})
    conversation = tuple(messages)
    completions: list[Completion] = []
    failure = ""
    if think:
        conversation = (*conversation[:-1], thoughtful(conversation[-1]))
        free = sampling.model_copy(update={"json_schema": None, "max_tokens": think})
        completions += policy.answer([Prompt(conversation, None, sample)], free)
        conversation += formal(completions[0].text)
    for _ in range(repairs + 1):
        (completion,) = policy.answer([Prompt(conversation, None, sample)], constrained)
        completions.append(completion)
        value, failure = read_answer(completion.text, schema)
        if value is not None:
            break
        if completion.stop is StopReason.LENGTH:
            failure = f"the answer was cut off at {sampling.max_tokens} tokens; {failure}"
        conversation += repair(completion.text, failure, schema_text)
    texts = tuple(completion.text for completion in completions)
    return Answered(value, failure, texts, tuple(completions))


def thoughtful(question: Message) -> Message:
    """The question, to be thought about first."""
    return question.model_copy(update={"content": f"{question.content}\n\n{FIRST}"})


def formal(thought: str) -> tuple[Message, Message]:
    """A thought, and that the answer is due, as the next two messages."""
    # Without its tags: chat templates leave out what earlier turns thought.
    said = thought.replace(OPEN, "").replace(CLOSE, "").strip()[-ECHOED_CHARACTERS:]
    return (
        Message(role="assistant", content=storable(said)),
        Message(role="user", content=THEN),
    )


def repair(text: str, failure: str, schema_text: str) -> tuple[Message, Message]:
    """The wrong answer and what is wrong with it, as the next two messages."""
    request = (
        f"This answer cannot be used:\n{fenced(failure, FAILURE_CHARACTERS)}\nAnswer again with "
        "exactly one JSON object and nothing else. It must follow this JSON schema:\n"
        f"{fenced(schema_text, ECHOED_CHARACTERS)}"
    )
    return (
        Message(role="assistant", content=storable(text[:ECHOED_CHARACTERS])),
        Message(role="user", content=request),
    )


def read_answer(text: str, schema: type[Model]) -> tuple[Model | None, str]:
    """The value in a text, or None and why there is none."""
    try:
        found = only_object(text)
        if depth(found) > MOST_DEPTH:
            raise RecursionError
        # As JSON, not as Python values, so that strict models still take lists for tuples.
        return schema.model_validate_json(json.dumps(found)), ""
    except ValidationError as error:
        failure = listed(error)
    except Unusable as error:
        failure = str(error)
    except RecursionError:
        failure = "the JSON is nested too deeply"
    except Exception as error:  # validators of the schema may raise anything on odd values
        failure = f"{type(error).__name__}: {error}"
    return None, storable(failure[:FAILURE_CHARACTERS]) or "no reason given"


def depth(value: object) -> int:
    """How many levels of lists and objects there are."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, inner), default=0)


def only_object(text: str) -> dict[str, Any]:
    """The one JSON object in a text that may have prose or a fence around it."""
    if len(text) > MOST_CHARACTERS:
        raise Unusable(f"the answer has {len(text)} characters; at most {MOST_CHARACTERS} are read")
    # An object may quote the tags: it is no thought then.
    if not text.lstrip().startswith("{"):
        said = spoken(text)
        if said is None:
            raise Unusable("the answer ends within <think>")
        text = said
    found: list[dict[str, Any]] = []
    start = text.find("{")
    while start >= 0:
        if OBJECT_START.match(text, start):
            try:
                value, end = DECODER.raw_decode(text, start)
            except ValueError as error:
                raise Unusable(f"not JSON: {error}") from None
            found.append(value)
        else:
            # A brace in prose is passed over as a whole, so that nothing inside it, such as a part
            # of an object with unquoted keys, is taken for the answer.
            end = closing_brace(text, start)
        start = text.find("{", end)
    if len(found) != 1:
        raise Unusable(f"the answer holds {len(found)} JSON objects; write exactly one")
    return found[0]


def closing_brace(text: str, start: int) -> int:
    """The position after the brace that closes the one at `start`."""
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return position + 1
    raise Unusable(f"not JSON: the brace at character {start} is never closed")


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, unless it says two things under one key."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"the key {key[:60]!r} appears twice in an object")
        values[key] = value
    return values


def finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:60]} is too large a number")
    return value


def no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


DECODER = json.JSONDecoder(
    object_pairs_hook=unique_pairs, parse_float=finite, parse_constant=no_constant
)


def listed(error: ValidationError) -> str:
    """The first errors of a validation, each with its place and the value seen."""
    errors = error.errors(include_url=False, include_context=False)
    lines = [
        f"at {'.'.join(map(str, entry['loc'])) or 'the top'}: {entry['msg']} "
        f"(got {entry['input']!r:.80})"
        for entry in errors[:LISTED_ERRORS]
    ]
    more = len(errors) - len(lines)
    return "; ".join(lines) + (f"; and {more} more" if more else "")
