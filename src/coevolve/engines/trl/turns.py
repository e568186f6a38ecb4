"""Tasks of several turns in training: plain turns played by us, tool calls played by TRL."""

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import UserError
from coevolve.core.rollout import Message, StopReason
from coevolve.core.sequences import alike
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.turns import Episode, TurnDomain, has_turns, turn_limit
from coevolve.policies.local import render

if TYPE_CHECKING:
    from coevolve.engines.trl.grpo import Trainer


@dataclass
class Dialogue:
    """One attempt as it grows: tokens of both sides, and which of them are the policy's own."""

    episode: Episode
    limit: int
    """Most turns of the policy."""
    prompt_ids: list[int]
    ids: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    """Of its own tokens."""
    read: int = 0
    """Tokens that it was asked with, in all turns."""
    turns: list[Message] = field(default_factory=list)
    text: str = ""
    """What the policy said last."""
    stop: StopReason = StopReason.END
    over: bool = False

    def say(self, ids: list[int], own: bool, logprobs: list[float] | None = None) -> None:
        self.ids += ids
        self.own += [int(own)] * len(ids)
        self.logprobs += logprobs or [0.0] * len(ids)

    def answer(self, text: str) -> None:
        self.text = text
        self.turns.append(Message(role="assistant", content=text))

    def end(self, stop: StopReason) -> None:
        self.over, self.stop = True, stop


def play(trainer: "Trainer", episodes: list[tuple[Episode, int]]) -> list[Dialogue]:
    """Let all rows of a step play to their end, turn by turn together.

    As in evaluation every answer may take all tokens of the recipe, and a dialogue that has become
    too long for the model's context ends with an empty answer.
    """
    tokenizer, context = trainer._tokenizer, trainer.loaded.context
    dialogues = [
        Dialogue(episode, limit, render(tokenizer, prompt.messages))
        for (episode, limit), prompt in zip(episodes, trainer.prompts(), strict=True)
    ]
    turn = 0
    while rows := [row for row, dialogue in enumerate(dialogues) if not dialogue.over]:
        playing = [dialogues[row] for row in rows]
        ids = [dialogue.prompt_ids + dialogue.ids for dialogue in playing]
        answers = trainer.draw(ids, trainer.seeds(turn, rows))
        turn += 1
        for dialogue, asked, answer in zip(playing, ids, answers, strict=True):
            dialogue.read += len(asked)
            dialogue.say(list(answer.tokens), True, list(answer.logprobs))
            dialogue.entropies += answer.entropies
            dialogue.answer(tokenizer.decode(answer.tokens, skip_special_tokens=True))
            if not answer.ended:
                dialogue.end(StopReason.LENGTH)
                continue
            reply = dialogue.episode.reply(dialogue.text)
            if reply is None:
                dialogue.end(StopReason.END)
                continue
            if turn >= dialogue.limit:
                dialogue.end(StopReason.TURNS)
                continue
            dialogue.turns.append(Message(role="user", content=reply))
            heard = reply_ids(tokenizer, reply, trainer.eos_token_ids)
            if len(dialogue.prompt_ids) + len(dialogue.ids) + len(heard) >= context:
                dialogue.answer("")
                dialogue.end(StopReason.LENGTH)
                continue
            dialogue.say(heard, False)
    return dialogues


def reply_ids(tokenizer: Any, reply: str, ends: list[int]) -> list[int]:
    """The tokens between the end of one answer and the beginning of the next.

    A token that ends answers was drawn with the answer, where the template has one there.
    """
    heard = behind(tokenizer, {"role": "user", "content": reply})
    closing = alike(heard, behind(tokenizer))
    drawn = next((place + 1 for place, token in enumerate(closing) if token in ends), 0)
    return heard[drawn:]


def behind(tokenizer: Any, *turns: dict[str, str]) -> list[int]:
    """What stands behind an answer: all that two dialogues with different answers have in common.

    Templates may write an answer otherwise once another turn follows it.
    """
    one, other = (
        tokenizer.apply_chat_template(
            [{"role": "user", "content": "-"}, {"role": "assistant", "content": said}, *turns],
            tokenize=True, return_dict=False, add_generation_prompt=bool(turns),
        )
        for said in ("0", "1")
    )  # fmt: skip
    return alike(one[::-1], other[::-1])[::-1]


def environment(domain: TurnDomain, tasks: list[Task]) -> type:
    """What TRL's `environment_factory` makes: a class with `reset` and a method per tool."""

    def reset(self: Any, **row: Any) -> None:
        self._episode = domain.begin(tasks[row["task"]])

    def tool(name: str) -> Any:
        method = getattr(type(domain.begin(tasks[0])), name)

        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return method(self._episode, *args, **kwargs)

        return call

    members: dict[str, Any] = {name: tool(name) for name in domain.tools}
    return type("Environment", (), {**members, "reset": reset, "_episode": None})


def plain_turns(domains: dict[str, Domain], tasks: list[Task]) -> int:
    """Most answers of a rollout that each may take all tokens; TRL gives tools one such room."""
    played = {name: one for name, one in domains.items() if has_turns(one) and not one.tools}
    limits = [turn_limit(played[task.domain], task) for task in tasks if task.domain in played]
    return max(limits, default=1)


def tool_turns(domain: TurnDomain, tasks: list[Task]) -> int:
    """Most turns of the policy in an episode with tools, which TRL counts for all tasks alike."""
    limits = sorted({turn_limit(domain, task) for task in tasks})
    if len(limits) > 1:
        raise UserError(
            f"tasks of '{domain.name}' take at most {limits[0]} to {limits[-1]} turns; with tools "
            "all tasks of a stage must have the same limit"
        )
    return limits[0]


def last_said(
    messages: list[dict[str, Any]], stop: StopReason, turns: int
) -> tuple[str, StopReason]:
    """What the policy said last in a dialogue with tools, and why it said no more.

    TRL leaves out what did not fit, be it a tool's reply or the answer to it, and calls in the last
    turn are not made. So the last message may be a tool's, or a call that nobody answered.
    """
    said = [message for message in messages if message["role"] == "assistant"]
    if stop is StopReason.END and said[-1].get("tool_calls"):
        stop = StopReason.TURNS if len(said) >= turns else StopReason.LENGTH
    return str(said[-1].get("content") or ""), stop
