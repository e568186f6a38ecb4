"""Whatever a policy writes: no crash, no hang, and nothing accepted that is not mended."""

import ast
import random
from collections import Counter
from pathlib import Path

import pytest
from repositories import shop

from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.swe.calls import TOOLS, write_call
from coevolve.domains.swe.domain import SweDomain
from coevolve.domains.swe.scripts import solution
from coevolve.domains.swe.work import unfold

TEXTS = ("", " ", "a", "return", "0", "\x00", "\ud800", "é" * 50, "x" * 5_000, "../..", "/", "```")
COMMANDS = ("true", "exit 7", "echo '{}'", "rm -rf .", "python -c 'print(1)'", "kill -9 $PPID")
RUNS = 0.004
"""Share of calls that run a command, which takes a second."""


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> SweDomain:
    return SweDomain([str(shop(tmp_path_factory.mktemp("shop")))])


def value(rng: random.Random, tree: dict[str, bytes]) -> object:
    choice = rng.randrange(6)
    if choice == 0:
        return rng.choice((None, True, -1, 10**30, 1.5, [], {}, ["a"]))
    if choice < 3:
        return rng.choice(sorted(tree))
    if choice == 3:
        data = tree[rng.choice(sorted(tree))].decode()
        at = rng.randrange(max(1, len(data)))
        return data[at : at + rng.randrange(1, 40)]
    return rng.choice(TEXTS)


def call(rng: random.Random, tree: dict[str, bytes]) -> str:
    if rng.random() < RUNS:
        return write_call("run", command=rng.choice(COMMANDS))
    tool = rng.choice([name for name in TOOLS if name != "run"])
    names = [*TOOLS[tool], *(["more"] if rng.random() < 0.05 else [])]
    return write_call(tool, **{name: value(rng, tree) for name in names if rng.random() < 0.95})


def garbled(rng: random.Random, text: str) -> str:
    """A right answer with a few letters lost, doubled or changed."""
    letters = list(text)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(letters))
        letters[at] = rng.choice(("", letters[at] * 2, chr(rng.randrange(32, 0x2FF)), "\n", "{"))
    return "".join(letters[: rng.randrange(1, len(letters))] if rng.random() < 0.2 else letters)


def turn(rng: random.Random, task: Task) -> str:
    tree = unfold(task).given
    kind = rng.random()
    if kind < 0.15:
        return "".join(chr(rng.randrange(1, 0xD7FF)) for _ in range(rng.randrange(400)))
    if kind < 0.2:
        return rng.choice(("{", "[", '{"tool":', "```tool\n", '{"a":', "9")) * rng.randrange(
            1, 9_000
        )
    if kind < 0.24:
        return garbled(rng, solution(task))
    return "\n".join(call(rng, tree) for _ in range(rng.randrange(1, 5)))


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_fuzzed_turns(
    domain: SweDomain, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tasks = list(domain.generate(domain.space.defaults(), 4, 2, Split.TRAIN))
    seen: Counter[str] = Counter()
    for number in range(count):
        rng = random.Random(number)
        task = tasks[number % len(tasks)]
        episode = domain.begin(task)
        text = ""
        for _ in range(rng.randrange(1, 4)):
            text = turn(rng, task)
            if episode.reply(text) is None:
                break
        outcome = episode.outcome(text)
        seen[outcome.failure or "solved"] += 1
        if outcome.valid:
            for path, whole in unfold(task).mended.items():
                assert ast.dump(ast.parse(episode.tree[path])) == ast.dump(ast.parse(whole))
        else:
            assert outcome.failure in domain.failures
            assert outcome.reward < 0.3 + 1e-9
    assert {"format", "turns", "no_patch"} <= set(seen)
