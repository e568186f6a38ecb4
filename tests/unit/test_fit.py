"""Will it fit? What is reckoned beside what a GPU has shown, and what is refused."""

import json
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

from training import lake_tasks, stage

from coevolve.core.errors import UserError
from coevolve.domains.registry import get_domain
from coevolve.engines.trl.fit import Fit, Shape, fit_of, reckon, refuse_misfit, shape_of
from coevolve.pocket import folder

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "memory.json"
SHAPES = {
    "0.5b": Shape(494_032_768, 24, 896, 4_864, 128, 151_936, 549_888),
    "1.5b": Shape(1_543_714_304, 28, 1_536, 8_960, 256, 151_936, 1_154_048),
    "3b": Shape(3_085_938_688, 36, 2_048, 11_008, 256, 151_936, 1_870_848),
}


def test_what_is_reckoned_is_near_what_a_gpu_showed(tmp_path: Path) -> None:
    measured = json.loads(RESULTS.read_text())
    for row in measured["rows"]:
        wanted = stage(tmp_path, recipe=row["recipe"])
        found = reckon(wanted, SHAPES[row["shape"]], measured["prompt"]).peak
        assert found == pytest.approx(row["memory_gib"], rel=0.15), row
    assert {row["shape"] for row in measured["rows"]} == set(SHAPES)


def test_the_shape_of_a_model_is_read_without_its_weights() -> None:
    shape = shape_of(str(folder()))
    assert (shape.layers, shape.hidden, shape.size) == (4, 160, "small")
    assert 1_000_000 < shape.parameters < 1_500_000


def test_pieces_and_adapters_take_less(tmp_path: Path) -> None:
    shape = SHAPES["3b"]

    def fit(**changes: object) -> Fit:
        recipe = {"tasks": 16, "group": 8, "max_tokens": 512, "lora": changes.pop("lora", 0)}
        return reckon(stage(tmp_path, recipe=recipe, **changes), shape, 100)

    whole, pieces, adapter = fit(), fit(processes=4), fit(lora=32)
    assert pieces.weights == whole.weights / 4
    assert pieces.optimiser == whole.optimiser / 4
    assert pieces.copy > 0 == whole.copy
    assert adapter.fixed < whole.fixed / 3
    assert adapter.checkpoints < whole.checkpoints / 20


def test_what_cannot_fit_is_refused_with_the_setting_to_change(tmp_path: Path) -> None:
    seven = SHAPES["3b"]._replace(parameters=7_600_000_000)
    for changes, hints in (
        ({}, "set lora = 32, or train on several GPUs"),
        ({"recipe": {"lora": 32}}, "train on several GPUs"),
        ({"processes": 2, "sharding": "none"}, "set sharding = full"),
    ):
        wanted = stage(tmp_path, **changes)
        with pytest.raises(UserError, match=hints):
            refuse_misfit(reckon(wanted, seven, 100), wanted, 24.0)
    small = stage(tmp_path)
    refuse_misfit(reckon(small, SHAPES["0.5b"], 100), small, 24.0)


def test_prompts_are_counted(tmp_path: Path) -> None:
    fit = fit_of(stage(tmp_path), lake_tasks(4), {"lake": get_domain("lake")})
    assert 0 < fit.fixed < fit.peak < 1
