"""A model that vLLM serves: `vllm:FOLDER`, `vllm:FOLDER+ADAPTER`, `vllm:http://HOST/v1#MODEL+ADAPTER`.

The program that serves is started here, once per base model, and ends with this process however
that ends. Adapters come and go while it runs; other weights take another server, and the old one
ends first, as both may not fit.

Invariant: answers are drawn as a local policy draws them, from the model's own distribution at the
asked temperature with no other filter on it.
"""

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.core.errors import PolicyError, UserError
from coevolve.core.files import cache_root
from coevolve.core.guard import GUARD
from coevolve.domains.base import Domain
from coevolve.harness.wording import Wording
from coevolve.policies.base import Completion, Prompt, Sampling
from coevolve.policies.endpoint import EndpointPolicy
from coevolve.policies.models import find, style_in, under, weights_of, worded_in
from coevolve.policies.registry import ADDRESS

PREFIX = "vllm:"
PROGRAM = "COEVOLVE_VLLM"
"""Names the program, where it is not on the path."""
START_S = 1_800.0
"""A server may take so long to be up: large weights are read from disk, and compiled for."""
TIMEOUT_S = 3_600.0
"""For one answer, with the time that it waits for others."""
LOOK_S = 0.5
RESTARTS = 2
"""How often a server that died is started again for one batch."""
CONCURRENCY = 256
RANKS = (16, 32, 64, 128, 256, 512)
"""Largest ranks of adapters that a server can be told."""
LAST_LINES = 8


class Named(NamedTuple):
    """What a name stands for."""

    base: str
    """A folder, a hub id, or the address of a server with #MODEL."""
    adapter: str = ""
    """A folder, if there is one."""

    @property
    def is_up(self) -> bool:
        """Whether somebody else has started the server."""
        return self.base.startswith(ADDRESS)

    @property
    def told(self) -> dict[str, Any]:
        """What the config of the model says that is taught here."""
        for folder in (self.adapter, "" if self.is_up else self.base):
            file = Path(folder) / "config.json"
            if folder and file.is_file():
                found: dict[str, Any] = json.loads(file.read_text("utf-8"))
                return found
        return {}


def named(name: str) -> Named:
    """The model and the adapter of `vllm:...`, found on this machine where they lie here."""
    base, _, adapter = name.removeprefix(PREFIX).partition("+")
    if adapter and not (Path(adapter) / "adapter_config.json").is_file():
        raise UserError(f"{adapter} in '{name}' is not an adapter: it has no adapter_config.json")
    if base.startswith(ADDRESS):
        if "#" not in base:
            raise UserError(f"'{name}' names no model; write {PREFIX}{base}#MODEL")
        return Named(base, adapter)
    found = find(base)
    below = under(found)
    if below == found:
        return Named(found, adapter)
    if adapter:
        raise UserError(f"'{name}' has two adapters; give a model before the +")
    return Named(below, found)


def drawn_by(generator: str, name: str, base: str, domain: Domain) -> str:
    """The name of a policy whose answers are drawn as a plan says, which begins with `base`."""
    if generator == "local" or name in domain.scripts or "://" in name or name.endswith(".gguf"):
        return name
    if generator == "vllm":
        return PREFIX + name
    if (Path(name) / "adapter_config.json").is_file():
        return f"{PREFIX}{generator}+{name}"
    if name == base:
        return PREFIX + generator
    raise UserError(
        f'generator = "{generator}": a server that runs already takes adapters, and {name} has '
        'weights of its own; set recipe.lora = 32, or generator = "vllm"'
    )


def program() -> str:
    """The program that serves."""
    beside = Path(sys.executable).with_name("vllm")
    given = os.environ.get(PROGRAM, "")
    found = given or shutil.which("vllm") or (str(beside) if beside.exists() else "")
    if not found or (given and shutil.which(given) is None):
        missing = (
            f"{PROGRAM} names '{given}', which is not a program" if given else "there is no vllm"
        )
        raise UserError(
            f"{missing}: pip install vllm, also into an environment of its own, and set "
            f"{PROGRAM}=/that/environment/bin/vllm"
        )
    return found


