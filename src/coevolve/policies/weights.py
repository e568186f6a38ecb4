"""What is in a model: one hash of its files, so that another one under the same name is noticed."""

import json
from hashlib import blake2b
from pathlib import Path

from coevolve.core.errors import UserError
from coevolve.core.seeds import digest
from coevolve.policies.models import find

FILES = (
    "*.safetensors", "*.bin", "config.json", "adapter_config.json", "generation_config.json",
    "tokenizer*", "chat_template*",
)  # fmt: skip
"""Files of a model folder that decide what it answers."""


def weights_of(name: str) -> str:
    """A hash of a model's files on this machine; empty for what has none here."""
    try:
        return hash_of_weights(Path(name if Path(name).is_file() else find(name)))
    except UserError:
        return ""


def hash_of_weights(place: Path) -> str:
    """One hash for a model file or folder, and for the folder that an adapter belongs to."""
    every = {path for glob in FILES for path in place.glob(glob) if path.is_file()}
    files = [place] if place.is_file() else sorted(every)
    state = blake2b(digest_size=16)
    for file in files:
        state.update(digest(file.name, file.stat().st_size))
        with file.open("rb") as stream:
            while block := stream.read(1 << 22):
                state.update(block)
    if (adapter := place / "adapter_config.json") in files:
        state.update(weights_of(base_of(adapter)).encode())
    return state.hexdigest() if files else ""


def base_of(adapter: Path) -> str:
    """The model that an adapter belongs to; empty where it does not say."""
    try:
        return str(json.loads(adapter.read_bytes())["base_model_name_or_path"])
    except (ValueError, TypeError, KeyError):
        return ""
