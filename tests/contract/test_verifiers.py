"""verifiers with the real library, in an environment of its own: its pins clash with OpenEnv's."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.errors import UserError
from coevolve.core.files import cache_root
from coevolve.domains.registry import get_domain

ROOT = Path(__file__).parents[2]
PATIENCE_S = 900


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "verifiers", None)
    monkeypatch.delitem(sys.modules, "coevolve.domains.verifiers.domain", raising=False)
    with pytest.raises(UserError, match=r"coevolve\[verifiers\]"):
        get_domain("verifiers:gsm8k")


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter with the extra `verifiers`, installed once."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["verifiers"], *extras["math"]]
    folder = cache_root() / "tests" / "verifiers"
    interpreter = folder / "bin" / "python"
    ready = folder / "ready.json"
    if not ready.exists() or json.loads(ready.read_text()) != wanted:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=PATIENCE_S)
        command = [interpreter, "-m", "pip", "install", "--quiet", "--constraint"]
        installed = subprocess.run(
            [*command, ROOT / "constraints.txt", *wanted],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        if installed.returncode:
            pytest.skip(f"verifiers cannot be installed here: {installed.stderr[-300:]}")
        ready.write_text(json.dumps(wanted))
    return str(interpreter)


def run(python: str, *words: str, code: int = 0) -> str:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    done = subprocess.run(
        [python, *words], env={**os.environ, "PYTHONPATH": path, "NO_KEY_IS_NEEDED": "x"},
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def found(python: str) -> dict[str, Any]:
    return json.loads(run(python, str(Path(__file__).with_name("verifiers_trial.py"))))


@pytest.mark.slow
def test_a_domain_of_one_turn_is_an_environment(found) -> None:
    exported = found["exported"]
    assert exported["kinds"] == ["DomainEnv", "DomainTask"]
    assert [(e["ok"], e["errors"], e["turns"]) for e in exported["one"]] == [(True, [], 1)] * 4
    assert [e["reward"] for e in exported["one"]] == [1.0, 1.0, 1.0, 0.0]
    assert [e["metrics"]["valid"] for e in exported["one"]] == [1.0, 1.0, 1.0, 0.0]
    assert exported["one"][3]["outcome"]["failure"] == "no_answer"
    assert all(e["valid_task"] for e in exported["one"])


@pytest.mark.slow
def test_a_domain_of_several_turns_is_one_too(found) -> None:
    several = found["exported"]["several"]
    assert [(e["ok"], e["reward"]) for e in several] == [(True, 1.0)] * 3
    assert [e["turns"] for e in several] == [e["outcome"]["details"]["guesses"] for e in several]
    assert max(e["turns"] for e in several) > 5


@pytest.mark.slow
def test_a_taskset_is_a_domain(found) -> None:
    imported = found["imported"]
    assert [check for check in imported["checks"] if not check["passed"]] == []
    assert len(imported["checks"]) == 12
    assert imported["full"] == 1.5
    assert [message["role"] for message in imported["prompt"]] == ["system", "user"]
    assert imported["round_trip"]
    assert (imported["broken"]["failure"], imported["broken"]["reward"]) == ("unscored", 0.0)
    assert (imported["half"]["failure"], imported["half"]["reward"]) == ("wrong", 0.0)


@pytest.mark.slow
def test_a_taskset_that_pays_for_the_form_is_caught(found) -> None:
    assert found["imported"]["lenient"] == ["empty, constant and garbage answers earn nothing"]


@pytest.mark.slow
def test_tasksets_that_need_more_are_refused(found) -> None:
    refused = found["imported"]["refused"]
    assert "not found" in refused["nowhere_at_all"]
    assert "size: " in refused["sums_taskset?size=many"]
    assert "environment of its own" in refused["coevolve-taskset"]
    assert "needs" in refused["harbor"]
    assert all("\n" not in said for said in refused.values())


@pytest.mark.slow
def test_the_commands_work_on_a_taskset(python: str) -> None:
    name = "verifiers:sums_taskset?size=300"
    checked = json.loads(run(python, "-m", "coevolve", "check", name, "--json"))
    assert all(check["passed"] for check in checked["checks"])
    words = ("evaluate", "-d", name, "-p", "oracle", "-p", "silent", "--split", "dev")
    facts = json.loads(run(python, "-m", "coevolve", *words, "--count", "10", "--json"))
    assert [policy["valid"] for policy in facts] == [1.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize(("lenient", "verdict"), [("false", "fit"), ("true", "unfit")])
def test_a_taskset_is_validated(python: str, lenient: str, verdict: str) -> None:
    name = f"verifiers:sums_taskset?size=600&lenient={lenient}"
    said = run(python, "-m", "coevolve", "validate", name, "--json", code=verdict != "fit")
    assert json.loads(said)["verdict"] == verdict
