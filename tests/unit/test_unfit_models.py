"""Models that cannot be loaded or drawn from are refused in one line."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="adapters need the extra `train`")

import transformers

from coevolve.core.errors import PolicyError
from coevolve.core.rollout import Message
from coevolve.pocket import folder
from coevolve.policies.base import Prompt, Sampling
from coevolve.policies.generate import Generator
from coevolve.policies.local import LocalPolicy
from coevolve.policies.models import Loaded, load

SMALL: dict[str, Any] = {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2}
HEADS = {"intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}


def changed(file: Path, **values: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **values}), "utf-8")


@pytest.mark.parametrize(
    ("size", "said"), [(320, "do not fit its config"), ("many", "hidden_size"), (-1, "")]
)
def test_a_config_that_cannot_be_right_is_named(tmp_path: Path, size: Any, said: str) -> None:
    shutil.copytree(folder(), tmp_path / "model")
    changed(tmp_path / "model" / "config.json", hidden_size=size)
    with pytest.raises(PolicyError) as error:
        load(str(tmp_path / "model"), "cpu")
    assert f"cannot load the model in {tmp_path}" in str(error.value)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_an_adapter_of_another_rank_is_named(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    loaded = load("pocket", "cpu")
    get_peft_model(loaded.model, config).save_pretrained(str(tmp_path))
    loaded.tokenizer.save_pretrained(str(tmp_path))
    changed(tmp_path / "adapter_config.json", r=8, base_model_name_or_path="pocket")
    with pytest.raises(PolicyError, match="do not fit its config") as error:
        load(str(tmp_path), "cpu")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("Mamba", SMALL, "'mamba' (layers"),
        ("Lfm2", {**SMALL, **HEADS, "layer_types": ["conv", "full_attention"]}, "(layers: conv)"),
        ("Bloom", {"vocab_size": 400, "hidden_size": 32, "n_layer": 2, "n_head": 4}, "ValueError"),
    ],
)
def test_models_that_remember_in_other_ways_are_refused(
    name: str, changes: dict[str, Any], said: str
) -> None:
    config = getattr(transformers, f"{name}Config")(**changes)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with pytest.raises(PolicyError, match="cannot draw from models of type") as error:
        Generator(model, [1], 0).generate([[3, 4, 5]], [1], 2, 1.0)
    assert said in str(error.value)


def test_a_model_without_a_limit_reads_any_prompt() -> None:
    tokenizer = load("pocket", "cpu").tokenizer
    sizes = {"d_model": 32, "n_layers": 2, "n_heads": 4}
    config = transformers.MptConfig(vocab_size=len(tokenizer), **sizes)
    assert not hasattr(config, "max_position_embeddings")
    loaded = Loaded("mpt", "mpt", transformers.MptForCausalLM(config), tokenizer)
    policy = LocalPolicy("mpt", loaded=loaded)
    prompt = Prompt((Message(role="user", content="plan " * 600),))
    assert policy.answer([prompt], Sampling(max_tokens=4))[0].prompt_tokens == 600
