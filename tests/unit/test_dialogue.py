"""Tasks of several turns are played to their end in evaluation, as in training."""

import pytest
from training import Guessing, Looking

from coevolve.core.errors import UserError
from coevolve.core.rollout import StopReason
from coevolve.evaluation.attempts import attempts
from coevolve.policies.base import Completion, Prompt, Sampling


class Stubborn:
    """Says the right word at its n-th turn, n being the number of the sample."""

    name = "stubborn"

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        found = []
        for prompt in prompts:
            turn = sum(message.role == "assistant" for message in prompt.messages)
            assert prompt.task is not None
            word = prompt.task.data["word"] if turn == prompt.sample else "holes holes"
            stop = StopReason.LENGTH if prompt.sample == 4 else StopReason.END
            found.append(Completion(word, stop, prompt_tokens=10, completion_tokens=2, seconds=0.5))
        return found


def test_episodes_end_by_themselves_by_turns_or_by_length() -> None:
    domain = Guessing()
    tasks = domain.tasks(1)
    found = list(attempts(domain, Stubborn(), tasks, Sampling(), samples=5))  # type: ignore[arg-type]
    spoken = [sum(turn.role == "assistant" for turn in rollout.messages) for rollout in found]
    assert spoken == [1, 2, 3, 3, 1]
    assert [rollout.stop for rollout in found] == [
        StopReason.END, StopReason.END, StopReason.END, StopReason.TURNS, StopReason.LENGTH,
    ]  # fmt: skip
    assert (found[2].prompt_tokens, found[2].completion_tokens) == (30, 6)
    assert found[2].seconds == 1.5
    assert [turn.role for turn in found[3].messages] == [
        "user",
        *["assistant", "user"] * 2,
        "assistant",
    ]
    assert [rollout.outcome.components["turns"] for rollout in found] == [1, 2, 3, 3, 0]


def test_tools_are_not_pretended() -> None:
    domain = Looking()
    with pytest.raises(UserError, match="works through tools"):
        list(attempts(domain, Stubborn(), domain.tasks(1), Sampling()))  # type: ignore[arg-type]
