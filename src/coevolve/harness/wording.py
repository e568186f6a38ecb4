"""How a policy is asked, beyond what its domain says: a system message, and words around the task.

    prompt = "Plan for all agents at once, step by step.\\n\\n{task}"

    def prompt(task):
        hint = "Check every pair of agents.\\n\\n" if task["labels"].get("agents", 0) > 3 else ""
        return hint + task["text"]

A checkpoint that was trained with it is asked with it from then on.
"""

from pydantic import Field, field_validator

from coevolve.core.errors import UserError
from coevolve.core.rollout import Value
from coevolve.harness.code import check_code, is_code

TASK = "{task}"
MOST_CHARACTERS = 8_000


class Wording(Value):
    """Empty: as the policy was asked before."""

    system: str = Field(default="", max_length=MOST_CHARACTERS)
    """A system message, in place of the domain's own if it has one."""
    prompt: str = Field(default="", max_length=MOST_CHARACTERS)
    """Text with {task} in it, where the domain's words go; or a Python function that makes it."""

    @field_validator("prompt")
    @classmethod
    def has_the_task(cls, prompt: str) -> str:
        try:
            check_prompt(prompt)
        except UserError as error:
            raise ValueError(str(error)) from None
        return prompt

    def over(self, earlier: "Wording") -> "Wording":
        """What this does not say stays as it was."""
        return Wording(system=self.system or earlier.system, prompt=self.prompt or earlier.prompt)


def check_prompt(prompt: str) -> None:
    """Refuse words that leave the task out."""
    if is_code(prompt):
        check_code(prompt, "prompt")
    elif prompt and prompt.count(TASK) != 1:
        raise UserError(
            f"the prompt '{prompt[:60]}' has to have {TASK} in it, once: the domain's own words"
        )
