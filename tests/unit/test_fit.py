"""Will it fit? What is reckoned beside what a GPU has shown, what is said and what is refused."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("trl", reason="training needs the extra `train`")

import torch
from training import lake_tasks, stage

from coevolve.core.errors import UserError
from coevolve.domains.registry import get_domain
from coevolve.engines import stage as stages
from coevolve.engines.stage import decided, read
from coevolve.engines.trl import fit as fits
from coevolve.engines.trl.engine import TrlEngine
from coevolve.engines.trl.fit import (
    Fit,
    Room,
    Shape,
    fit_of,
    foreseen,
    reckon,
    refuse_misfit,
    room_for,
    shape_of,
)
from coevolve.harness.plan import Plan
from coevolve.harness.recipe import Recipe
from coevolve.loop.create import create
from coevolve.pocket import folder
from coevolve.policies import hardware
from coevolve.policies.models import count_weights

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "memory.json"
SHAPES = {
    "0.5b": Shape(494_032_768, 24, 896, 4_864, 128, 151_936, 549_888),
    "1.5b": Shape(1_543_714_304, 28, 1_536, 8_960, 256, 151_936, 1_154_048),
    "3b": Shape(3_085_938_688, 36, 2_048, 11_008, 256, 151_936, 1_870_848),
}
GPU = Room(24.0, True, 100.0)


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
    fourteen = seven._replace(parameters=14_800_000_000)
    for shape, changes, hints in (
        (seven, {}, "set lora = 32, or train on several GPUs"),
        (fourteen, {"recipe": {"lora": 32}}, "train on several GPUs"),
        (seven, {"processes": 2, "sharding": "none"}, "set sharding = full"),
    ):
        wanted = stage(tmp_path, **changes)
        with pytest.raises(UserError, match=hints):
            refuse_misfit(reckon(wanted, shape, 100), wanted, GPU)
    adapters = stage(tmp_path, recipe={"lora": 32})
    refuse_misfit(reckon(adapters, seven, 100), adapters, GPU)
    eight = stage(tmp_path, processes=8)
    with pytest.raises(UserError, match=r"loads all weights, 28 GiB .* with, 14, .* has 40; take"):
        refuse_misfit(reckon(eight, seven, 100), eight, GPU._replace(memory=40.0))
    refuse_misfit(reckon(eight, seven, 100), eight, GPU._replace(memory=45.0))
    small = stage(tmp_path)
    refuse_misfit(reckon(small, SHAPES["0.5b"], 100), small, GPU)


def test_without_a_gpu_the_memory_of_the_machine_counts(tmp_path: Path) -> None:
    laptop = Room(16.0, False, 100.0)
    for changes, hints in (
        ({}, r"this machine has, for each process, 16\.0; set lora = 32, or take a smaller model"),
        ({"kind": "warm"}, "set lora = 32"),
        ({"recipe": {"lora": 8}, "processes": 2}, "; lower processes, or take a smaller model"),
    ):
        wanted = stage(tmp_path, **changes)
        fit = reckon(wanted, SHAPES["1.5b" if "recipe" not in changes else "3b"], 100, cuda=False)
        with pytest.raises(UserError, match=hints):
            foreseen(fit, wanted, laptop._replace(memory=16.0 if "recipe" not in changes else 8.0))
    refuse_misfit(fit, wanted, laptop._replace(memory=0.0))  # where nobody knows it


def test_what_is_needed_is_said_in_a_line(tmp_path: Path) -> None:
    recipe = {"steps": 100, "tasks": 16, "group": 8, "max_tokens": 512}
    wanted = stage(tmp_path, recipe={**recipe, "lora": 32})
    fit = reckon(wanted, SHAPES["3b"], 100)
    line = foreseen(fit, wanted, GPU, trainings=3)
    assert line.startswith("a step with adapters of rank 32 needs about 11 of 24 GiB of GPU memory")
    assert "(weights 6.0, gradients 0.2, optimiser 0.4, " in line
    disk = fit.checkpoints + 3 * (fit.policy + fit.rollouts)
    assert f"; checkpoints and rollouts about {disk:.1f} GiB of disk, 100 are free" in line
    elsewhere = foreseen(fit, wanted, GPU._replace(memory=0.0), trainings=3)
    assert elsewhere.startswith("checkpoints and rollouts about")
    whole = stage(tmp_path, recipe=recipe)
    tight = foreseen(reckon(whole, SHAPES["1.5b"], 100), whole, GPU)
    assert tight.endswith("; this may not fit: lower micro_batch or max_tokens, or set lora = 32")
    warm = stage(tmp_path, kind="warm")
    line = foreseen(reckon(warm, SHAPES["1.5b"], 0), warm, GPU)
    assert "needs at least 26 of 24 GiB" in line
    assert line.endswith("; this may not fit: lower micro_batch, or set lora = 32")


def test_vllm_takes_its_share_of_a_gpu_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fits, "pick_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(fits, "gpu_memory", lambda: 80 * 2**30)
    recipe = {"tasks": 16, "group": 8, "max_tokens": 512, "lora": 32}
    ours, theirs = (
        stage(tmp_path, recipe={**recipe, "generator": generator})
        for generator in ("local", "vllm")
    )
    assert room_for(ours).memory == 80
    assert room_for(theirs).memory == pytest.approx(56)
    assert reckon(ours, SHAPES["3b"], 100).cache > reckon(theirs, SHAPES["3b"], 100).cache == 0
    line = foreseen(reckon(theirs, SHAPES["3b"], 100), theirs, room_for(theirs))
    assert "of 56 GiB of GPU memory that vLLM leaves (weights" in line


def test_a_disk_that_is_too_small_is_told(tmp_path: Path) -> None:
    recipe = {"steps": 1_000, "tasks": 64, "group": 16, "max_tokens": 512, "lora": 32}
    wanted = stage(tmp_path, recipe=recipe)
    fit = reckon(wanted, SHAPES["1.5b"], 100)
    assert fit.saved(9) < fit.disk(9) / 2
    between = GPU._replace(disk=fit.disk(9) / 2)
    assert foreseen(fit, wanted, between, 9).endswith("the disk may be too small: make room there")
    full = GPU._replace(disk=fit.saved(9) / 2)
    with pytest.raises(UserError, match=r"checkpoints of 9 trainings take .* fewer versions"):
        foreseen(fit, wanted, full, 9)


def test_a_container_may_have_less_memory_than_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = tmp_path / "memory.max"
    monkeypatch.setattr(hardware, "BOUNDS", (str(bound), str(tmp_path / "gone")))
    monkeypatch.setattr(hardware.os, "sysconf", {"SC_PHYS_PAGES": 1_000, "SC_PAGE_SIZE": 4}.get)
    found = [hardware.machine_memory()]
    for text in ("max\n", "3000\n", "9000\n"):
        bound.write_text(text)
        found.append(hardware.machine_memory())
    assert found == [4_000, 4_000, 3_000, 4_000]


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Bytes of memory and of disk that this machine is made to have."""
    found = {"memory": 1 << 34, "disk": 1 << 34}
    monkeypatch.setenv("COEVOLVE_DEVICE", "cpu")
    monkeypatch.setattr(fits, "machine_memory", lambda: found["memory"])
    monkeypatch.setattr(fits, "free", lambda _: found["disk"])
    return found


