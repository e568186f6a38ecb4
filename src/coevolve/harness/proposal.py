"""What an engineer says: a patch, or why there is none, and what saying it took."""

import operator
from typing import Any

from pydantic import Field

from coevolve.core.rollout import Value
from coevolve.harness.patch import Patch
from coevolve.harness.skill import Skill


def unsaid(value: object) -> bool:
    return value is None


class Proposal(Value):
    """One patch that somebody proposes, unchecked."""

    patch: Patch | None = None
    """None: nothing should change, or nothing can be used."""
    words: str = ""
    """What was said about it, where there is no patch to say it."""
    skill: str = ""
    """The skill that it comes from, if it comes from one."""
    parent: int | None = Field(default=None, exclude_if=unsaid)
    """The version that it is a patch of, where that is another than the one that was diagnosed."""
    measure: int | None = Field(default=None, exclude_if=unsaid)
    """In place of a patch: a version that should be measured again, being perhaps lucky."""
    stop: str = Field(default="", exclude_if=operator.not_)
    """In place of a patch: why nothing more should be tried."""
    failure: str = ""
    """Why there is no patch, if there should be one: an engineer's failure is data."""
    again: bool = Field(default=False, exclude_if=operator.not_)
    """Whether it failed in a way that may pass: no answer came, or none that can be read."""
    shown: str = ""
    """What a model was shown, word for word; empty for rules and for further answers to it."""
    tokens: int = 0
    """What a model read and wrote to make it."""
    turns: tuple[tuple[int, int], ...] = Field(default=(), exclude_if=operator.not_)
    """The same each time that it was asked, thinking and repairs among them: read, written."""
    money: float = 0.0
    """What that cost."""
    calls: tuple[dict[str, Any], ...] = ()
    """Everything that a model asked for on its way to the patch, and what it was told."""
    diagnostics: tuple[dict[str, Any], ...] = ()
    """What `harness.diagnostic.Diagnostic` takes: new ones, that are tried over history."""
    skills: tuple[Skill, ...] = Field(default=(), exclude_if=operator.not_)
    """What a model wrote down to be followed in later generations and runs."""
    notes: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """What it wants to remember in later generations."""
