"""Commands of the docs are run, in small, page by page; those that need what is not here are named.

`test_docs.py` reads all of them. What a page takes for granted (a run, a model) is made once.
"""

import json
import re
import shlex
from pathlib import Path

import pytest
from processes import coevolve
from test_docs import PAGES

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
    "http://HOST": "a server",
    "command:examples": "another trainer",
    "runs/swift": "another trainer",
    "HumanEval": "the data set",
    "rows.jsonl": "a git repository with rows about it",
    "smollm2": "weights of the model hub",
    '--sql "SELECT ..."': "a query in place of the dots",
    "warmer_when_sure": "a skill that somebody sent",
    "coevolve serve": "somebody who ends it",
}
"""What a command needs that a test has not, by the words that tell it."""
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
        words = shlex.split(command, comments=True)[1:]
        words = [re.sub("^Qwen/.*", "MODEL", word) for word in words]
        begun = next((begin for begin in SHORTER if command.startswith(begin)), "")
        if begun and "--plan" not in words and "--list" not in words:
            words += SHORTER[begun]
        if begun in ("coevolve run", "coevolve evolve") and "--explain" not in words:
            words += ["-o", f"runs/{page.stem}-{number}"]
        words = [word for word in words if word != "--open"]
        done = coevolve(*words, cwd=folder, timeout=1_200)
        fine = next((codes for told, codes in FINE.items() if told in command), (0,))
        assert done.returncode in fine, (command, done.stdout[-2_000:], done.stderr[-2_000:])
        assert "Traceback" not in done.stderr
        ran += 1
    assert ran or page.name in ("dashboard.md", "engines.md", "benchmarks.md"), "all left out"
