"""vLLM as the generator of a stage, in this process or on a server.

TRL starts it and hands it the weights, but for adapters, which a server reads from the disk; it is
asked as our own generator is, so seeds, limits and the tokens that end an answer are the same,
whoever draws.
"""

import math
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from torch import Tensor

from coevolve.core.errors import EngineError
from coevolve.engines.base import Stage
from coevolve.engines.trl.folder import rank
from coevolve.engines.trl.settings import need_vllm, shards
from coevolve.policies.generate import Answer
from coevolve.policies.hardware import in_bfloat16, size_of
from coevolve.policies.models import Loaded
from coevolve.policies.vllm import Server

AT_ONCE = 64
"""Requests to a server that wait at the same time."""
READ_AT_ONCE = 4096
"""Tokens of prompts, as TRL sets it."""
SERVED, NAME = "served", "name"
"""Folder in a stage's from which a server reads adapters, and the file that names one."""
PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Where TRL tells vLLM its place among processes."""


class VllmGenerator:
    """Draws answers by vLLM, with the weights that it took over last."""

    def __init__(
        self, generation: Any, end_ids: Sequence[int], context: int, folder: Path | None = None
    ) -> None:
        """A server that others started gets adapters below `folder`."""
        self.generation, self.context = generation, context
        self.end_ids = sorted(set(end_ids))
        self.served = Path()
        self.handed = 0
        """Adapters that the server was given."""
        self.name = ""
        """Of the last; without one it draws with the weights that TRL sends."""
        apart = plain_adapters(generation.model) and not generation._dist.is_fsdp
        if apart and generation.mode == "server" and folder:
            self.served = folder.resolve() / SERVED
        elif apart:
            generation._iter_named_params = partial(merged, generation.model)

    def follow(self) -> None:
        """Take over what was learned."""
        if self.served.name:
            self.serve()
        else:
            self.generation.sync_weights()
        self.generation.accelerator.wait_for_everyone()  # before any process asks the server

    def serve(self) -> None:
        """Have the server read the adapter as it is now. Each has a name of its own, since a server
        keeps names, and the places that they stood for."""
        accelerator, place = self.generation.accelerator, self.served / str(self.handed)
        if accelerator.is_main_process:
            shutil.rmtree(place, ignore_errors=True)
            self.generation.model.save_pretrained(str(place))
            (place / NAME).write_text(f"adapter-{uuid4().hex}", "utf-8")
        accelerator.wait_for_everyone()
        self.name = (place / NAME).read_text("utf-8")
        self.server.take(self.name, str(place))
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            shutil.rmtree(self.served / str(self.handed - 1), ignore_errors=True)
        self.handed += 1

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        seeds: Sequence[int],
        max_tokens: int,
        temperature: float,
    ) -> list[Answer]:
        """One answer per prompt, in order; it tells no entropies."""
        asked = [
            {
                "seed": seed,
                "max_tokens": min(max_tokens, self.context - len(prompt)),
                "temperature": temperature,
                "logprobs": 0,  # of the token that was drawn, and of no other
                "ignore_eos": True,
                "stop_token_ids": self.end_ids,
            }
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        ids = [list(prompt) for prompt in prompts]
        ask = self.here if self.generation.mode == "colocate" else self.there
        drawn, ends = ask(ids, asked), set(self.end_ids)
        for _, logprobs in drawn:
            if not all(value is not None and math.isfinite(value) for value in logprobs):
                raise EngineError("vLLM drew a token and told no probability of it")
        return [Answer(own, told, [], bool(own) and own[-1] in ends) for own, told in drawn]

    def here(
        self, prompts: list[list[int]], asked: list[dict[str, Any]]
    ) -> list[tuple[list[int], list[float]]]:
        """Tokens and log-probabilities of vLLM in this process."""
        from vllm import SamplingParams

        found = self.generation.llm.generate(
            [{"prompt_token_ids": prompt} for prompt in prompts],
            [SamplingParams(**one, detokenize=False) for one in asked],
            use_tqdm=False,
        )
        drawn = []
        for one in (each.outputs[0] for each in found):
            pairs = zip(one.token_ids, one.logprobs, strict=True)
            drawn.append((list(one.token_ids), [told[token].logprob for token, told in pairs]))
        return drawn

    def there(
        self, prompts: list[list[int]], asked: list[dict[str, Any]]
    ) -> list[tuple[list[int], list[float]]]:
        """The same of a server; a request has one seed, so each prompt is one."""
        model = {"model": self.name} if self.name else {}

        def ask(prompt: list[int], one: dict[str, Any]) -> tuple[list[int], list[float]]:
            found = self.client.generate([prompt], generation_kwargs={**one, **model})
            return found["completion_ids"][0], [told[0] for told in found["logprobs"][0]]

        with ThreadPoolExecutor(min(AT_ONCE, len(prompts))) as pool:
            return list(pool.map(ask, prompts, asked))

    @cached_property
    def client(self) -> Any:
        """TRL's, which only the first process has; the others make one that sends no weights."""
        if own := getattr(self.generation, "vllm_client", None):
            return own
        from trl.generation.vllm_client import VLLMClient

        return VLLMClient(self.generation.server_base_url)

    @cached_property
    def server(self) -> Server:
        return Server(f"{self.client.base_url}/v1#{self.client.model}", 0)


