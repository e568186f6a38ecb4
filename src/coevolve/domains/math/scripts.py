"""Scripted policies for math: the ways in which policies are right, wrong or evasive."""

import random
import re
from collections.abc import Mapping

from coevolve.core.task import Task
from coevolve.domains.base import Script
from coevolve.domains.math.answer import MARK
from coevolve.domains.simple import silent

NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def in_style(answer: str, style: str) -> str:
    return f"{MARK} {answer}" if style == "plain" else f"\\boxed{{{answer}}}"


def first_number(task: Task, _rng: random.Random, style: str) -> str:
    """Answers with the first number of the question."""
    found = NUMBERS.search(task.data["question"])
    return in_style(found[0] if found else "0", style)


def every_number(task: Task, _rng: random.Random, style: str) -> str:
    """Answers with all numbers at once, the right one among them."""
    found = NUMBERS.findall(task.data["question"])
    return in_style(", ".join([*found, task.data["answer"]]), style)


def careless(task: Task, rng: random.Random, style: str) -> str:
    """Right two times in three, else off by one in some digit or without its unit."""
    answer = str(task.data["answer"])
    if rng.random() < 2 / 3:
        return in_style(answer, style)
    places = [place for place, mark in enumerate(answer) if mark.isdigit()]
    if " " in answer and rng.random() < 0.5:
        return in_style(answer.partition(" ")[0], style)
    if not places:
        return in_style("0", style)
    place = rng.choice(places)
    return in_style(
        answer[:place] + str((int(answer[place]) + 1) % 10) + answer[place + 1 :], style
    )


SCRIPTS: Mapping[str, Script] = {
    "careless": careless,
    "first_number": first_number,
    "every_number": every_number,
    "silent": silent,
}