def test_small_models_pass_in_silence(tmp_path: Path, room: dict[str, int]) -> None:
    assert room_for(stage(tmp_path, processes=2)) == Room(8.0, False, 16.0)
    assert TrlEngine().foresee(stage(tmp_path), lake_tasks(4)) == ""


def test_a_run_that_cannot_fit_leaves_no_trace(tmp_path: Path, room: dict[str, int]) -> None:
    said: list[str] = []
    place = tmp_path / "run"
    for name, words in (("memory", "this machine has"), ("disk", "checkpoints of 3 trainings")):
        before, room[name] = room[name], 1 << 20
        with pytest.raises(UserError, match=words):
            create(Plan(), place, say=said.append)
        room[name] = before
    assert not place.exists()
    assert not said
    many = Plan(recipe={"steps": 100_000, "tasks": 512, "group": 32})
    create(many, place, say=said.append).ledger.close()
    assert "GiB of disk" in said[0]
    room["disk"] = 0
    create(many, place, say=said.append).ledger.close()  # what is begun goes on
    assert len(said) == 1


@pytest.mark.parametrize("command", ["run", "evolve", "compare", "train"])
def test_every_command_refuses_what_cannot_fit(
    command: str, tmp_path: Path, room: dict[str, int]
) -> None:
    from coevolve.cli.main import app

    room["memory"] = 1 << 20
    few = ["-r", "steps=2"] if command == "train" else []
    found = CliRunner().invoke(app, [command, "-o", str(tmp_path / "new"), *few])
    assert isinstance(found.exception, UserError)
    assert "this cannot fit: weights 0.0" in str(found.exception)
    assert not (tmp_path / "new").exists()