def reads_adapters(stage: Stage, loaded: Loaded) -> bool:
    """Whether a server gets no weights but adapters."""
    own = plain_adapters(loaded.model) or (
        stage.recipe.rank > 0 and not hasattr(loaded.model, "peft_config")
    )
    return own and not shards(stage, size_of(loaded.model))


def plain_adapters(model: Any) -> bool:
    """Whether a model has low-rank adapters, and none that do more than add to weights."""
    configs = getattr(model, "peft_config", {}).values()
    return bool(configs) and all(
        config.peft_type == "LORA"
        and not (config.use_dora or config.lora_bias or config.target_parameters)
        for config in configs
    )


def merged(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Weights by the names that vLLM knows, with what adapters add to them.

    TRL adds it in place and takes it off again. Rounding stays behind then, which a stage that is
    resumed would not have.
    """
    layers = dict(model.named_modules())
    for name, parameter in model.named_parameters():
        if model.prefix in name or "original_module" in name:
            continue
        weight, (owner, base, kind) = parameter.data, name.rpartition(".base_layer.")
        if base and kind == "weight":
            layer = layers[owner]
            for adapter in layer.active_adapters:
                if adapter in layer.lora_A or adapter in layer.lora_embedding_A:
                    weight = weight + layer.get_delta_weight(adapter)
        plain = name.removeprefix("base_model.model.").replace(".base_layer", "")
        yield plain.replace("modules_to_save.default.", ""), weight


def vllm_for(stage: Stage, loaded: Loaded) -> AbstractContextManager[None]:
    """What vLLM needs around a stage that it draws for."""
    if stage.kind == "warm" or stage.recipe.generator == "local":
        return nullcontext()
    need_vllm(stage.recipe.generator)
    if stage.recipe.generator == "vllm":
        return vllm_here(loaded)
    return adapters_alone(stage.folder) if reads_adapters(stage, loaded) else nullcontext()


@contextmanager
def adapters_alone(folder: Path) -> Iterator[None]:
    """A server that reads adapters from the disk is not told to wait for weights."""
    from trl.generation.vllm_client import VLLMClient

    plain = VLLMClient.init_communicator
    VLLMClient.init_communicator = lambda *_, **__: None
    try:
        yield
    finally:
        VLLMClient.init_communicator = plain
        if rank() == 0:
            shutil.rmtree(folder / SERVED, ignore_errors=True)


@contextmanager
def vllm_here(loaded: Loaded) -> Iterator[None]:
    """vLLM in this process: it computes as the trainer does, and leaves nothing behind."""
    from trl.generation import vllm_generation

    plain, started = vllm_generation.LLM, []
    before, hook = {name: os.environ.get(name) for name in PLACE}, sys.excepthook

    def start(**given: Any) -> Any:
        started.append(plain(**{**given, **options(loaded)}))
        return started[-1]

    vllm_generation.LLM = start
    try:
        yield
    finally:
        vllm_generation.LLM, sys.excepthook = plain, hook
        for llm in started:
            llm.llm_engine.engine_core.shutdown()
        if started and before["WORLD_SIZE"] is None:  # else the processes have yet to part
            from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

            cleanup_dist_env_and_memory()
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def options(loaded: Loaded) -> dict[str, Any]:
    """What TRL does not tell vLLM."""
    if loaded.model.device.type != "cpu":
        return {"dtype": "bfloat16" if in_bfloat16(loaded.model) else "float32"}
    from vllm import _custom_ops

    # oneDNN computes with copies of weights, which would stay as they were when it was started.
    _custom_ops._supports_onednn = False
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    return {
        "dtype": "float32",
        "enforce_eager": True,
        # On CPUs a prompt that is read in pieces breaks requests that have a seed.
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(READ_AT_ONCE, loaded.context),
    }
