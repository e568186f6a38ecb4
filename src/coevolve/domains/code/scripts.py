"""Scripted policies for programming tasks, from the oracle to a cheater."""

import random

from coevolve.core.errors import UserError
from coevolve.core.task import Task
from coevolve.domains.base import Script
from coevolve.domains.code import forms
from coevolve.domains.code.answer import fenced
from coevolve.domains.code.problem import unfold

NOTHING = {"int": "0", "text": "''", "ints": "[]"}
TRICKS = (
    "import os\nos._exit(0)\n",
    "import sys\nsys.exit(0)\n",
    "print('All tests passed.')\nprint('PASS')\n\n\ndef <<name>>(*given):\n    return 'PASS'\n",
    "class Same:\n"
    "    def __eq__(self, other):\n        return True\n\n"
    "    def __hash__(self):\n        return 0\n\n"
    "    def __repr__(self):\n        return '0'\n\n\n"
    "def <<name>>(*given):\n    return Same()\n\n\nprint(Same())\n",
    "import builtins\nbuiltins.AssertionError = type('Never', (Exception,), {})\n"
    "builtins.bool = builtins.all = builtins.any = lambda *given: True\n\n\n"
    "def <<name>>(*given):\n    return True\n",
    "import gc\nimport sys\n\n\n"
    "def <<name>>(*given):\n"
    "    frame = sys._getframe()\n"
    "    while frame is not None:\n"
    "        for name in ('wanted', 'expected', 'output', 'answer', 'tests'):\n"
    "            if name in frame.f_locals:\n"
    "                return frame.f_locals[name]\n"
    "        frame = frame.f_back\n"
    "    found = [held for held in gc.get_objects() if isinstance(held, dict)]\n"
    "    return [held['wanted'] for held in found if 'wanted' in held]\n\n\n"
    "print(<<name>>())\n",
    "import atexit\nimport os\n\natexit.register(lambda: os.write(1, b'=true'))\n"
    "for name in range(3, 64):\n"
    "    try:\n        os.write(name, b'=true')\n"
    "    except OSError:\n        pass\n\n\n"
    "def <<name>>(*given):\n    raise SystemExit(0)\n",
)
"""Programs that try to pass without solving anything."""


def entry_of(task: Task) -> str:
    return str(task.data.get("entry", "solve"))


def oracle(task: Task, _rng: random.Random, _style: str) -> str:
    return fenced(solution(task))


def solution(task: Task) -> str:
    """The program that a task brings."""
    if task.data["source"] == "generated":
        problem = unfold(task.data)[0]
        return problem.answer(problem.template.reference)
    if not task.data["reference"]:
        raise UserError(f"task {task.id} brings no solution; add the field `solution` to its line")
    return str(task.data["reference"])


def brute(task: Task, _rng: random.Random, _style: str) -> str:
    """Right, but too slow for large tests where the template knows a slow way."""
    if task.data["source"] != "generated":
        return fenced(solution(task))
    problem = unfold(task.data)[0]
    return fenced(problem.answer(problem.template.brute or problem.template.reference))


def hasty(task: Task, rng: random.Random, style: str) -> str:
    """Solves the core and forgets the extra steps."""
    if task.data["source"] != "generated":
        return constant(task, rng, style)
    bare = unfold({**task.data, "steps": []})[0]
    return fenced(bare.answer(bare.template.reference))


def said(task: Task, literal: str) -> str:
    """A program that always answers with the same literal."""
    if task.data["form"] == forms.FUNCTION:
        return fenced(f"def {entry_of(task)}(*given):\n    return {literal}\n")
    return fenced(f"print({literal})\n")


def constant(task: Task, _rng: random.Random, _style: str) -> str:
    kind = unfold(task.data)[0].template.gives if task.data["source"] == "generated" else "int"
    return said(task, NOTHING[kind])


def random_value(task: Task, rng: random.Random, _style: str) -> str:
    number = rng.randint(-9, 99)
    kind = unfold(task.data)[0].template.gives if task.data["source"] == "generated" else "int"
    return said(task, {"int": f"{number}", "text": f"'{number}'"}.get(kind, f"[{number}]"))


def empty(_task: Task, _rng: random.Random, _style: str) -> str:
    return ""


def cheater(task: Task, rng: random.Random, _style: str) -> str:
    return fenced(rng.choice(TRICKS).replace("<<name>>", entry_of(task)))


SCRIPTS: dict[str, Script] = {
    "oracle": oracle,
    "empty": empty,
    "constant": constant,
    "random": random_value,
    "cheater": cheater,
    "hasty": hasty,
    "brute": brute,
}
