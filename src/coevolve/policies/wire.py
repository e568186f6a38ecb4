"""The OpenAI protocol: what a request looks like, and what a response may bring.

Servers differ in what they understand; a `Dialect` is what one of them is thought to.
"""

import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from coevolve.core.errors import UserError
from coevolve.core.files import storable
from coevolve.core.rollout import StopReason
from coevolve.policies.base import Completion, Sampling

KEY_VARIABLES = ("COEVOLVE_API_KEY", "OPENAI_API_KEY")
RETRIED = (408, 409, 429)
"""Statuses under 500 that may pass by themselves."""
TOO_LONG = (
    "context_length_exceeded", "exceed_context_size", "context length", "context size",
    "context window",
)  # fmt: skip
"""What servers say of messages that do not fit."""
ROOM = re.compile(r"context length is (\d+)")
READ = re.compile(r"(?<!\d)(\d++) (?:in the messages|input tokens)")
LONGEST, MOST_TOKENS = 2**24, 10**9
"""Bytes of a response, and tokens that can have been read or written for it."""
MOST_THOUGHT = 8_000
"""Characters before a call that are kept."""
SHAPES = ("json_schema", "json_object", "")
"""How an answer is held to its schema, from the strongest way to none."""


class Dialect(NamedTuple):
    """The parts of the protocol that a server is thought to understand."""

    logprobs: bool = True
    seed: bool = True
    limit: str = "max_tokens"
    """What the token limit is called."""
    shape: int = 0
    """Position in SHAPES."""
    tools: bool = True
    """Whether functions can be called."""

    def simpler(self, complaint: str, constrained: bool, tooled: bool) -> "Dialect | None":
        """What to try after a rejected request, None if the request itself must be at fault."""
        complaint = complaint.lower()
        may_loosen = constrained and self.shape < len(SHAPES) - 1
        if "context" in complaint:
            return None
        if self.logprobs and "logprobs" in complaint:
            return self._replace(logprobs=False)
        if self.limit == "max_tokens" and "max_completion_tokens" in complaint:
            return self._replace(limit="max_completion_tokens")
        if self.seed and "seed" in complaint:
            return self._replace(seed=False)
        if self.tools and tooled and "tool" in complaint:
            return self._replace(tools=False)
        if may_loosen and ("response_format" in complaint or "schema" in complaint):
            return self._replace(shape=self.shape + 1)
        if self.logprobs:
            return self._replace(logprobs=False)
        if self.tools and tooled:
            return self._replace(tools=False)
        return self._replace(shape=self.shape + 1) if may_loosen else None


class Request(NamedTuple):
    """One question on its way."""

    key: str
    messages: list[dict[str, Any]]
    seed: int
    sampling: Sampling
    schema: dict[str, object] | None
    """The parsed JSON schema of the sampling."""
    going: bool = False
    """Whether a dialogue goes on."""

    def said(self, dialect: Dialect) -> list[dict[str, Any]]:
        """The messages."""
        native = self.sampling.tools and dialect.tools
        return with_calls(self.messages) if native else self.messages

    def body(self, dialect: Dialect, extra: Mapping[str, object]) -> dict[str, object]:
        """Everything of the HTTP body but the model and the messages."""
        body: dict[str, object] = {
            "temperature": self.sampling.temperature,
            dialect.limit: self.sampling.max_tokens,
            **extra,
        }
        if dialect.seed:
            body["seed"] = self.seed
        if dialect.logprobs:
            body["logprobs"] = True
        else:
            body.pop("top_logprobs", None)
        if self.sampling.tools and dialect.tools:
            return body | {"tools": json.loads(self.sampling.tools), "tool_choice": "required"}
        shape = SHAPES[dialect.shape] if self.schema is not None else ""
        if shape == "json_schema":
            named = {"name": "answer", "schema": self.schema, "strict": True}
            body["response_format"] = {"type": shape, shape: named}
        elif shape:
            body["response_format"] = {"type": shape}
        return body


