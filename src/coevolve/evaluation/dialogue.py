"""Tasks of several turns in evaluation: the policy and the episode speak in turn, in plain text."""

from coevolve.core.errors import UserError
from coevolve.core.rollout import Message, Rollout, StopReason
from coevolve.domains.turns import Episode, TurnDomain, begin
from coevolve.evaluation.judge import record
from coevolve.policies.base import Completion, Policy, Prompt, Sampling


class Attempt:
    """One episode as it goes on."""

    def __init__(self, prompt: Prompt, episode: Episode, limit: int) -> None:
        self.prompt, self.episode, self.limit = prompt, episode, limit
        self.turns: list[Message] = []
        self.said: list[Completion] = []
        self.over = False

    @property
    def going(self) -> bool:
        return not self.over and len(self.said) < self.limit

    def whole(self) -> Completion:
        """All turns of the policy as one completion; the text is the last one's."""
        last = self.said[-1]
        ended = last.stop is StopReason.END
        cut = StopReason.TURNS if ended and not self.over else last.stop
        return Completion(
            text=last.text,
            stop=cut,
            tokens=_joined([said.tokens for said in self.said]),
            logprobs=_joined([said.logprobs for said in self.said]),
            entropies=_joined([said.entropies for said in self.said]),
            prompt_tokens=sum(said.prompt_tokens for said in self.said),
            completion_tokens=sum(said.completion_tokens for said in self.said),
            seconds=sum(said.seconds for said in self.said),
        )


def converse(
    domain: TurnDomain, policy: Policy, prompts: list[Prompt], sampling: Sampling
) -> list[Rollout]:
    """Play every prompt's episode to its end, all of them turn by turn together."""
    if domain.tools:
        raise UserError(f"'{domain.name}' works through tools, which only training can call yet")
    attempts = []
    for prompt in prompts:
        assert prompt.task is not None
        attempts.append(Attempt(prompt, *begin(domain, prompt.task)))
    while going := [attempt for attempt in attempts if attempt.going]:
        asked = [
            attempt.prompt._replace(messages=(*attempt.prompt.messages, *attempt.turns))
            for attempt in going
        ]
        for attempt, said in zip(going, policy.answer(asked, sampling), strict=True):
            attempt.said.append(said)
            attempt.turns.append(Message(role="assistant", content=said.text))
            reply = attempt.episode.reply(said.text) if said.stop is StopReason.END else None
            if reply is None:
                attempt.over = True
            elif attempt.going:
                attempt.turns.append(Message(role="user", content=reply))
    found = []
    for attempt in attempts:
        whole = attempt.whole()
        outcome = attempt.episode.outcome(whole.text, whole.completion_tokens or None)
        turns = tuple(attempt.turns)
        found.append(record(attempt.prompt, whole, turns, outcome, policy.name))
    return found


def _joined(parts: list[tuple[int, ...] | None] | list[tuple[float, ...] | None]) -> tuple | None:  # type: ignore[type-arg]
    """Values of all turns after one another, None unless every turn has them."""
    if any(part is None for part in parts):
        return None
    return tuple(value for part in parts for value in part or ())
