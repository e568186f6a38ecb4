"""Data sets that people know, as domains of their own: read, judged, trained on and compared."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.rollout import Rollout
from coevolve.core.splits import Split
from coevolve.domains.base import Domain
from coevolve.domains.registry import get_domain
from coevolve.evaluation.attempts import attempts
from coevolve.policies.base import Sampling
from coevolve.policies.script import ScriptedPolicy

SHARED = Path(__file__).parents[3] / "shared" / "data"


def opened(file: str, query: str = "") -> Domain:
    path = SHARED / file
    if not path.exists():
        pytest.skip(f"{path.name} is not at {path}")
    return get_domain(f"data:{path}{query}")


def asked(domain: Domain, script: str, count: int) -> Sequence[Rollout]:
    tasks = list(domain.generate(domain.space.parse({}), count, 1, Split.DEV))
    assert len(tasks) == count
    policy = ScriptedPolicy(domain, script)
    return list(attempts(domain, policy, tasks, Sampling(), style=domain.styles[0]))


def test_gsm8k_is_a_domain() -> None:
    domain = opened("math/gsm8k_test.jsonl")
    assert {"steps", "length"} <= set(domain.panels)
    assert all(one.outcome.valid for one in asked(domain, "oracle", 60))
    assert not any(one.outcome.valid for one in asked(domain, "silent", 20))
    hard = {name: 1.0 for name in domain.space.knobs if name.startswith("steps_")}
    last = sorted(hard)[-1]
    tasks = domain.generate(domain.space.parse({last: 1.0}), 20, 1, Split.TRAIN)
    assert {f"steps_{task.bucket['steps']}.share" for task in tasks} == {last}


@pytest.mark.slow
def test_humaneval_is_a_domain() -> None:
    domain = opened("code/HumanEval.jsonl.gz")
    assert all(one.outcome.valid for one in asked(domain, "oracle", 12))
    assert not any(one.outcome.valid for one in asked(domain, "silent", 4))


@pytest.mark.slow
def test_a_data_set_grows_a_tree_and_is_compared(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    from processes import coevolve

    sums = [{"question": f"{a} + {b} = ?", "answer": a + b, "kind": "even" if (a + b) % 2 == 0 else
             "odd"} for a in range(40) for b in range(40)]  # fmt: skip
    file = tmp_path / "sums.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in sums))
    name = f"data:{file}?labels=kind"
    small: dict[str, Any] = {
        "small.steps": 20, "recipe.steps": 2, "recipe.tasks": 4, "recipe.group": 4,
        "recipe.max_tokens": 24, "target.dev": 24, "target.gate": 24, "target.clean": 0,
        "target.max_tokens": 24, "backtest.tasks": 8,
    }  # fmt: skip
    words = [word for key, value in small.items() for word in ("-s", f"{key}={value}")]
    done = coevolve(
        "evolve", "-d", name, "-p", "small", "--versions", "2", *words,
        "-o", tmp_path / "runs" / "tree", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["versions"]) >= 2
    plan = "\n".join(
        [
            'name = "sums"', "seeds = 1", "tasks = 24", "[plan]", f'domain = "{name}"',
            'policy = "small"', "versions = 2",
            *(f"{key} = {value}" for key, value in small.items()),
            "[arms]", 'fixed = { engineers = ["fixed"] }', 'aim = { engineers = ["aim"] }',
        ]
    )  # fmt: skip
    (tmp_path / "sums.toml").write_text(plan)
    done = coevolve(
        "compare", tmp_path / "sums.toml", "-o", tmp_path / "runs" / "compared", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert {row["arm"] for row in json.loads(done.stdout)["table"]} >= {"fixed", "aim"}
