"""vLLM itself draws the rollouts of training, on this CPU. Needs COEVOLVE_VLLM, in an environment
that has TRL, too."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from coevolve.policies import vllm
from coevolve.store.shards import read

ROOT = Path(__file__).parents[2]
PATIENCE_S = 1500
ALONE = {"PYTHONPATH": str(ROOT / "src"), "COEVOLVE_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}


def interpreter() -> Path:
    """Python of the environment that vLLM is installed in."""
    return Path(os.environ.get(vllm.PROGRAM, "")).with_name("python")


def fits() -> str:
    """Why nothing can be tried."""
    if vllm.PROGRAM not in os.environ:
        return f"{vllm.PROGRAM} names no vLLM"
    tried = subprocess.run([interpreter(), "-c", "import trl"], capture_output=True, check=False)
    return f"{interpreter()} has no TRL" if tried.returncode else ""


pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * PATIENCE_S)]


def run(folder: Path, part: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [interpreter(), Path(__file__).with_name("vllm_trial.py"), folder, part],
        env={**os.environ, **ALONE},
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    found: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    return done.returncode, {**found, "said": done.stderr[-3000:]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if why := fits():
        pytest.skip(why)
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    """What came of all stages; the process is killed in the last."""
    code, found = run(folder, "whole")
    assert code == -9, found["said"]
    return found


def learns_from_what_it_draws(stage: dict[str, Any]) -> None:
    """In all four steps, with the probabilities that it was drawn with."""
    assert stage["stopped"] is None
    assert [line["step"] for line in stage["lines"]] == [1, 2, 3, 4]
    assert any(line["grad_norm"] > 0 for line in stage["lines"][:-1])
    for line in stage["lines"]:
        assert line["logprob_gap"] < 1e-3
        assert line["importance_ratio"] == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", ["math", "colder", "adapters", "turns", "tools"])
def test_vllm_draws_with_the_weights_that_are_learned(found: dict[str, Any], name: str) -> None:
    stage = found[name]
    learns_from_what_it_draws(stage)
    assert max(line["logprob_gap_max"] for line in stage["lines"]) < 1e-2
    assert stage["place"] == {"RANK": None, "WORLD_SIZE": None}  # the next stage is alone, too


def test_dialogues_are_played(found: dict[str, Any]) -> None:
    turns = [roles.count("assistant") for roles in found["turns"]["roles"]]
    assert max(turns) > 1
    assert any("tool" in roles for roles in found["tools"]["roles"])


def test_weights_that_do_not_arrive_are_an_alarm(found: dict[str, Any]) -> None:
    assert "other probabilities than are learned from" in found["left behind"]["stopped"]
    assert found["left behind"]["lines"][0]["logprob_gap"] < 1e-3
    assert found["left behind"]["lines"][-1]["logprob_gap"] > 0.1


def drawn(stage: Path) -> list[tuple[Any, ...]]:
    """What was drawn and earned."""
    rows = read(stage / "rollouts").to_pylist()
    return sorted(
        (row["step"], row["group"], row["sample"], str(row["messages"]), row["shaped"])
        for row in rows
    )


def test_a_killed_stage_goes_on_as_if_nothing_had_been(folder: Path, found: dict[str, Any]) -> None:
    code, later = run(folder, "goes on")
    assert code == 0, later["said"]
    for whole, cut, file in (
        ("math", "cut", "model.safetensors"),
        ("adapters", "cut-adapters", "adapter_model.safetensors"),
    ):
        assert drawn(folder / whole) == drawn(folder / cut)
        one, other = ((folder / name / "policy" / file).read_bytes() for name in (whole, cut))
        assert one == other


def test_a_server_is_asked_with_seeds_and_tells_the_trainers_probabilities(
    folder: Path, found: dict[str, Any]
) -> None:
    code, later = run(folder, "asks")
    assert code == 0, later["said"]
    asked = later["asked"]
    assert max(asked["gaps"]) < 1e-3
    assert all(asked["same"])
    one, other, _, last = asked["tokens"]
    assert one != other  # the same question with another seed
    assert len(last) == 3  # as much as there is room for


def test_a_server_draws_with_the_adapters_that_are_learned(
    folder: Path, found: dict[str, Any]
) -> None:
    code, later = run(folder, "serves")
    assert code == 0, later["said"]
    for name in ("served", "served pair", "resumed"):
        learns_from_what_it_draws(later[name])
    assert later["cut served"]
    assert later["unserved"]["lines"][-1]["logprob_gap"] > 0.01
    assert not list(folder.glob("*/served"))


def test_processes_draw_what_one_would(folder: Path, found: dict[str, Any]) -> None:
    code, later = run(folder, "shares")
    assert code == 0, later["said"]
    for line in later["pair"]["lines"]:
        assert line["grad_norm"] > 0
        assert line["logprob_gap"] < 1e-3
    alone, pair = (
        [row for row in drawn(folder / name) if not row[0]] for name in ("alone", "pair")
    )
    assert alone == pair  # of the first step; later ones may differ by rounding
    assert alone
