"""Tasks from real commits of a git repository, in SWE-bench's format."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import coevolve
from repositories import committed

from coevolve.core.errors import DomainError, UserError
from coevolve.core.splits import split_of
from coevolve.core.task import Task
from coevolve.domains.files import read_tasks
from coevolve.domains.swe.calls import write_call
from coevolve.domains.swe.domain import SweDomain
from coevolve.domains.swe.work import unfold

FIRST = {
    "bank/__init__.py": "",
    "bank/account.py": (
        "class Account:\n    def __init__(self):\n        self.balance = 0\n\n"
        "    def pay_in(self, amount):\n        self.balance += amount\n\n"
        "    def pay_out(self, amount):\n        self.balance -= amount\n"
    ),
    "bank/old.py": "LIMIT = 10\n",
    "tests/test_account.py": (
        "from bank.account import Account\n\n\n"
        "def test_in():\n    one = Account()\n    one.pay_in(3)\n    assert one.balance == 3\n\n\n"
        "def test_out():\n    one = Account()\n    one.pay_out(3)\n    assert one.balance == -3\n"
    ),
}
CHECKED = FIRST["bank/account.py"].replace(
    "        self.balance -= amount\n",
    "        if amount > self.balance:\n            raise ValueError('too little')\n"
    "        self.balance -= amount\n",
)
SECOND = {
    "bank/account.py": CHECKED,
    "tests/test_account.py": FIRST["tests/test_account.py"].replace(
        "    one.pay_out(3)\n    assert one.balance == -3\n",
        "    one.pay_in(5)\n    one.pay_out(3)\n    assert one.balance == 2\n",
    )
    + (
        "\n\ndef test_too_little():\n    import pytest\n\n"
        "    with pytest.raises(ValueError):\n        Account().pay_out(1)\n"
        "\n\ndef test_says_why():\n    import pytest\n\n"
        "    with pytest.raises(ValueError, match='little'):\n        Account().pay_out(1)\n"
    ),
}
THIRD = {
    "bank/old.py": None,
    "bank/fees.py": "def fee(amount):\n    return max(1, amount // 100)\n",
    "tests/test_fees.py": (
        "import pytest\n\nfrom bank.fees import fee\n\n\n"
        '@pytest.mark.parametrize(("amount", "wanted"), [(1, 1), (500, 5)])\n'
        "def test_fee(amount, wanted):\n    assert fee(amount) == wanted\n"
    ),
}


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=dev", "-c", "user.email=dev@example.org")
    run = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout


def commit(folder: Path, changes: dict[str, str | None]) -> None:
    for name, text in changes.items():
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "more")


def row_of(folder: Path, newer: str, fail: list[str], keep: list[str]) -> dict[str, Any]:
    """A row as SWE-bench writes it, of a commit and the one before it."""
    between = ("diff", f"{newer}~1", newer, "--")
    return {
        "instance_id": f"bank-{newer[:6]}",
        "repo": str(folder),
        "base_commit": git(folder, "rev-parse", f"{newer}~1").strip(),
        "patch": git(folder, *between, "bank"),
        "test_patch": git(folder, *between, "tests"),
        "FAIL_TO_PASS": json.dumps(fail),
        "PASS_TO_PASS": keep,
        "problem_statement": "Accounts can be overdrawn, and there are no fees.",
        "hints_text": "",
    }


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A repository with three commits, whose newest only a look into the past can undo."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        folder = committed(tmp_path_factory.mktemp("bank"), FIRST)
        commit(folder, SECOND)
        commit(folder, THIRD)
        yield folder


IN, OUT = "tests/test_account.py::test_in", "tests/test_account.py::test_out"
LITTLE = "tests/test_account.py::test_too_little"
WHY = "tests/test_account.py::test_says_why"
FEES = ["tests/test_fees.py::test_fee[1-1]", "tests/test_fees.py::test_fee[500-5]"]


@pytest.fixture(scope="module")
def rows(bank: Path) -> list[dict[str, Any]]:
    third, second = git(bank, "log", "-2", "--format=%H").split()
    return [
        row_of(bank, second, [LITTLE], [IN, OUT]),
        row_of(bank, third, FEES, [IN, OUT, LITTLE]),
    ]


@pytest.fixture(scope="module")
def tasks(rows: list[dict[str, Any]]) -> list[Task]:
    domain = SweDomain()
    return [domain.load(row) for row in rows]


def test_a_row_becomes_the_tree_before_its_commit(tasks: list[Task]) -> None:
    domain = SweDomain()
    first, second = (unfold(task) for task in tasks)
    assert first.given == {name: text.encode() for name, text in FIRST.items()}
    assert "bank/old.py" in second.given
    assert not {"bank/fees.py", "tests/test_fees.py"} & second.given.keys()
    for task in tasks:
        assert task.bucket["fault"] == "commit"
        assert task.split is split_of(domain.fingerprint(task))
        asked = domain.prompt(task)[-1].content
        assert asked.startswith("Accounts can be overdrawn")
        assert "You have 100 turns" in asked
        assert domain.load(json.loads(task.model_dump_json())) == task
        assert "what repairs it" in domain.draw(task)


def test_the_true_patch_solves_it(tasks: list[Task]) -> None:
    domain = SweDomain()
    outcome = domain.verify(tasks[1], domain.oracle(tasks[1]))
    assert outcome.valid
    assert outcome.details["files"] == ["bank/fees.py", "bank/old.py"]
    assert (outcome.details["fail_to_pass"], outcome.details["pass_to_pass"]) == (2, 3)


TRIED = {
    "true": "no_patch",
    "echo '# no' >> bank/account.py": "still_failing",
    "sed -i 's/        self.balance -= amount/        raise ValueError/' bank/account.py": (
        "regression"
    ),
    "echo 'def test_too_little(): pass' > tests/test_account.py": "tampered",
}


@pytest.mark.parametrize("command", TRIED)
def test_nothing_less_solves_it(tasks: list[Task], command: str) -> None:
    calls = [write_call("run", command=command), write_call("submit")]
    outcome = SweDomain().verify(tasks[0], "\n".join(calls))
    assert outcome.failure == TRIED[command]


NO_PATCH = "--- a/bank/none.py\n+++ b/bank/none.py\n@@ -1 +1 @@\n-x\n+y\n"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "patch": ({"patch": NO_PATCH}, "patch does not apply: bank/none.py: No such file"),
    "tests": ({"test_patch": "words"}, "test_patch does not apply"),
    "commit": ({"base_commit": "0" * 40}, "has no commit"),
    "passes": ({"FAIL_TO_PASS": [IN], "PASS_TO_PASS": []}, f"{IN} passes without the patch, too"),
    "fails": (
        {"FAIL_TO_PASS": [WHY], "PASS_TO_PASS": [LITTLE]},
        f"{LITTLE} is in PASS_TO_PASS and fails without the patch: ",
    ),
    "absent": (
        {"FAIL_TO_PASS": ["tests/test_account.py::test_absent"]},
        "does not pass with the patch: pytest finds no such test",
    ),
    "name": ({"FAIL_TO_PASS": ["test_x (bank.Tests)"]}, "no file of tests 'test_x (bank.Tests)'"),
    "both": ({"PASS_TO_PASS": [LITTLE]}, "is in FAIL_TO_PASS and in PASS_TO_PASS"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_row_that_does_not_hold_is_refused(rows: list[dict[str, Any]], kind: str) -> None:
    change, said = REFUSED[kind]
    row = {**rows[0], **change}
    with pytest.raises(DomainError) as caught:
        SweDomain().load(row)
    assert f"{row['instance_id']} is refused: " in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"test_patch": "patch"}, "test_patch changes bank/account.py"),
        ({"patch": "test_patch", "test_patch": ""}, "patch changes no code"),
    ],
)
def test_patches_are_told_apart(
    rows: list[dict[str, Any]], change: dict[str, str], said: str
) -> None:
    row = {**rows[0], **{name: rows[0].get(other, "") for name, other in change.items()}}
    with pytest.raises(DomainError, match=said):
        SweDomain().load(row)


def test_rows_that_cannot_be_read_are_errors(rows: list[dict[str, Any]], bank: Path) -> None:
    row = rows[0]
    for change, said in (
        ({"patch": ""}, "patch"),
        ({"base_commit": "HEAD"}, "base_commit"),
        ({"FAIL_TO_PASS": "[not JSON"}, "FAIL_TO_PASS"),
        ({"turns": 101}, "turns"),
        ({"wheels": {"six.zip": "0" * 64}}, "six.zip"),
        ({"repo": "someone/absent"}, "put a folder called absent into COEVOLVE_SWE_SOURCES"),
    ):
        with pytest.raises(UserError, match=said):
            SweDomain().load({**row, **change})
    named = SweDomain([str(bank)]).load({**row, "repo": f"someone/{bank.name}"})
    assert named == SweDomain().load(row)


def test_rows_from_the_command_line(
    rows: list[dict[str, Any]], tasks: list[Task], tmp_path: Path
) -> None:
    file, made = tmp_path / "rows.jsonl", tmp_path / "tasks.jsonl"
    bad = {**rows[0], "instance_id": "bad", "FAIL_TO_PASS": ["test_x (bank.Tests)"]}
    file.write_text("".join(json.dumps(row) + "\n" for row in (bad, rows[0])))
    done = coevolve("tasks", "solve", file, "-d", "swe", "-o", made)
    assert done.returncode == 1, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("1  error bad is refused: no file of tests 'test_x")
    assert second == "2  fixed 1  fail_to_pass 1  lost 0  pass_to_pass 2  solved True"
    assert list(read_tasks(SweDomain(), made)) == tasks[:1]
