"""The code domain against the sandbox: verdicts, failure classes, rewards, loaders."""

import ast
import gzip
import json
import random
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.domains.code.answer import fenced
from coevolve.domains.code.domain import CodeDomain
from coevolve.domains.code.scripts import TRICKS
from coevolve.domains.code.template import filled
from coevolve.domains.files import read_tasks

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
DOMAIN = CodeDomain()
SHARED = Path(__file__).parents[3] / "shared" / "data"
HUMANEVAL = SHARED / "code" / "HumanEval.jsonl.gz"
SQUARES = {
    "id": "squares",
    "statement": "Print the square of the number that is read.",
    "tests": [{"input": f"{n}\n", "output": f"{n * n}\n"} for n in range(10)],
    "examples": [{"input": "3\n", "output": "9\n"}],
    "solution": "print(int(input()) ** 2)\n",
    "cpu_s": 1,
}


def verdict(code, task=None):
    return DOMAIN.verify(task or DOMAIN.load(SQUARES), fenced(code))


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("print(int(input()) ** 2)", None),
        ("import sys\nprint(int(sys.stdin.readline()) ** 2)\nsys.exit(0)", None),
        ("print(open('/dev/stdin').read().strip() and int(open(0).read() or 0))", "wrong_answer"),
        ("print(int(input()) ** 2", "syntax"),
        ("x = '\ud800'", "syntax"),
        ("x = 1\x00", "syntax"),
        ("(" * 5000, "syntax"),
        ("raise ValueError('no')", "runtime_error"),
        ("print(int(input()) ** 2)\nraise SystemExit(3)", "runtime_error"),
        ("import os\nos._exit(0)", "wrong_answer"),
        ("print(0)", "wrong_answer"),
        ("while True:\n    pass", "time"),
        ("x = [0] * 10**9", "memory"),
        ("while True:\n    print('x' * 10000)", "output"),
        ("import os\nwhile True:\n    os.fork()", "processes"),
        ("import ctypes\nctypes.string_at(0)", "runtime_error"),
        (
            "import threading\nthreading.Thread(target=lambda: print(int(input()) ** 2)).start()",
            None,
        ),
    ],
)
def test_every_end_has_its_class(code, failure):
    outcome = verdict(code)
    assert outcome.failure == failure, outcome
    assert outcome.valid == (failure is None)


def test_a_call_that_fails_is_no_mistake_of_syntax():
    knobs = DOMAIN.space.parse({"function.share": 1.0})
    task = next(DOMAIN.generate(knobs, 1, 4, Split.DEV))
    for code in ("solve = max", "def solve():\n    return 1", "solve = 3"):
        outcome = verdict(code, task)
        assert outcome.failure in ("runtime_error", "wrong_answer"), (code, outcome)


def test_a_parameter_is_a_value_wherever_it_stands():
    swapped = filled("f(<<a>>, <<b>>)", {"a": "<<b>>", "b": "'+str(print(1))+'"})
    assert ast.literal_eval(swapped[1:]) == ("<<b>>", "'+str(print(1))+'")


def test_more_passes_never_earn_less():
    """Programs that are right up to a number pass exactly that many tests."""
    rewards = []
    for right in range(11):
        outcome = verdict(f"n = int(input())\nprint(n * n if n < {right} else -1)")
        assert outcome.details["passed"] == right
        rewards.append(outcome.reward)
    assert all(before < after for before, after in pairwise(rewards))
    assert rewards[0] == 0
    assert rewards[-1] == DOMAIN.full_reward
    assert DOMAIN.verify(DOMAIN.load(SQUARES), "no code").reward < 0


@pytest.mark.parametrize("form", ["function", "stdin"])
def test_no_trick_passes_a_test(form):
    knobs = DOMAIN.space.parse({f"{form}.share": 1, "large.share": 0})
    for task in DOMAIN.generate(knobs, 2, 5, Split.DEV):
        for trick in TRICKS:
            outcome = DOMAIN.verify(task, fenced(trick.replace("<<name>>", "solve")))
            assert not outcome.valid
            assert outcome.details["passed"] == 0, (trick, outcome)


