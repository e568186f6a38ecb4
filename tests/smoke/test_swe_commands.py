"""Software engineering from the command line, on a small repository."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import coevolve
from repositories import committed, shop

EXPERIMENT = """
name = "small"
domain = "swe"
versions = 1
engineers = ["frontier"]
knobs = { "turns.limit" = 4 }
[recipe]
steps = 1
tasks = 2
group = 2
max_tokens = 64
[target]
dev = 8
gate = 8
max_tokens = 32
knobs = { "turns.limit" = 4 }
[backtest]
tasks = 4
samples = 2
"""


@pytest.fixture(scope="module", autouse=True)
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One small repository, and nothing that other tests have kept of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("COEVOLVE_SWE_SOURCES", str(shop(tmp_path_factory.mktemp("shop"))))
        yield


def test_tasks_are_made_shown_and_solved(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    words = ("tasks", "generate", "-d", "swe", "-n", "3", "-o", str(file))
    assert coevolve(*words).returncode == 0
    shown = coevolve("tasks", "show", str(file), "-d", "swe", "--first", "1")
    assert "does not behave as it should" in shown.stdout
    assert "+ solved" in shown.stdout
    solved = coevolve("tasks", "solve", str(file), "-d", "swe", "--json")
    assert [json.loads(line)["solved"] for line in solved.stdout.splitlines()] == [True] * 3


@pytest.mark.parametrize("history", [0, 1])
def test_the_leak_from_the_command_line(history: int) -> None:
    words = ("--split", "dev", "--count", "2", "-k", f"history.share={history}", "--json")
    done = coevolve("evaluate", "-d", "swe", "-p", "leak-reader", *words)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["n"], facts["valid"]) == (2, history)


def test_a_source_without_tests_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = committed(tmp_path / "bare", {"a.py": "x = 1\n"})
    monkeypatch.setenv("COEVOLVE_SWE_SOURCES", str(bare))
    done = coevolve("tasks", "generate", "-d", "swe", "-n", "1")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {bare} has no tests")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_run(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    folder = tmp_path / "run"
    done = coevolve("run", str(tmp_path / "small.toml"), "-o", str(folder), "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    assert [past["number"] for past in json.loads(done.stdout)["versions"]] == [0]
