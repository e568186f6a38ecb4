"""Fuzzed answers to programming tasks: no crash, no hang, nothing accepted that is not right."""

import os
import random
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from coevolve.core.splits import Split
from coevolve.domains.code import forms
from coevolve.domains.code.answer import AnswerError, extract, fenced
from coevolve.domains.code.domain import CodeDomain
from coevolve.domains.code.problem import unfold
from coevolve.domains.code.scripts import TRICKS
from coevolve.sandbox.bubblewrap import PYTHON
from coevolve.sandbox.run import run

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
DOMAIN = CodeDomain()
WORDS = (
    "def solve(*given):", "return", "import os", "os._exit(0)", "print(", ")", "\n", "    ", "0",
    "1", "[]", "given[0]", "while True:", "lambda: 0", "raise", "class A:", "pass", "exit()",
    "input()", "```", "```python", "'''", '"', "\\", "#", "sys", "import sys", "yield", "del",
    "__builtins__", "exec('1')", "=", "==", "is", "async", "\x00", "\ud800", "٣", "\u2028",
)  # fmt: skip


def text(rng: random.Random) -> str:
    return "".join(chr(rng.randrange(1, 0x2FFF)) for _ in range(rng.randrange(200)))


def tokens(rng: random.Random) -> str:
    return "".join(rng.choices(WORDS, k=rng.randrange(30)))


def bent(rng: random.Random, source: str) -> str:
    """A right program with some of its characters gone, doubled, swapped or cut off."""
    for _ in range(rng.randrange(1, 4)):
        at, width = rng.randrange(len(source)), rng.randrange(1, 8)
        piece = source[at : at + width]
        new = rng.choice(("", piece * 2, piece[::-1], rng.choice(WORDS)))
        source = source[:at] + new + source[at + width :]
    return source[: rng.randrange(len(source))] if rng.random() < 0.1 else source


def answer(rng: random.Random, task) -> str:
    right = DOMAIN.oracle(task)
    kind = rng.randrange(10)
    if kind < 3:
        return text(rng)
    if kind < 5:
        return tokens(rng)
    if kind < 6:
        return fenced(tokens(rng))
    if kind < 7:
        return fenced(rng.choice(TRICKS).replace("<<name>>", "solve"))
    return bent(rng, right)


def plainly_right(task, code: str) -> bool:
    """The same question asked another way: each test a command of its own."""
    problem, tests, _ = unfold(task.data)
    template = problem.template
    for test in tests:
        if task.data["form"] == forms.FUNCTION:
            call = f"\n\nimport sys\nsys.stdout.write('\\n' + repr(solve(*{test.values!r})))\n"
            done = run([PYTHON, "-I", "-c", code + call])
            if done.stdout.rpartition("\n")[2] != repr(test.wanted):
                return False
        else:
            done = run(
                [PYTHON, "-I", "-c", code],
                stdin=forms.write_input(template.takes, test.values),
            )
            wanted = forms.write_output(template.gives, test.wanted)
            if done.stdout.split() != wanted.split():
                return False
    return True


@pytest.mark.parametrize("count", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_fuzzed_answers(count):
    knobs = DOMAIN.space.parse({"large.share": 0, "tests.count": 4})
    tasks = list(DOMAIN.generate(knobs, 40, 7, Split.DEV))

    def judged(index: int) -> tuple[str | None, float]:
        rng = random.Random(index)
        task = tasks[index % len(tasks)]
        given = answer(rng, task)
        began = time.monotonic()
        outcome = DOMAIN.verify(task, given)
        assert outcome.failure is None or outcome.failure in DOMAIN.failures
        assert outcome.valid == (outcome.failure is None)
        assert outcome.valid or outcome.reward < 0.4
        if outcome.valid:
            assert plainly_right(task, extract(given)), given
        try:
            extract(given)
        except AnswerError:
            assert outcome.reward < 0
        return outcome.failure, time.monotonic() - began

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(judged, range(count)))
    assert max(seconds for _, seconds in found) < 60
    classes = {failure for failure, _ in found}
    assert {"no_code", "truncated", "syntax", "runtime_error", "wrong_answer", None} <= classes