def with_calls(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A dialogue of JSON objects that name a tool, and replies to them, as calls of functions."""
    found: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        before = found[-1] if found else {}
        call = call_in(message["content"]) if message["role"] == "assistant" else None
        if call is not None and number + 1 < len(messages):
            function = {"name": call.pop("tool"), "arguments": ""}
            thought = call.pop("thought", "")
            function["arguments"] = json.dumps(call)
            listed = [{"id": f"call_{number}", "type": "function", "function": function}]
            found.append({"role": "assistant", "content": thought, "tool_calls": listed})
        elif "tool_calls" in before:
            found.append({
                "role": "tool", "tool_call_id": before["tool_calls"][0]["id"],
                "content": message["content"],
            })  # fmt: skip
        else:
            found.append(message)
    return found


def call_in(text: str) -> dict[str, Any] | None:
    """The call that a text is, if it is one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    named = isinstance(value, dict) and isinstance(value.get("tool"), str)
    return value if named else None


class Trouble(Exception):
    """One request that brought no completion."""

    def __init__(self, reason: str, status: int = 0, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        """HTTP status, 0 if none came or if its body was not as promised."""
        self.retry_after_s = retry_after_s

    @property
    def full(self) -> bool:
        """Whether messages and answer together are too long for the model."""
        return self.status == 400 and any(words in self.reason.lower() for words in TOO_LONG)

    @property
    def room(self) -> int:
        """Tokens that are left for an answer then, 0 if none are or the server does not say."""
        most, read = ROOM.search(self.reason), READ.search(self.reason)
        return max(0, int(most[1]) - int(read[1])) if self.full and most and read else 0

    @property
    def may_pass(self) -> bool:
        if "insufficient_quota" in self.reason:
            return False
        return self.status == 0 or self.status >= 500 or self.status in RETRIED

    def fix(self, model: str) -> str:
        """What a user can do about it."""
        if 300 <= self.status < 400:
            return "give the address that it sends to, if that is trusted"
        if self.status == 401:
            return f"set {KEY_VARIABLES[0]} (or {KEY_VARIABLES[1]}) to a valid key"
        if self.status == 404:
            return f"check that the server has a model '{model}' and that the address ends in /v1"
        if self.status == 429:
            return "ask for fewer answers at a time (--batch), or look at the account's quota"
        if "timed out" in self.reason:
            return "ask for fewer answers at a time (--batch) or shorter ones (--max-tokens)"
        if 400 <= self.status < 500:
            return "change the request as the server says"
        return "check that the server runs at this address, then run again"


def checked_schema(text: str | None) -> dict[str, object] | None:
    """The parsed JSON schema of a sampling."""
    if text is None:
        return None
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"`json_schema` is not JSON ({error}): {text[:60]!r}") from None
    if not isinstance(schema, dict):
        raise UserError(f"`json_schema` is no JSON object but {text[:60]!r}; give a schema")
    return schema


def retry_after_s(headers: Mapping[str, str]) -> float:
    """How long the server asks to wait, given in seconds or as a date; 0 if it does not say."""
    text = headers.get("retry-after", "")
    try:
        wait_s = float(text)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError, OSError, TypeError):
            return 0.0
    return max(0.0, wait_s) if math.isfinite(wait_s) else 0.0


def parsed(content: bytes) -> dict[str, Any]:
    """The body of a response as an object."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise Trouble(f"not JSON: {content[:100]!r}") from None
    if not isinstance(answer, dict):
        raise Trouble(f"no JSON object: {content[:100]!r}")
    return answer


def tokens_in(answer: dict[str, Any], name: str) -> int:
    """A token count of the response, 0 where it is missing or makes no sense."""
    usage = answer.get("usage")
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and 0 < value <= MOST_TOKENS else 0


def read_choice(answer: dict[str, Any], tokens: int) -> Completion:
    """Text, stop reason and log-probabilities of the only choice in a response; a function that it
    calls is the JSON object that names it as its tool."""
    try:
        choice = answer["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        text = message.get("content")
        refusal = message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise Trouble(f"no choices in the response: {str(answer)[:200]}") from None
    if text is None and isinstance(refusal, str):
        text = refusal
    if text is None and (
        isinstance(reason, str) or message.get("tool_calls")
    ):  # it ended after nothing but hidden reasoning
        text = ""
    if not isinstance(text, str):
        raise Trouble(f"no text in the response: content is {text!r:.100}")
    if (called := called_in(message)) is not None:
        return Completion(storable(called))
    text = storable(text)  # half a surrogate pair is valid JSON
    stop = StopReason.LENGTH if reason == "length" else StopReason.END
    return Completion(text, stop, logprobs=read_logprobs(choice.get("logprobs"), tokens))


def called_in(message: dict[str, Any]) -> str | None:
    """The first function that a message calls, with what was thought before; None if there is none.

    What cannot be read is left to whoever reads the answer, who can ask for another.
    """
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not calls or not isinstance(calls[0], dict):
        return None
    function = calls[0].get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return None
    given = function.get("arguments") or "{}"
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return str(given)
    said = message.get("content")
    thought = {"thought": said[:MOST_THOUGHT]} if isinstance(said, str) and said.strip() else {}
    return json.dumps({**thought, "tool": function["name"], **arguments})


def read_logprobs(found: object, tokens: int) -> tuple[float, ...] | None:
    """Log-probabilities of the tokens, None unless there is a finite one for each of `tokens`.

    The token that ends an answer has one or not, as the server likes. Tokens that are parts of
    one character share an entry in some servers, which then stands for none of them.
    llama.cpp gives `prob` in place of `logprob` when asked for the distribution after sampling.
    """
    entries = found.get("content") if isinstance(found, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return None
    if len(entries) < tokens - 1:
        return None
    logprobs = []
    for entry in entries:
        value, probability = entry.get("logprob"), entry.get("prob")
        if value is None and isinstance(probability, float | int) and 0 < probability <= 1:
            value = math.log(probability)
        if not isinstance(value, float | int) or not -MOST_TOKENS <= value <= MOST_TOKENS:
            return None
        logprobs.append(float(value))
    return tuple(logprobs) or None
