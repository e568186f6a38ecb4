"""A .gguf file as a policy: llama.cpp serves it inside this process, on this machine only.

Invariant: answers are drawn from the model's own distribution at the asked temperature, with no
other filter on it, so that their log-probabilities mean what `Completion` says.
"""

import os
import secrets
import weakref
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.core.errors import PolicyError, UserError
from coevolve.policies.base import Completion, Prompt, Sampling
from coevolve.policies.endpoint import EndpointPolicy

TIMEOUT_S = 3600.0
"""For one answer; a slow machine is no broken one."""
CONTEXT = 16_384
"""Tokens of a prompt with its answer: room for an engineer's briefing and dialogue. Keys and values
of a model of 1.5 billion weights take half a gigabyte then."""

SAMPLING: dict[str, object] = {
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "post_sampling_probs": True,
    "top_logprobs": 1,
}
"""llama.cpp cuts the distribution's tail and reports the uncut one unless told otherwise."""


class Served(NamedTuple):
    """A model that is being served until `server` is dropped."""

    server: Any
    base_url: str
    api_key: str


class GgufPolicy(EndpointPolicy):
    """Answers with a model in a .gguf file, on the CPU or whatever llama.cpp finds."""

    def __init__(
        self, path: Path, *, context: int = CONTEXT, threads: int = 0, slots: int = 1
    ) -> None:
        """`context` is in tokens and for each of the `slots` answers written at once;
        `threads` 0 takes one for each CPU. On a busy machine fewer threads are faster.

        With more slots than one, llama.cpp packs prompts into batches as they happen to arrive,
        and rounds differently in each: answers may then differ from run to run.
        """
        self.path = Path(path)
        served = serve(self.path, context=context, threads=threads, slots=slots)
        super().__init__(
            served.base_url,
            self.path.stem,
            api_key=served.api_key,
            concurrency=slots,
            timeout_s=TIMEOUT_S,
            retries=2,
            extra=SAMPLING,
        )
        # Dropping its last reference ends a server's threads. Finalisers go from the newest to the
        # oldest, so that connections, which are opened later, are closed before this.
        self._served = [served]
        weakref.finalize(self, self._served.clear)

    def __repr__(self) -> str:
        return f"GgufPolicy({str(self.path)!r})"

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        if not self._served:
            raise PolicyError(f"{self.path} is closed; make a new GgufPolicy")
        return super().answer(prompts, sampling)

    def remember(self) -> None:
        """From now on read only what is new in a question that continues the one before, as in a
        dialogue. Answers then depend on earlier questions, by rounding."""
        self._extra["cache_prompt"] = True

    def close(self) -> None:
        """Stop the server and free its memory; also done at exit."""
        super().close()
        self._served.clear()


def serve(path: Path, *, context: int = CONTEXT, threads: int = 0, slots: int = 1) -> Served:
    """Serve a file on a free port of 127.0.0.1, behind a key that only this process knows."""
    if context < 1 or threads < 0 or slots < 1:
        raise UserError(
            f"context {context}, threads {threads}, slots {slots}: use at least 1, 0 and 1"
        )
    check_file(path)
    try:
        import xllamacpp  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise PolicyError(
            f"{path} needs the package xllamacpp; `pip install 'coevolve[gguf]'`"
        ) from None
    key = secrets.token_hex(16)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.kv_unified = context * slots, slots, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads or available_cpus()
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [key]
    params.ui = params.endpoint_slots = False
    # Attention over a prefix that another prompt left behind is rounded in another way: `remember`.
    params.cache_prompt, params.cache_ram_mib = False, 0
    params.verbosity = -1
    try:
        server = xllamacpp.Server(params)
        # A server that is dropped before its loop has begun waits for it forever.
        server.handle_completions({"prompt": "1", "max_tokens": 1})
    except RuntimeError as error:
        raise PolicyError(
            f"llama.cpp cannot load {path} with context {context} ({error}); check that the "
            "download is complete, that xllamacpp knows the architecture, or lower `context`"
        ) from None
    return Served(server, f"{server.listening_address}/v1", key)


def check_file(path: Path) -> None:
    """The file is there and begins like a model."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise PolicyError(
            f"cannot read the model {path}: {error.strerror}; give the path of a .gguf file"
        ) from None
    if magic != b"GGUF":
        raise PolicyError(
            f"{path} is not a GGUF file: it begins with {magic!r}; download it again, or convert "
            "the model to GGUF"
        )


def available_cpus() -> int:
    """The CPUs this process may use, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
