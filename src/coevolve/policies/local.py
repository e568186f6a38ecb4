"""A policy that is a transformers model on this machine."""

import time
from collections.abc import Sequence
from typing import Any

from coevolve.core.errors import PolicyError
from coevolve.core.rollout import Message, StopReason
from coevolve.core.seeds import derive
from coevolve.harness.wording import Wording
from coevolve.policies.base import Completion, Prompt, Sampling
from coevolve.policies.generate import Generator
from coevolve.policies.hardware import computing
from coevolve.policies.models import Loaded, load


class LocalPolicy:
    """Answers with a language model; the same prompt, sample and seed give the same answer."""

    def __init__(self, name: str, device: str = "", loaded: Loaded | None = None) -> None:
        self.name = name
        self.loaded = loaded or load(name, device)
        self.generator = Generator(
            self.loaded.model, self.loaded.end_ids, self.loaded.tokenizer.pad_token_id
        )
        self.generator.precision = lambda: computing(self.loaded.model)
        self.generator.last_place = self.loaded.context - 1

    def wording(self, domain: str) -> Wording:
        """How it is to be asked about tasks of a domain."""
        return self.loaded.wording(domain)

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        if not prompts:
            return []
        tokenizer = self.loaded.tokenizer
        ids = rendered(tokenizer, [prompt.messages for prompt in prompts])
        rooms = [self.room(*pair, sampling.max_tokens) for pair in zip(prompts, ids, strict=True)]
        if not all(rooms):
            others = [prompt for prompt, room in zip(prompts, rooms, strict=True) if room]
            said = iter(self.answer(others, sampling))
            cut = Completion(text="", stop=StopReason.LENGTH)
            return [next(said) if room else cut for room in rooms]
        seeds = [
            derive(sampling.seed, "answer", prompt.sample, *map(str, tokens))
            for prompt, tokens in zip(prompts, ids, strict=True)
        ]
        rule = None
        if sampling.json_schema is not None:
            from coevolve.policies.grammar import Grammar

            rule = Grammar(self.loaded, sampling.json_schema, len(ids))
        began = time.perf_counter()
        drawn = self.generator.generate(ids, seeds, max(rooms), sampling.temperature, rule)
        answers = [answer.within(room) for answer, room in zip(drawn, rooms, strict=True)]
        seconds = (time.perf_counter() - began) / len(prompts)
        return [
            Completion(
                text=tokenizer.decode(answer.tokens, skip_special_tokens=True),
                stop=StopReason.END if answer.ended else StopReason.LENGTH,
                tokens=tuple(answer.tokens),
                logprobs=tuple(answer.logprobs),
                entropies=tuple(answer.entropies),
                prompt_tokens=len(prompt),
                completion_tokens=len(answer.tokens),
                seconds=seconds,
            )
            for prompt, answer in zip(ids, answers, strict=True)
        ]

    def room(self, prompt: Prompt, ids: list[int], max_tokens: int) -> int:
        """How many tokens may be drawn before the model's context is full.

        That a dialogue has become too long to go on is its end and no error.
        """
        context = self.loaded.context
        if len(ids) >= context and not prompt.going:
            raise PolicyError(self.loaded.too_long("a prompt", len(ids)))
        return max(0, min(max_tokens, context - len(ids)))


def render(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Messages as the model was taught to read them, up to where its answer begins."""
    return rendered(tokenizer, [messages])[0]


def rendered(tokenizer: Any, dialogues: Sequence[Sequence[Message]]) -> list[list[int]]:
    """The same of many dialogues, on all cores."""
    if not dialogues:
        return []
    turns = [
        [{"role": message.role, "content": message.content} for message in messages]
        for messages in dialogues
    ]
    ids: list[list[int]] = tokenizer.apply_chat_template(
        turns, add_generation_prompt=True, tokenize=True, return_dict=False
    )
    return ids