def devices() -> int:
    """GPUs that a server may take."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return len([word for word in given.split(",") if word.strip() not in ("", "-1")])
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def options(base: str, rank: int, gpus: int) -> list[str]:
    """How a model is to be served: as it would be computed here, with all GPUs that divide it."""
    words = ["--generation-config", "vllm", "--logprobs-mode", "processed_logprobs"]
    words += ["--enable-lora", "--max-lora-rank", str(rank), "--max-loras", "2"] if rank else []
    if not gpus:
        # On CPUs a prompt that is read in pieces breaks requests that have a seed.
        return [*words, "--dtype", "float32", "--enforce-eager", "--no-enable-chunked-prefill"]
    heads = 0
    if (file := Path(base) / "config.json").is_file():
        heads = int(json.loads(file.read_text("utf-8")).get("num_attention_heads", 0))
    parallel = next(n for n in range(gpus, 0, -1) if heads % n == 0 and (heads or n == 1))
    return [*words, "--dtype", "bfloat16", "--tensor-parallel-size", str(parallel)]


class Server:
    """A running vLLM, one's own or somebody else's."""

    def __init__(self, base: str, rank: int) -> None:
        self.base, self.rank = base, rank
        self.adapters: set[str] = set()
        self.process: subprocess.Popen[bytes] | None = None
        self.own = not base.startswith(ADDRESS)
        if not self.own:
            self.url, _, self.model = base.partition("#")
            return
        self.model, self.port = "base", free_port()
        self.url = f"http://127.0.0.1:{self.port}/v1"
        folder = cache_root() / "vllm"
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / f"{os.getpid()}-{self.port}.log"
        self.start()

    def start(self) -> None:
        """Start the program, and wait until it answers."""
        self.end()
        print(f"starting vLLM for {self.base}; log: {self.log}", file=sys.stderr)
        words = [
            program(), "serve", self.base, "--host", "127.0.0.1", "--port", str(self.port),
            "--served-model-name", self.model, *options(self.base, self.rank, gpus := devices()),
        ]  # fmt: skip
        own = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", "VLLM_NO_USAGE_STATS": "1"}
        if not gpus:
            own["VLLM_CPU_KVCACHE_SPACE"] = os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1")
        self.adapters.clear()
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-IS", "-c", GUARD, *words], stdin=subprocess.PIPE, stdout=output,
                stderr=output, start_new_session=True, env={**os.environ, **own},
            )  # fmt: skip
        began = time.monotonic()
        while not self.answers():
            code = self.process.poll()
            if code is None and time.monotonic() - began < START_S:
                time.sleep(LOOK_S)
                continue
            self.end()
            how = f"took more than {START_S:g} s to start" if code is None else f"ended with {code}"
            last = self.log.read_text("utf-8", "replace").strip().splitlines()[-LAST_LINES:]
            raise PolicyError(
                f"vLLM for {self.base} {how}, see {self.log}; its last lines:\n" + "\n".join(last)
            )

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.url.removesuffix("/v1") + "/health", timeout=5):
                return True
        except (OSError, urllib.error.URLError):
            return False

    @property
    def died(self) -> bool:
        """Whether it was started here and is gone."""
        gone = self.process is None or self.process.poll() is not None
        return self.own and (gone or not self.answers())

    def end(self) -> None:
        """End the program and all that it started; somebody else's server stays."""
        if self.process is None:
            return
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.process = None

    def serve(self, adapter: str) -> str:
        """The name that an adapter goes by, once the server has it; without one, the model's."""
        if not adapter:
            return self.model
        name = f"adapter-{weights_of(adapter)}"
        self.take(name, adapter)
        return name

    def take(self, name: str, adapter: str) -> None:
        """Have the server read an adapter from the disk, unless it has one of this name."""
        if name not in self.adapters:
            self.post("load_lora_adapter", {"lora_name": name, "lora_path": adapter})
            self.adapters.add(name)

    def post(self, what: str, body: Mapping[str, str]) -> None:
        request = urllib.request.Request(
            f"{self.url}/{what}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S):
                return
        except urllib.error.HTTPError as error:
            said = error.read(2_000).decode("utf-8", "replace")
            if "already" in said:
                return
            how = "start that server with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
            hint = "" if self.own else f"; {how}"
            raise PolicyError(
                f"vLLM at {self.url} does not take the adapter {body['lora_path']}: HTTP "
                f"{error.code} {said[:300]}{hint}"
            ) from None
        except OSError as error:
            raise PolicyError(f"no answer of vLLM at {self.url}: {error}") from None


_servers: dict[str, Server] = {}


def server_for(what: Named) -> Server:
    """The server of this process for a model; one with other weights ends."""
    rank = rank_of(what.adapter)
    found = _servers.get(what.base)
    if found is not None and not found.died and (what.is_up or rank <= found.rank):
        return found
    if not what.is_up:
        end_servers()
    _servers[what.base] = Server(what.base, rank)
    return _servers[what.base]


def rank_of(adapter: str) -> int:
    """The smallest rank that a server must be ready for."""
    if not adapter:
        return 0
    config = json.loads((Path(adapter) / "adapter_config.json").read_text("utf-8"))
    wanted = int(config.get("r", RANKS[0]))
    fitting = [rank for rank in RANKS if rank >= wanted]
    if not fitting:
        raise UserError(f"{adapter}: vLLM serves adapters up to rank {RANKS[-1]}, not {wanted}")
    return fitting[0]


def end_servers() -> None:
    """End every server that was started here, as before a training that needs its memory."""
    for base in list(_servers):
        server = _servers.pop(base)
        server.end()
        if server.own:  # a log is for those that fail
            server.log.unlink(missing_ok=True)


atexit.register(end_servers)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class VllmPolicy(EndpointPolicy):
    """Answers with a model that vLLM serves. A server that dies is started again and asked again:
    the same requests with the same seeds, counted once."""

    def __init__(self, name: str) -> None:
        self.what = named(name)
        self.server = server_for(self.what)
        super().__init__(
            self.server.url,
            self.server.serve(self.what.adapter),
            concurrency=CONCURRENCY,
            timeout_s=TIMEOUT_S,
            retries=2,
        )
        self.name = name

    def __repr__(self) -> str:
        return f"VllmPolicy({self.name!r})"

    def style(self, domain: str, wanted: str = "") -> str:
        """The prompt style that is wanted, or else the one that the model was taught."""
        return style_in(self.what.told, domain, wanted)

    def wording(self, domain: str) -> Wording:
        """How it is to be asked about tasks of a domain."""
        return worded_in(self.what.told, domain)

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        restarts = 0
        while True:
            before = self.usage
            try:
                self.ready()
                return super().answer(prompts, sampling)
            except PolicyError:
                if not self.server.died or restarts == RESTARTS:
                    raise
                restarts += 1
                self.usage = before
                print("vLLM ended by itself; starting it again", file=sys.stderr)
                self.server.start()

    def ready(self) -> None:
        """Have the server serve this model, which it may have made room for another one of."""
        current = server_for(self.what)
        if current is not self.server:
            super().close()
            self.server, self.base_url = current, current.url
        self.model = current.serve(self.what.adapter)
