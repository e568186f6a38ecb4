"""Math on the command line: generated tasks, files of others, bad files, and a whole run."""

import json
import subprocess
from pathlib import Path

import pytest
from processes import coevolve

from coevolve.domains.files import read_lines


def patiently(*words: object) -> subprocess.CompletedProcess[str]:
    return coevolve(*words, timeout=580)


def good(*words: object) -> str:
    done = patiently(*words)
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout


ROWS = [
    {"question": f"Tom has {n} eggs and eats 2. How many are left?", "answer": f"x\n#### {n - 2}"}
    for n in range(3, 43)
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("math") / "gsm.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return path


def test_a_file_is_evaluated_whole_or_by_split(file: Path) -> None:
    whole = json.loads(good("evaluate", "-d", "math", "-p", "oracle", "--tasks", file, "--json"))
    assert (whole["n"], whole["valid"]) == (40, 1.0)
    counts = {}
    for split in ("train", "dev", "gate"):
        words = ("evaluate", "-d", "math", "-p", "silent", "--tasks", file, "--split", split)
        counts[split] = json.loads(good(*words, "--json"))["n"]
    assert 0 < counts["dev"] < counts["train"] < sum(counts.values()) < 40
    test = patiently("evaluate", "-d", "math", "--tasks", file, "--split", "test")
    assert (test.returncode, "looked at once" in test.stderr) == (2, True)


def test_a_folder_of_the_hub_is_a_file_too(file: Path) -> None:
    pytest.importorskip("datasets")
    folder = f"hf:{file.parent}"
    found = json.loads(good("evaluate", "-d", "math", "-p", "oracle", "--tasks", folder, "--json"))
    assert (found["n"], found["valid"]) == (40, 1.0)
    missing = patiently("tasks", "show", f"hf:{file.parent}/none:main:test", "-d", "math")
    assert missing.returncode == 2
    assert "give a JSONL file instead" in missing.stderr
    assert len(missing.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"question": "Why?"', "line 1: not JSON"),
        (b'{"question": "Why?", "answer": "5"}\n{"question": "Why?"}', "line 2: a math task needs"),
        (b'{"question": "Why?", "answer": "5"}\n{"question": "Wh\xff?"}', "line 2: not UTF-8"),
        (b"[1]", "line 1: not a JSON object"),
        (b"", "holds no task"),
    ],
)
def test_bad_files_get_one_clear_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    done = patiently("evaluate", "-d", "math", "-p", "oracle", "--tasks", path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_byte_order_mark_is_no_part_of_the_first_line(file: Path, tmp_path: Path) -> None:
    marked = tmp_path / "marked.jsonl"
    marked.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert list(read_lines(marked)) == list(read_lines(file))


def test_tasks_are_shown_solved_and_verified(tmp_path: Path) -> None:
    tasks, answers = tmp_path / "tasks.jsonl", tmp_path / "answers.jsonl"
    good("tasks", "generate", "-d", "math", "-n", 4, "--split", "dev", "-o", tasks)
    assert "\\boxed{" in good("tasks", "show", tasks, "-d", "math")
    solved = [
        json.loads(line)
        for line in good("tasks", "solve", tasks, "-d", "math", "--json").splitlines()
    ]
    answers.write_text(
        "\n".join(
            json.dumps({"id": one["id"], "answer": f"#### {one['answer']}"}) for one in solved
        )
    )
    said = good("tasks", "verify", tasks, answers, "-d", "math").splitlines()
    assert [line.split()[1] for line in said] == ["optimal"] * 4


EXPERIMENT = """
name = "small"
domain = "math"
versions = 2
engineers = ["frontier"]
[recipe]
steps = 1
tasks = 2
group = 4
max_tokens = 16
[target]
dev = 8
gate = 8
max_tokens = 16
[backtest]
tasks = 4
samples = 2
"""


def test_a_run_with_a_local_policy_goes_through_its_versions(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    done = good("run", tmp_path / "small.toml", "-o", tmp_path / "run", "--json")
    facts = json.loads(done)
    assert [past["number"] for past in facts["versions"]] == [0, 1]
    assert all(past["verdict"] for past in facts["versions"])
