"""Answers that follow a JSON schema by construction: tokens that would break it are not drawn."""

from functools import lru_cache
from typing import Any

import xgrammar
from torch import Tensor

from coevolve.core.errors import PolicyError
from coevolve.policies.models import Loaded


class Grammar:
    """A schema compiled for one tokenizer, and how far each row has come in it."""

    def __init__(self, loaded: Loaded, schema: str, rows: int) -> None:
        vocabulary = loaded.model.config.get_text_config().vocab_size
        compiled = compile_schema(loaded.tokenizer, vocabulary, tuple(loaded.end_ids), schema)
        self.matchers = [xgrammar.GrammarMatcher(compiled) for _ in range(rows)]
        self.allowed = xgrammar.allocate_token_bitmask(rows, vocabulary)

    def follow(self, rows: list[int], tokens: list[int]) -> None:
        """Take note of what was drawn."""
        for row, token in zip(rows, tokens, strict=True):
            if not self.matchers[row].is_terminated():
                self.matchers[row].accept_token(token)

    def forbid(self, rows: list[int], logits: Tensor) -> None:
        """Set every token that would leave the schema to -inf."""
        allowed: Any = self.allowed[: len(rows)]
        for place, row in enumerate(rows):
            if self.matchers[row].is_terminated():
                allowed[place] = -1
            else:
                self.matchers[row].fill_next_token_bitmask(allowed, place)
        xgrammar.apply_token_bitmask_inplace(logits, allowed.to(logits.device))


@lru_cache(maxsize=8)
def compile_schema(tokenizer: Any, vocabulary: int, ends: tuple[int, ...], schema: str) -> Any:
    """Takes seconds where a long text has a limit, so it is kept for the next batch."""
    try:
        info = xgrammar.TokenizerInfo.from_huggingface(
            tokenizer, vocab_size=vocabulary, stop_token_ids=list(ends)
        )
        compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        return compiler.compile_json_schema(schema, any_whitespace=False)
    except (RuntimeError, ValueError) as error:
        raise PolicyError(f"the schema cannot be followed: {error}") from None
