"""GPU memory that a GRPO stage takes, beside what `coevolve train --plan` says it will.

    python benchmarks/memory.py OUTPUT --tokenizer FOLDER [--shapes 0.5b 1.5b 3b] [--lora 0 32]

Models have the shapes of Qwen2.5 and random weights: memory does not know the difference. Two steps
of each on `math`. Writes OUTPUT/memory.json; on a GPU only.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from command import coevolve
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.engines.base import Stage
from coevolve.engines.trl.fit import fit_of
from coevolve.harness.recipe import Recipe

SHAPES: dict[str, dict[str, Any]] = {
    "0.5b": {"hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
             "num_key_value_heads": 2, "intermediate_size": 4864, "tie_word_embeddings": True},
    "1.5b": {"hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12,
             "num_key_value_heads": 2, "intermediate_size": 8960, "tie_word_embeddings": True},
    "3b": {"hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16,
           "num_key_value_heads": 2, "intermediate_size": 11008, "tie_word_embeddings": True},
    "7b": {"hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
           "num_key_value_heads": 4, "intermediate_size": 18944, "tie_word_embeddings": False},
}  # fmt: skip


def make(shape: str, tokenizer: str, folder: Path) -> None:
    """A model with random weights, unless it is there."""
    if folder.exists():
        return
    config = Qwen2Config(vocab_size=151_936, max_position_embeddings=32_768, **SHAPES[shape])
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = Qwen2ForCausalLM(config)
        torch.set_default_dtype(torch.float32)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--shapes", nargs="*", default=["0.5b", "1.5b", "3b"], choices=SHAPES)
    parser.add_argument("--lora", type=int, nargs="*", default=[0, 32])
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=512)
    arguments = parser.parse_args()
    rows, domain = [], get_domain("math")
    tasks = list(domain.generate(domain.space.parse({}), 2 * arguments.tasks, 1, Split.TRAIN))
    for shape in arguments.shapes:
        model = arguments.output / shape
        make(shape, arguments.tokenizer, model)
        torch.cuda.empty_cache()
        for rank in arguments.lora:
            recipe = {
                "steps": 2, "tasks": arguments.tasks, "group": 8, "lora": rank,
                "max_tokens": arguments.max_tokens,
            }  # fmt: skip
            words = [word for name, value in recipe.items() for word in ("-r", f"{name}={value}")]
            stage = arguments.output / "stage"
            shutil.rmtree(stage, ignore_errors=True)
            wanted = Stage(kind="grpo", model=str(model), folder=stage, recipe=Recipe(**recipe))
            reckoned = fit_of(wanted, tasks, {"math": domain}).peak
            row: dict[str, Any] = {"shape": shape, "recipe": recipe, "reckoned_gib": reckoned}
            try:
                coevolve("train", "grpo", "-d", "math", "-p", str(model), *words, "-o", str(stage))
                lines = (stage / "steps.jsonl").read_text().splitlines()
                steps = [json.loads(line) for line in lines]
                row["memory_gib"] = max(step["memory_gib"] for step in steps)
                row["seconds"] = [step["seconds"] for step in steps]
            except SystemExit as error:
                row["error"] = str(error)[-600:]
            rows.append(row)
            print(json.dumps(row), flush=True)
            (arguments.output / "memory.json").write_text(json.dumps(rows))
        shutil.rmtree(model)


if __name__ == "__main__":
    main()
