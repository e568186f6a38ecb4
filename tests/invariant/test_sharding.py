"""Weights in pieces: the same is learned as with whole ones, and a lost process costs little."""

import os
import signal
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

import torch
from training import lake_tasks, stage, weights

from coevolve.core.errors import EngineError
from coevolve.engines.base import Progress
from coevolve.engines.trl import sharding
from coevolve.engines.trl.engine import TrlEngine
from coevolve.engines.trl.folder import StageFolder
from coevolve.engines.trl.settings import shards
from coevolve.policies.models import load
from coevolve.store.shards import read

STEPS = {"steps": 10, "tasks": 4}


def run(folder: Path, sharding: str, **recipe: object) -> Path:
    changed = stage(folder, processes=2, sharding=sharding, recipe={**STEPS, **recipe})
    TrlEngine().train(changed, lake_tasks(8))
    return folder / "policy"


def apart(one: Path, other: Path, file: str) -> tuple[float, float]:
    """The largest difference between two policies, and between the first and its start."""
    from safetensors.torch import load_file

    from coevolve.pocket import folder

    first, second = load_file(one / file), load_file(other / file)
    start = weights(folder())
    gaps = [(first[name] - second[name]).abs().max().item() for name in first]
    moved = [(first[name] - start[name]).abs().max().item() for name in first if name in start]
    return max(gaps), max(moved, default=0.0)


def test_pieces_learn_what_whole_weights_learn(tmp_path: Path) -> None:
    short = {"steps": 3}
    whole, pieces = (run(tmp_path / name, name, **short) for name in ("none", "full"))
    gap, moved = apart(whole, pieces, "model.safetensors")
    assert moved > 1e-4
    assert gap < 0.05 * moved
    assert load(str(pieces)).model is not None
    rows = [read(tmp_path / name / "rollouts") for name in ("none", "full")]
    texts = [sorted(str(row) for row in one["messages"].to_pylist()) for one in rows]
    assert texts[0] == texts[1]
    lines = StageFolder(tmp_path / "full").lines()
    assert max(line["logprob_gap_max"] for line in lines) < 1e-3  # the copy draws as it learns


@pytest.mark.slow
@pytest.mark.parametrize("lora", [0, 8])
def test_ten_steps_and_adapters(tmp_path: Path, lora: int) -> None:
    whole, pieces = (run(tmp_path / name, name, lora=lora) for name in ("none", "full"))
    file = "adapter_model.safetensors" if lora else "model.safetensors"
    gap, moved = apart(whole, pieces, file)
    assert gap < (1e-4 if lora else 0.05 * moved)


@pytest.mark.slow
def test_a_lost_process_costs_the_steps_since_the_last_checkpoint(tmp_path: Path) -> None:
    run(tmp_path / "whole", "full")
    folder = tmp_path / "stage"

    def lose(progress: Progress) -> None:
        if progress.step == 5:
            os.kill(youngest(folder), signal.SIGKILL)

    changed = stage(folder, processes=2, sharding="full", recipe=STEPS)
    with pytest.raises(EngineError):
        TrlEngine().train(changed, lake_tasks(8), lose)
    assert StageFolder(folder).last() is not None
    run(folder, "full")
    first, second = weights(tmp_path / "whole" / "policy"), weights(folder / "policy")
    assert all(torch.equal(first[name], second[name]) for name in first)


def youngest(folder: Path) -> int:
    """One of the processes that train here."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            told = (path.parent / "cmdline").read_bytes()
            if str(folder).encode() in told and b"LOCAL_RANK=1" in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return max(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_copy_to_draw_with_is_one_of_its_own(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharding, "pick_dtype", lambda *_, **__: dtype)
    model = load("pocket", "cpu", training=True).model
    made = sharding.Copy(model)
    pairs = list(zip(model.named_parameters(), made.model.named_parameters(), strict=True))
    assert all(one[0] == other[0] for one, other in pairs)
    for (_, ours), (_, copied) in pairs:
        assert torch.equal(ours.to(dtype), copied)
        assert (ours.requires_grad, copied.requires_grad) == (True, False)
        assert ours.data_ptr() != copied.data_ptr()
    buffers = list(zip(model.buffers(), made.model.buffers(), strict=True))
    assert buffers
    assert all(torch.equal(ours, copied) for ours, copied in buffers)
    with torch.no_grad():
        model.get_input_embeddings().weight.add_(1.0)
    made.follow(model)
    assert torch.equal(made.model.lm_head.weight, model.lm_head.weight.to(dtype))


def test_large_models_are_cut_unless_told_otherwise(tmp_path: Path) -> None:
    for how, processes, size, cut in (
        ("auto", 2, "large", True), ("auto", 2, "middle", False), ("auto", 1, "large", False),
        ("full", 2, "small", True), ("none", 2, "large", False), ("full", 1, "large", False),
    ):  # fmt: skip
        assert shards(stage(tmp_path, processes=processes, sharding=how), size) is cut