def test_prompts_are_counted(tmp_path: Path) -> None:
    fit = fit_of(stage(tmp_path), lake_tasks(4), {"lake": get_domain("lake")})
    assert 0 < fit.fixed < fit.peak < 1


def test_weights_are_counted_without_loading_them(tmp_path: Path) -> None:
    assert count_weights("pocket") == shape_of(str(folder())).parameters
    assert count_weights("random") == 0
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(400))
    assert count_weights(str(tmp_path)) == 100
    for damaged in (b"", b"\xff" * 8, b"\x02" + bytes(7) + b"[]", b"\x07" + bytes(7) + b'{"a":1}'):
        (tmp_path / "model.safetensors").write_bytes(damaged)
        assert count_weights(str(tmp_path)) == 100


@pytest.mark.parametrize(
    ("lora", "weights", "engine", "rank"),
    [
        ("auto", 999_999_999, "trl", 0), ("auto", 10**9, "trl", 32), (0, 10**9, "trl", 0),
        (8, 10, "trl", 8), ("auto", 10**9, "command:./train.sh", 0),
    ],
)  # fmt: skip
def test_large_models_get_adapters_unless_told_otherwise(
    lora: int | str, weights: int, engine: str, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "count_weights", lambda _: weights)
    assert decided(Recipe(lora=lora), "pocket", engine).lora == rank


def test_a_stage_records_what_was_decided_and_keeps_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {"recipe": {"steps": 1}}
    tasks, engine = lake_tasks(2), TrlEngine()
    whole = engine.train(stage(tmp_path / "whole", **chosen), tasks)
    monkeypatch.setattr(stages, "LARGE", 1_000)
    adapter = engine.train(stage(tmp_path / "adapter", **chosen), tasks)
    again = engine.train(stage(tmp_path / "whole", **chosen), tasks)
    ranks = [
        read(tmp_path / name / "stage.json")["recipe"]["lora"] for name in ("whole", "adapter")
    ]
    assert ranks == [0, 32]
    assert again == whole
    kept = [(Path(one.policy) / "adapter_config.json").exists() for one in (whole, adapter)]
    assert kept == [False, True]
    assert decided(Recipe(), adapter.policy).lora == 0  # it is trained on as it is
    assert ("lora", 32) in [setting[:2] for setting in engine.settings(stage(tmp_path / "new"))]


def test_a_run_records_what_was_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for plan in (Plan(), Plan(recipe={"lora": 0})):  # as they were recorded before
        with create(plan, tmp_path / "small").ledger as ledger:
            assert ledger.config["recipe"]["lora"] == 0
    monkeypatch.setattr(stages, "LARGE", 1_000)
    with create(Plan(), tmp_path / "large").ledger as ledger:
        assert ledger.config["recipe"]["lora"] == 32


@pytest.mark.parametrize("value", ["many", "-1", "2000"])
def test_a_rank_that_is_none_is_refused_by_its_name(value: str) -> None:
    from coevolve.cli.train import parse_recipe

    with pytest.raises(UserError, match=rf"recipe: lora = '{value}': Input should be"):
        parse_recipe([f"lora={value}"])
