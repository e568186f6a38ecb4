"""Any OpenAI-compatible server as a policy.

Invariant: what a model wrote is a completion, what a server or a network did wrong is a
`PolicyError` after bounded retries; a request that was answered once is never sent again while
its cache file lives.
"""

import asyncio
import contextlib
import json
import os
import random
import threading
import time
import weakref
from collections.abc import AsyncIterator, Coroutine, Mapping
from concurrent.futures import CancelledError
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from coevolve.core.errors import PolicyError, UserError
from coevolve.core.rollout import StopReason
from coevolve.core.seeds import derive
from coevolve.policies.base import Completion, Prompt, Sampling
from coevolve.policies.cache import AnswerCache, key_of
from coevolve.policies.wire import (
    KEY_VARIABLES,
    LONGEST,
    Dialect,
    Request,
    Trouble,
    call_in,
    checked_schema,
    parsed,
    read_choice,
    retry_after_s,
    tokens_in,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI

LOOPBACK = ("127.0.0.1", "localhost", "::1")
Result = TypeVar("Result")
SHORTENED = 3
"""How often a server may say that there is room for fewer tokens than it said before."""


class Usage(NamedTuple):
    """What a policy has spent so far."""

    calls: int = 0
    """Requests sent, with those that failed."""
    cached: int = 0
    """Answers that needed no request: kept in the cache, or asked for twice in one batch."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    """In the unit of the prices."""


class Worker:
    """An event loop in a thread of its own, with the client and the semaphore that live on it.

    One loop for all callers bounds the requests in flight over all threads, keeps connections
    open between batches, and does not care whether a caller is itself inside a loop.
    """

    def __init__(self, client: "AsyncOpenAI", concurrency: int) -> None:
        self.process = os.getpid()
        self.client = client
        self.slots = asyncio.Semaphore(concurrency)
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=asyncio.run, args=(self._live(),), name="coevolve-endpoint", daemon=True
        )
        self._thread.start()
        self._ready.wait()

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._ready.set()
        async with self.client:
            await self._stop.wait()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do `work` on the loop and wait for it; an interrupted wait cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise PolicyError("the policy was closed while it answered; close it later") from None
        finally:
            future.cancel()

    def close(self) -> None:
        """End the loop and the thread; the other side of a fork has neither."""
        if self.process != os.getpid() or not self._thread.is_alive():
            return
        with contextlib.suppress(RuntimeError):  # the loop may end by itself at this moment
            self._loop.call_soon_threadsafe(self._stop.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()


class EndpointPolicy:
    """Answers with a model behind an OpenAI-compatible server."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        concurrency: int = 8,
        timeout_s: float = 120.0,
        retries: int = 5,
        price_in: float = 0.0,
        price_out: float = 0.0,
        cache: Path | None = None,
        backoff_s: float = 0.5,
        backoff_cap_s: float = 30.0,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Prices are per million tokens; `extra` goes into every request body as it is.

        `timeout_s` bounds one request. The n-th retry waits about `backoff_s` * 2**n, or as long
        as the server asks for, but never more than `backoff_cap_s`.
        """
        if concurrency < 1 or retries < 0 or timeout_s <= 0 or min(price_in, price_out) < 0:
            raise UserError(
                f"concurrency {concurrency}, retries {retries}, timeout_s {timeout_s}, prices "
                f"{price_in} and {price_out}: use at least 1, 0, more than 0, and at least 0"
            )
        self.base_url = checked_url(base_url)
        self.model = self.name = model
        self.usage = Usage()
        self._api_key = found_key(api_key)
        self._concurrency, self._timeout_s, self._retries = concurrency, timeout_s, retries
        self.prices = (price_in, price_out)
        self._backoff_s, self._backoff_cap_s = backoff_s, backoff_cap_s
        self._extra = dict(extra or {})
        self._cache = None if cache is None else AnswerCache(cache)
        self._dialects: dict[str | None, Dialect] = {}
        self._dialect = Dialect()
        self._lock = threading.Lock()
        self._worker: Worker | None = None

    def __repr__(self) -> str:
        return f"EndpointPolicy({self.base_url!r}, {self.model!r})"

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        if not prompts:
            return []
        requests = [self._request(prompt, sampling) for prompt in prompts]
        different = {request.key: request for request in requests}
        worker = self._started()
        found = worker.run(self._answer_all(worker, list(different.values())))
        self._count(cached=len(requests) - len(different))
        return [found[request.key] for request in requests]

    def reach(self) -> None:
        """An error where nothing answers at the address; what is answered does not matter."""
        worker = self._started()
        worker.run(self._reach(worker))

    async def _reach(self, worker: Worker) -> None:
        import openai

        try:
            async with asyncio.timeout(self._timeout_s):
                await worker.client.models.list()
        except (TimeoutError, openai.APIConnectionError) as error:
            why = str(error.__cause__ or error) or f"no answer in {self._timeout_s:g} s"
            raise PolicyError(
                f"nothing answers at {self.base_url}, where model '{self.model}' should be "
                f"({why:.200}); start its server, or correct the address"
            ) from None
        except Exception:  # a named capture point: a server may send anything, so one is there
            return

    def close(self) -> None:
        """Let go of connections and files; the next `answer` opens them again."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()
        if self._cache is not None:
            self._cache.close()

    def _started(self) -> Worker:
        with self._lock:
            if self._worker is None or self._worker.process != os.getpid():
                client = open_client(self.base_url, self._api_key, self._timeout_s)
                self._worker = Worker(client, self._concurrency)
                weakref.finalize(self, self._worker.close)
            return self._worker

    def _request(self, prompt: Prompt, sampling: Sampling) -> Request:
        messages = [
            {"role": message.role, "content": message.content} for message in prompt.messages
        ]
        # A greedy answer has no samples: asking for each would pay for the same text again.
        sample = prompt.sample if sampling.temperature > 0 else 0
        seed = derive(sampling.seed, "endpoint", json.dumps(messages), sample) & 0x7FFFFFFF
        parts: dict[str, object] = {
            "base_url": self.base_url,
            "model": self.model,
            "messages": messages,
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "json_schema": sampling.json_schema,
            **({"tools": sampling.tools} if sampling.tools else {}),
            "seed": seed,
            "sample": sample,
            "extra": self._extra,
        }
        schema = checked_schema(sampling.json_schema)
        return Request(key_of(parts), messages, seed, sampling, schema, prompt.going)

    async def _answer_all(self, worker: Worker, requests: list[Request]) -> dict[str, Completion]:
        """Answers by key; those that are new share the time that they took together. The first
        failure ends all retries, but not the requests in flight: they are paid for, and the cache
        keeps what they bring."""
        halt: asyncio.Future[PolicyError] = asyncio.get_running_loop().create_future()
        cached: dict[str, Completion] = {}
        if self._cache is not None:
            found = {request.key: self._cache.get(request.key) for request in requests}
            cached = {key: kept for key, kept in found.items() if kept is not None}
        self._count(cached=len(cached))
        asked = [request for request in requests if request.key not in cached]
        began = time.perf_counter()
        answers = await asyncio.gather(*(self._answer_one(worker, one, halt) for one in asked))
        if halt.done():
            raise halt.result()
        share = (time.perf_counter() - began) / max(1, len(asked))
        fresh = {
            request.key: completion._replace(seconds=share)
            for request, completion in zip(asked, answers, strict=True)
            if completion is not None
        }
        return cached | fresh

    async def _answer_one(
        self, worker: Worker, request: Request, halt: "asyncio.Future[PolicyError]"
    ) -> Completion | None:
        """One answer, or None and the reason in `halt`."""
        try:
            async with worker.slots:
                completion = await self._ask(worker, request, halt)
            if self._cache is not None and completion is not None:
                self._cache.put(request.key, completion)
            return completion
        except PolicyError as error:
            if not halt.done():
                halt.set_result(error)
            return None

    async def _ask(
        self, worker: Worker, request: Request, halt: "asyncio.Future[PolicyError]"
    ) -> Completion | None:
        """Send until an answer comes, the retries are used up, or `halt` is set."""
        schema, attempt, shortened = request.sampling.json_schema, 0, 0
        tooled = request.sampling.tools is not None
        dialect = self._dialects.get(schema, self._dialect._replace(shape=0))
        while not halt.done():
            try:
                completion = await self._send(worker, request, dialect)
            except Trouble as trouble:
                if 0 < trouble.room < request.sampling.max_tokens and shortened < SHORTENED:
                    shortened += 1
                    fewer = request.sampling.model_copy(update={"max_tokens": trouble.room})
                    request = request._replace(sampling=fewer)
                    continue
                if trouble.full and request.going:  # which is its end and no error
                    return Completion(text="", stop=StopReason.LENGTH)
                simpler = None
                if trouble.status in (400, 422):
                    simpler = dialect.simpler(trouble.reason, schema is not None, tooled)
                if simpler is not None:
                    dialect = simpler
                    continue
                if not trouble.may_pass or attempt >= self._retries:
                    raise self._error(trouble, attempt) from None
                await asyncio.wait([halt], timeout=self._delay_s(request, attempt, trouble))
                attempt += 1
            else:
                if tooled and call_in(completion.text) is None:  # it takes no notice of functions
                    dialect = dialect._replace(tools=False)
                # Only what led to an answer is known to be right.
                self._dialects[schema] = self._dialect = dialect
                return completion
        return None

    async def _send(self, worker: Worker, request: Request, dialect: Dialect) -> Completion:
        """One request; whatever brings no completion is a `Trouble`."""
        import openai

        create: Any = worker.client.chat.completions.with_raw_response.create
        self._count(calls=1)
        began = time.perf_counter()
        try:
            # The client's own timeout starts again with every byte that trickles in.
            async with asyncio.timeout(self._timeout_s):
                response = await create(
                    model=self.model,
                    messages=request.said(dialect),
                    extra_body=request.body(dialect, self._extra),
                )
        except (TimeoutError, openai.APITimeoutError):
            raise Trouble(f"timed out after {self._timeout_s:g} s") from None
        except openai.APIStatusError as error:
            wait_s = retry_after_s(error.response.headers)
            said = error.response.content[:500].decode("utf-8", "replace")
            raise Trouble(said, error.status_code, wait_s) from None
        except Exception as error:  # a named capture point: a server may send anything
            raise Trouble(f"connection failed ({error.__cause__ or error!r})"[:500]) from None
        seconds = time.perf_counter() - began
        answer = parsed(response.content)
        prompt = tokens_in(answer, "prompt_tokens")
        completion = tokens_in(answer, "completion_tokens")
        # A response without a usable text was paid for all the same.
        self._count(prompt=prompt, completion=completion)
        return read_choice(answer, completion)._replace(
            prompt_tokens=prompt, completion_tokens=completion, seconds=seconds
        )

    def _count(self, calls: int = 0, cached: int = 0, prompt: int = 0, completion: int = 0) -> None:
        """Add to the usage."""
        cost = (prompt * self.prices[0] + completion * self.prices[1]) / 1e6
        more = Usage(calls, cached, prompt, completion, cost)
        with self._lock:
            self.usage = Usage._make(map(sum, zip(self.usage, more, strict=True)))

    def _delay_s(self, request: Request, attempt: int, trouble: Trouble) -> float:
        rng = random.Random(derive(request.seed, "backoff", request.key, attempt))
        delay_s = self._backoff_s * 2.0**attempt * rng.uniform(0.5, 1.0)
        return min(self._backoff_cap_s, max(delay_s, trouble.retry_after_s))

    def _error(self, trouble: Trouble, retries: int) -> PolicyError:
        reason = f"HTTP {trouble.status}: {trouble.reason}" if trouble.status else trouble.reason
        if self._api_key != "none":
            reason = reason.replace(self._api_key, "[key]")
        return PolicyError(
            f"no answer of model '{self.model}' at {self.base_url} after {retries} retries; last: "
            f"{' '.join(reason.split())[:400]}; {trouble.fix(self.model)}"
        )


def is_local(base_url: str) -> bool:
    """Whether a server runs on this machine."""
    return urlsplit(base_url).hostname in LOOPBACK


def checked_url(base_url: str) -> str:
    """The address without a slash at its end."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"endpoint '{base_url:.100}' is not an address; use http://host:port/v1")
    if "@" in parts.netloc:
        raise UserError(
            f"the address of {parts.hostname} holds a password; take it out and set "
            f"{KEY_VARIABLES[0]} instead"
        )
    return base_url.rstrip("/")


def found_key(api_key: str | None) -> str:
    """The key given, else the first one set in the environment, else one that says none."""
    candidates = (api_key, *(os.environ.get(name) for name in KEY_VARIABLES))
    key = next((key.strip() for key in candidates if key and key.strip()), "none")
    if not (key.isascii() and key.isprintable()):
        raise UserError(
            f"the API key has characters that no HTTP header can carry; set {KEY_VARIABLES[0]} "
            "to the key alone, on one line"
        )
    return key


def open_client(base_url: str, api_key: str, timeout_s: float) -> "AsyncOpenAI":
    """A client that never retries by itself, goes where no server sends it, reads no more than
    `LONGEST` bytes and unpacks none, and never asks a proxy for this very machine."""
    try:
        import openai
    except ImportError:
        raise PolicyError(
            "endpoints need the package openai; `pip install 'coevolve[endpoint]'`"
        ) from None

    return openai.AsyncOpenAI(
        base_url=base_url,
        api_key=api_key,
        timeout=timeout_s,
        max_retries=0,
        default_headers={"Accept-Encoding": "identity"},
        http_client=openai.DefaultAsyncHttpxClient(
            trust_env=not is_local(base_url), follow_redirects=False,
            event_hooks={"response": [bounded]},
        ),
    )  # fmt: skip


async def bounded(response: Any) -> None:
    """Let the body of a response break off where it is too long; one that is packed is not read."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed != "identity":
        raise ValueError(f"the answer is packed ({packed:.20}), though that was not asked for")
    # The client may use a package of another name than `httpx`, with the same classes.
    package = import_module(type(response).__module__.partition(".")[0])

    class Bounded(package.AsyncByteStream):  # type: ignore[name-defined, misc]
        def __init__(self, stream: Any) -> None:
            self.stream, self.left = stream, LONGEST

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for part in self.stream:
                self.left -= len(part)
                if self.left < 0:
                    raise ValueError(f"the answer has more than {LONGEST:,} bytes")
                yield part

        async def aclose(self) -> None:
            await self.stream.aclose()

    response.stream = Bounded(response.stream)