def test_slow_programs_fail_large_tests_only():
    knobs = DOMAIN.space.parse({"lists.share": 1, "large.share": 1, "function.share": 1})
    found = set()
    for task in DOMAIN.generate(knobs, 6, 0, Split.DEV):
        if task.data["template"] in ("pairs_modulo", "window_maxima"):
            outcome = DOMAIN.verify(task, DOMAIN.scripts["brute"](task, random.Random(0), ""))
            found.add(outcome.failure)
            assert outcome.details["passed"] == 6
    assert found == {"time"}


def test_drawing_shows_the_tests_that_failed(tmp_path):
    task = DOMAIN.load(SQUARES)
    shown = DOMAIN.draw(task, fenced("print(int(input()) * 2)"))
    assert "+ test 1" in shown
    assert "- test 2 (test 1): wrong_answer" in shown
    assert "2 of 10 tests passed" in shown
    DOMAIN.picture(task, fenced("print(1)"), tmp_path / "task.svg")
    assert "wrong_answer" in (tmp_path / "task.svg").read_text()
    with pytest.raises(UserError, match=r"must end in \.svg"):
        DOMAIN.picture(task, None, tmp_path / "task.png")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tests": []}, "squares has no tests"),
        ({"tests": [{"input": "1"}]}, "tests.0.output"),
        ({"statement": ""}, "statement"),
        ({"solution": "print(1)"}, "does not pass its own tests (wrong_answer)"),
        ({"solution": "print("}, "does not pass its own tests (syntax)"),
        ({"time": 3}, "time"),
        ({"statement": None, "rows": 1}, "statement"),
    ],
)
def test_bad_lines_are_refused_in_one_line(change, said):
    with pytest.raises(UserError) as error:
        DOMAIN.load({**SQUARES, **change})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"id": 1,', "line 1: not JSON"),
        (b'{"statement": "\xff"}', "not UTF-8"),
        (b"[1]", "line 1: not a JSON object"),
        (b'{"rows": ["..."]}', "line 1: not a programming task"),
        (b'{"task_id": "H/1", "prompt": "x", "entry_point": "f"}', "line 1: H/1 has no tests"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_bad_files_are_refused_in_one_line(tmp_path, content, said, packed):
    path = tmp_path / ("tasks.jsonl.gz" if packed else "tasks.jsonl")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(UserError) as error:
        list(read_tasks(DOMAIN, path))
    assert said in str(error.value)
    assert str(error.value).startswith(str(path))


def test_a_broken_archive_is_refused(tmp_path):
    path = tmp_path / "tasks.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(SQUARES).encode())[:40])
    with pytest.raises(UserError, match="cannot read"):
        list(read_tasks(DOMAIN, path))
    path.write_bytes(b"not packed")
    with pytest.raises(UserError, match="cannot read"):
        list(read_tasks(DOMAIN, path))


def humaneval(count=None):
    if not HUMANEVAL.is_file():
        pytest.skip(f"HumanEval is not at {HUMANEVAL}")
    with gzip.open(HUMANEVAL, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines][:count]


def test_assertions_count_one_by_one():
    line = humaneval(1)[0]
    task = DOMAIN.load(line)
    assert task.data["count"] == 7
    assert DOMAIN.verify(task, DOMAIN.oracle(task)).optimal
    half = verdict("def has_close_elements(numbers, threshold):\n    return True", task)
    assert (half.details["passed"], half.details["total"]) == (4, 7)
    assert half.failure == "wrong_answer"
    assert verdict("def other():\n    pass", task).failure == "runtime_error"
    slow = "def has_close_elements(numbers, threshold):\n    while True:\n        pass"
    quick = task.model_copy(update={"data": {**task.data, "cpu_s": 1}})
    assert verdict(slow, quick).failure == "time"
    back = DOMAIN.load(task.model_dump(mode="json"))
    assert (back.id, back.split, back.data) == (task.id, task.split, task.data)
    with pytest.raises(UserError, match="does not pass its own tests"):
        DOMAIN.load({**line, "canonical_solution": "    return True\n"})
    with pytest.raises(UserError, match="asserts nothing"):
        DOMAIN.load({**line, "test": "def check(candidate):\n    pass\n"})


@pytest.mark.slow
def test_all_solutions_of_humaneval_pass():
    lines = humaneval()
    assert len(lines) == 164
    for line in lines:
        task = DOMAIN.load(line)
        assert DOMAIN.verify(task, DOMAIN.oracle(task)).optimal, task.id
