"""The engineer that was taught: a policy that has learned engineering as a domain.

It is asked exactly as in its lessons and in its exam. Invariant: no answer raises anything.
"""

from coevolve.core.rollout import Message
from coevolve.core.seeds import derive
from coevolve.engineering import table
from coevolve.engineers.base import View, change_knobs
from coevolve.engineers.reach import worth_a_trial
from coevolve.harness.proposal import Proposal
from coevolve.policies.base import Policy, Prompt, Sampling, tokens, turns

MOST_TOKENS = 128
ANSWERS = 16
"""One answer of a small model is noisy; the middle of so many is not."""
TEMPERATURE = 0.7
ENOUGH = "The tasks are about as they should be."


class TaughtEngineer:
    """Shows a policy the evidence as a table, and proposes the middle of its answers."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.name, self.policy = name, policy

    def propose(self, view: View, seed: int) -> list[Proposal]:
        prompt = (Message(role="user", content=table.prompt(view)),)
        sampling = Sampling(
            temperature=TEMPERATURE,
            max_tokens=MOST_TOKENS,
            seed=derive(seed, "taught engineer", self.name, view.last.number),
        )
        asked = [Prompt(prompt, None, sample) for sample in range(ANSWERS)]
        answers = self.policy.answer(asked, sampling)
        designs, failure = [], ""
        for answer in answers:
            try:
                designs.append(table.read(view, answer.text))
            except table.TableError as error:
                failure = failure or str(error)
        took = {
            "shown": prompt[0].content,
            "tokens": tokens(answers),
            "turns": turns(answers),
        }
        if not designs:
            words = answers[0].text[:1_000]
            return [Proposal(failure=failure, words=words).model_copy(update=took)]
        values = table.middle(view, designs)
        if not worth_a_trial(view.incumbent, view.space.project(values, base=view.incumbent)):
            return [Proposal(words=ENOUGH).model_copy(update=took)]
        return [change_knobs(values, table.write(view, values)).model_copy(update=took)]
