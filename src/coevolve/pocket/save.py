"""Model folders: complete or not there, and never in place of something else.

Invariant: a folder is written beside its final place and moved there in one step; what is replaced
is a model folder with its `build.json`, and only when that was asked for.
"""

import copy
import json
import os
import shutil
from pathlib import Path
from typing import Any

from transformers import LlamaForCausalLM

from coevolve.core.errors import UserError
from coevolve.pocket.tokenizer import make_tokenizer
from coevolve.policies.models import without_bars

RECORD = "build.json"
MOST_FLOAT32_BYTES = 12_000_000
"""Larger models are saved in bfloat16."""


def check_free(folder: Path, force: bool) -> None:
    """Refuse a folder that holds something, unless it is a model that may be replaced."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file; name a folder")
    if not any(folder.iterdir()):
        return
    if not (folder / RECORD).is_file():
        raise UserError(f"{folder} is not empty and holds no model of ours; name another folder")
    if not force:
        raise UserError(f"{folder} holds a model; name another folder, or replace it with --force")


def save(folder: Path, model: LlamaForCausalLM, record: dict[str, Any], force: bool) -> None:
    """Write a transformers folder and its record, and put it in place."""
    check_free(folder, force)
    partial = folder.with_name(f".{folder.name}.partial")
    replaced = folder.with_name(f".{folder.name}.replaced")
    try:
        for left_over in (partial, replaced):
            shutil.rmtree(left_over, ignore_errors=True)
        partial.mkdir(parents=True)
        with without_bars():
            as_saved(model).save_pretrained(partial)
        make_tokenizer().save_pretrained(partial)
        text = json.dumps(record, indent=2) + "\n"
        (partial / RECORD).write_text(text, encoding="utf-8")
        for file in partial.iterdir():  # weights are written for their owner alone
            file.chmod((partial / RECORD).stat().st_mode)
        if folder.exists():
            os.rename(folder, replaced)
        os.rename(partial, folder)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if folder.exists():
            shutil.rmtree(replaced, ignore_errors=True)


def as_saved(model: LlamaForCausalLM) -> LlamaForCausalLM:
    """The model in the precision it is kept in."""
    if 4 * model.num_parameters() <= MOST_FLOAT32_BYTES:
        return model
    return copy.deepcopy(model).bfloat16()
