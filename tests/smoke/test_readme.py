"""What the README shows can be run as it stands."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from processes import coevolve

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SHELL = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
COMMANDS = re.findall(r"^coevolve .*", SHELL, re.MULTILINE)
SMALL = (
    "--set recipe.steps=1 --set recipe.tasks=2 --set recipe.group=4 --set recipe.max_tokens=64 "
    "--set target.dev=8 --set target.gate=8 --set target.max_tokens=64 --set processes=1"
)
SHORTENED = {
    "coevolve train grpo": "-r steps=1 -r tasks=2",
    "coevolve train warm": "--explain",
    "coevolve evaluate -p": "--count 4",
    "coevolve evaluate --policy": "--split dev --count 100",
    "coevolve evaluate -d": "--count 10",
    "coevolve run -d": "--set small.steps=2 --set small.tasks=4",
    "coevolve run ": f"--versions 1 {SMALL}",
    "coevolve evolve": f"--versions 1 {SMALL}",
    "coevolve resume": "",
    "coevolve final": "--tasks 8",
}
"""What takes minutes is run in small."""
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("code", PYTHON)
def test_python(code, tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_the_example_with_a_domain_of_its_own(tmp_path):
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "own.py"), str(tmp_path / "own")],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "0 start {'side': 4.0} kept" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("policy")


@pytest.mark.timeout(1_800)  # all commands of the README, one after the other
def test_commands(tmp_path):
    assert len(COMMANDS) >= 8
    board = {"id": "a", "rows": ["..."], "starts": [[0, 0]], "goals": [[0, 2]]}
    (tmp_path / "boards.jsonl").write_text(json.dumps(board) + "\n")
    sums = [
        {"question": f"What is {n} plus {n * n}?", "answer": n + n * n, "level": n % 3}
        for n in range(200)
    ]
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(one) + "\n" for one in sums))
    for command in COMMANDS:
        if "verify" in command:
            tasks = map(json.loads, (tmp_path / "tasks.jsonl").read_text().splitlines())
            answers = ({"id": t["id"], "answer": "|".join(t["data"]["plan"])} for t in tasks)
            (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
        words = shlex.split(command, comments=True)[1:]
        words = ["2" if word == "5" else word for word in words]  # versions of `resume`
        for begin, more in SHORTENED.items():
            if command.startswith(begin):
                words += more.split()
        result = coevolve(*words, cwd=tmp_path, timeout=900)
        assert result.returncode == 0, (command, result.stderr)
        assert result.stdout or "-o tasks.jsonl" in command
    assert (tmp_path / "plan.gif").stat().st_size > 1_000
