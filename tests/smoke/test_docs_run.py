"""Commands and Python of the docs are run, in small, page by page; those that need what is not here
are named.

`test_docs.py` reads all of them. What a page takes for granted (a run, a model) is made once.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from processes import coevolve
from test_docs import PAGES, python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]

ROOT = Path(__file__).parents[2]
TINY = (
    "--set recipe.steps=1 --set recipe.tasks=2 --set recipe.group=4 --set recipe.max_tokens=64 "
    "--set target.dev=8 --set target.gate=8 --set target.max_tokens=64 --set processes=1"
)
ELSEWHERE = {
    "--ray": "a Ray cluster",
    "--processes 8": "eight GPUs",
    "generator=": "vLLM",
    "http://": "a server",
    "serve-domain": "somebody who ends it",
    "run plan.toml": "a server",
    "verifiers:": "another environment",
    "command:": "another trainer",
    "check mine": "a domain that is installed",
    "mine/plan.toml": "a domain that is installed",
    "-d mine": "a domain that is installed",
    "validate mine": "a domain that is installed",
    "runs/own": "the example before it",
    "runs/swift": "another trainer",
    "HumanEval": "the data set",
    "rows.jsonl": "a git repository with rows about it",
    "smollm2": "weights of the model hub",
    '--sql "SELECT ..."': "a query in place of the dots",
    "warmer_when_sure": "a skill that somebody sent",
    "coevolve serve": "somebody who ends it",
}
"""What a command needs that a test has not, by the words that tell it."""
FRAGMENTS = ("backtests.md", "engines.md", "skills.md", "standards.md", "README.md")
"""Whose Python takes names for granted, or a server, or is run by `test_readme.py`."""
SMALL = {
    'coevolve.run("rounds", "runs/mine")': """coevolve.run(coevolve.Plan(
        versions=1, recipe={"steps": 1, "tasks": 2, "group": 4, "max_tokens": 64},
        target={"dev": 8, "gate": 8, "max_tokens": 64}), "runs/mine")""",
    "versions=5": "versions=2",
    'get_engine("mine")': 'get_engine("trl")',
}
"""What takes minutes in Python is run in small, too."""
SHORTER = {
    "coevolve compare": ["--dry-run"],
    "coevolve run": ["--versions", "1", *TINY.split()],
    "coevolve evolve": ["--versions", "1", *TINY.split()],
    "coevolve final": ["--tasks", "8"],
    "coevolve gallery": ["--only", "history_leak"],
    "coevolve train grpo": ["-r", "steps=1", "-r", "tasks=2"],
    "coevolve train": ["-r", "steps=1", "-r", "tasks=2", "-r", "group=2"],
    "coevolve evaluate": ["--count", "4", "--samples", "1"],
    "coevolve tasks generate": ["-n", "2"],
    "coevolve skills export": ["finer_reward"],
}
"""What takes minutes is run in small."""
FINE = {"--strict": (0, 1), "coevolve check": (0, 1), "coevolve gallery": (0, 1)}
"""Exit codes that are no fault of a page."""


def commands(page: Path) -> list[str]:
    blocks = "".join(re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
    return re.findall(r"^coevolve .*", blocks.replace("\\\n", " "), re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands are run: with two runs, a plan, data, and a model that is taught."""
    made = tmp_path_factory.mktemp("docs")
    rows = [{"question": f"What is {n} plus {n * n}?", "answer": n + n * n} for n in range(300)]
    (made / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for part in ("train", "test"):
        lines = [
            {**row, "answer": f"So it is {row['answer']}.\n#### {row['answer']}"} for row in rows
        ]
        (made / f"gsm8k_{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    (made / "examples").symlink_to(ROOT / "examples")
    for words in (
        ["run", "rounds", "--versions", "2", *TINY.split()],
        ["evolve", "tree", "--versions", "1", *TINY.split(), "--set", "gate.twins=1"],
        ["small-policy", "-d", "math", "--steps", "2"],
    ):
        done = coevolve(*words, cwd=made, timeout=1_200)
        assert done.returncode == 0, done.stderr
    (taught,) = made.glob("runs/small/math-*/taught/policy")
    (made / "MODEL").symlink_to(taught)
    return made


@pytest.mark.parametrize("page", [one for one in PAGES if commands(one)], ids=lambda one: one.name)
def test_commands_run(page: Path, folder: Path) -> None:
    if page.name == "README.md":
        pytest.skip("test_readme.py runs these")
    plan = 'name = "mine"\ndomain = "lake"\npolicy = "pocket"\n'
    if page.name == "compare.md":
        plan = (ROOT / "src/coevolve/configs/compare/main.toml").read_text("utf-8")
    (folder / "my.toml").write_text(plan)
    ran = 0
    for number, command in enumerate(commands(page)):
        if any(words in command for words in ELSEWHERE):
            continue
        said = ""
        for part in command.split(" | "):
            words = shlex.split(part, comments=True)[1:]
            words = [re.sub("^Qwen/.*", "MODEL", word) for word in words]
            begun = next((begin for begin in SHORTER if part.startswith(begin)), "")
            if begun and "--plan" not in words and "--list" not in words:
                words += SHORTER[begun]
            if begun in ("coevolve run", "coevolve evolve") and "--explain" not in words:
                words += ["-o", f"runs/{page.stem}-{number}"]
            words = [word for word in words if word != "--open"]
            done = coevolve(*words, cwd=folder, said=said, timeout=1_200)
            fine = next((codes for told, codes in FINE.items() if told in part), (0,))
            assert done.returncode in fine, (part, done.stdout[-2_000:], done.stderr[-2_000:])
            assert "Traceback" not in done.stderr
            said = done.stdout
        ran += 1
    assert ran or page.name in ("dashboard.md", "engines.md", "benchmarks.md"), "all left out"


@pytest.mark.parametrize(
    "page", [one for one in PAGES if one.name not in FRAGMENTS and python(one.read_text("utf-8"))],
    ids=lambda one: one.name,
)  # fmt: skip
def test_python_runs(page: Path, folder: Path) -> None:
    """All of a page one after the other, since later parts go on from the first."""
    text = "\n".join(python(page.read_text("utf-8")))
    for long, short in SMALL.items():
        text = text.replace(long, short)
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, timeout=1_200,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
