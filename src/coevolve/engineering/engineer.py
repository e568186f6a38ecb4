"""The engineer that was taught: a policy that has learned engineering as a domain.

It is asked exactly as in its lessons and in its exam. Invariant: no answer raises anything.
"""

from coevolve.core.rollout import Message
from coevolve.core.seeds import derive
from coevolve.engineering import table
from coevolve.engineers.base import View, change_knobs
from coevolve.engineers.reach import edited
from coevolve.harness.proposal import Proposal
from coevolve.harness.rules import MOST_PROPOSALS
from coevolve.policies.base import Policy, Prompt, Sampling, tokens, turns

MOST_TOKENS = 128


class TaughtEngineer:
    """Shows a policy the evidence as a table and takes its answers as proposals, those that differ:
    the first is the likeliest, and the backtest picks the best."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.name, self.policy = name, policy

    def propose(self, view: View, seed: int) -> list[Proposal]:
        prompt = (Message(role="user", content=table.prompt(view)),)
        drawn = derive(seed, "taught engineer", self.name, view.last.number)
        greedy = Sampling(temperature=0, max_tokens=MOST_TOKENS, seed=drawn)
        free = greedy.model_copy(update={"temperature": 0.7})
        others = [Prompt(prompt, None, sample) for sample in range(1, MOST_PROPOSALS)]
        answers = [
            *self.policy.answer([Prompt(prompt)], greedy), *self.policy.answer(others, free)
        ]  # fmt: skip
        found = [read(view, text) for text in dict.fromkeys(answer.text for answer in answers)]
        took = {
            "shown": prompt[0].content,
            "tokens": tokens(answers),
            "turns": turns(answers),
        }
        found[0] = found[0].model_copy(update=took)
        return found


def read(view: View, text: str) -> Proposal:
    """A proposal, or a failure."""
    try:
        values = edited(table.read(view.incumbent, text), view.incumbent, view.reach)
        return change_knobs(values, text.strip())
    except table.TableError as error:
        return Proposal(failure=str(error), words=text[:1_000])
