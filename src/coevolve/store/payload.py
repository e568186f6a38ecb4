"""What may be recorded: JSON that reads back as the same value, and nothing else.

Invariant: what was encoded decodes to the same value in every process, so a run that reads its
record goes on exactly as the one that wrote it.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from coevolve.core.errors import LedgerError

LARGE = 1_000_000
"""Bytes of JSON above which a payload gets a file of its own."""
SMALL = 1_000
"""Bytes of JSON up to which a member of a large payload is also kept in the database."""
DEPTH = 100
"""Levels of lists and objects in each other, at most."""


def encode(payload: Mapping[str, Any], where: str) -> str:
    """A payload as one line of JSON in ASCII; `where` names it in the error."""
    if not isinstance(payload, Mapping):
        raise LedgerError(f"{where} is {payload!r:.80}; a payload must be a dict with text as keys")
    refuse(payload, where, DEPTH)
    return json.dumps(payload, allow_nan=False)


def decode(text: str | bytes, where: str) -> dict[str, Any]:
    """A payload as it was before `encode`; `where` names it in the error."""
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise LedgerError(f"{where} is no JSON ({error}); put back a copy of it") from error
    if not isinstance(value, dict):
        raise LedgerError(f"{where} is {value!r:.80}, no JSON object; put back a copy of it")
    return value


def refuse(value: object, where: str, depth: int) -> None:
    """Raise an error that names the place of a value which is not JSON."""
    if depth < 0:
        raise LedgerError(f"{where[:80]}… goes deeper than {DEPTH} levels; record less of it")
    if isinstance(value, float) and not math.isfinite(value):
        raise LedgerError(f"{where} is {value}; record None, or leave the key out")
    if isinstance(value, Mapping):
        for key, member in value.items():
            if not isinstance(key, str):
                raise LedgerError(f"{where} has the key {key!r}; keys must be text: use str()")
            refuse(member, f"{where}.{key}", depth - 1)
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            refuse(member, f"{where}[{index}]", depth - 1)
    elif not (value is None or isinstance(value, str | bool | int | float)):
        raise LedgerError(
            f"{where} is a {type(value).__module__}.{type(value).__name__}, which is not JSON; "
            "turn it into numbers, text, lists or dicts"
        )


def small_members(payload: Mapping[str, Any]) -> str:
    """The members of a large payload that can be found without opening its file."""
    texts = {key: json.dumps(value) for key, value in payload.items()}
    return json.dumps({k: payload[k] for k, text in texts.items() if len(text) <= SMALL})


def pretty(value: Mapping[str, Any]) -> bytes:
    """JSON for people. Half a character pair, which UTF-8 cannot hold, stays as its escape."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace")


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """What is otherwise in two configurations, in words, by dotted keys."""
    one, other = flat(found), flat(wanted)
    names = [*one, *(name for name in other if name not in one)]
    return [
        f"{name} {shown(one, name)}, not {shown(other, name)}"
        for name in names
        if shown(one, name) != shown(other, name)
    ]


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, member in value.items():
        if isinstance(member, Mapping) and member:
            found |= flat(member, f"{prefix}{key}.")
        else:
            found[prefix + key] = member
    return found


def shown(values: Mapping[str, Any], name: str) -> str:
    return json.dumps(values[name], sort_keys=True) if name in values else "absent"
