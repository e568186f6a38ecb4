"""The recipe: the few numbers of a training stage that people tune. The engine derives the rest."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from coevolve.core.errors import UserError
from coevolve.core.rollout import Value

Loss = Literal["grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo", "luspo", "sapo", "vespo"]
Schedule = Literal["constant", "linear", "cosine"]
Sharding = Literal["auto", "none", "full"]
"""Whether processes share a model's weights among them; auto: from a billion parameters on."""


class Recipe(Value):
    """How one stage trains."""

    steps: int = Field(default=60, ge=1, le=1_000_000)
    """Batches of rollouts (of demonstrations in a warm start) that are drawn and learned from."""
    epochs: int = Field(default=1, ge=1, le=10_000)
    """Passes over the tasks of a stage: steps x tasks / epochs different ones are made."""
    revisit: float = Field(default=0.0, ge=0, le=0.9)
    """Share of a step's groups that go to tasks of the stage that were half solved when last tried,
    in place of new ones, as far as there are any. Not used in a warm start."""
    redraw: int = Field(default=0, ge=0, le=8)
    """Times that a step draws further groups in place of those whose rollouts all earned the same,
    out of the rollouts of the stage: what is drawn again is paid for with steps."""
    iterations: int = Field(default=1, ge=1, le=64)
    """Optimiser updates on each batch of rollouts. Clipping begins with the second. Not used in a
    warm start."""
    tokens: int = Field(default=0, ge=0)
    """Tokens, read and drawn, after which no further step is made; 0: steps alone decide."""
    learning_rate: float = Field(default=1e-5, gt=0, le=1)
    """Of the optimiser, after a short warm-up."""
    schedule: Schedule = "constant"
    """How it goes on: constant, or down to 0 at the last of the `steps`, linear or as a cosine."""
    tasks: int = Field(default=16, ge=1, le=65_536)
    """Tasks per step (demonstrations per step in a warm start)."""
    group: int = Field(default=8, ge=2, le=1_024)
    """Rollouts per task, compared with each other. Not used in a warm start."""
    micro_batch: int = Field(default=0, ge=0)
    """Rollouts per forward and backward pass; lower it when memory runs out. Must divide tasks x
    group. 0: as many as the model's size suggests."""
    loss: Loss = "dapo"
    """Which of GRPO's variants."""
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    """How far a token's probability ratio may fall before its gradient is cut; ratios leave 1 with
    the second of several `iterations`."""
    clip_high: float = Field(default=0.27, gt=0, le=10)
    """How far it may rise."""
    kl: float = Field(default=0.0, ge=0, le=10)
    """Weight of the divergence from the starting policy; 0 needs no reference model."""
    entropy: float = Field(default=0.0, ge=0, le=1)
    """Weight of the entropy bonus."""
    temperature: float = Field(default=1.0, gt=0, le=5)
    """Of the rollouts, at the first step."""
    temperature_end: float = Field(default=0.0, ge=0, le=5)
    """Of the rollouts at the last of the `steps`, and in between on a straight line; 0: it stays
    as at the first."""
    max_tokens: int = Field(default=256, ge=1, le=131_072)
    """Tokens after which an answer is cut off: every answer of a dialogue by itself, as in
    evaluation, or with tools the whole dialogue, replies included."""
    lora: Annotated[int, Field(ge=0, le=1_024)] | Literal["auto"] = "auto"
    """Rank of low-rank adapters; 0 trains all weights, or the adapter that it begins with. auto:
    adapters for models of a billion weights and more; what is recorded says which it was."""
    replay: float = Field(default=0.0, ge=0, lt=1)
    """Warm start: share of demonstrations that are the policy's own earlier answers to general
    instructions, so that it does not lose its language."""
    generator: str = "local"
    """Who draws the rollouts: local, vllm (in this process), or the address of a vLLM server."""

    @field_validator("generator")
    @classmethod
    def _who(cls, generator: str) -> str:
        if generator not in ("local", "vllm") and not generator.startswith(("http://", "https://")):
            raise ValueError("use local, vllm, or the address of a vLLM server (http://HOST:PORT)")
        return generator

    @property
    def distinct(self) -> int:
        """How many tasks a stage is made for; the last pass over them may be cut short."""
        return -(-self.steps * self.tasks // self.epochs)

    @property
    def rank(self) -> int:
        """Of the adapters; 0: there are none, or nobody has decided yet."""
        return 0 if self.lora == "auto" else self.lora

    def temperature_at(self, step: int) -> float:
        """Of the rollouts of a step."""
        last, end = self.steps - 1, self.temperature_end or self.temperature
        return self.temperature + (end - self.temperature) * min(step, last) / max(last, 1)

    @property
    def rollouts(self) -> int:
        """What a stage may draw."""
        return self.steps * self.tasks * self.group

    def is_over(self, step: int, tokens: float, drawn: int = 0) -> bool:
        """Whether a stage ends after so many steps, tokens, and rollouts: those that are left may
        be too few for a step."""
        spent = drawn + self.tasks * self.group > self.rollouts
        return step >= self.steps or 0 < self.tokens <= tokens or spent

    def check(self, processes: int) -> None:
        """Refuse values that do not go together in GRPO on so many processes."""
        if self.loss == "cispo" and self.clip_high < 1:
            raise UserError(
                f"cispo reads clip_high as the largest ratio; {self.clip_high} would cut "
                "everything (5 is usual)"
            )
        if self.redraw and self.generator != "local":
            raise UserError(
                f"redraw = {self.redraw} needs generator = local, not {self.generator}: it was "
                "never tried with vLLM"
            )
        if self.redraw and self.tasks % processes:
            raise UserError(
                f"redraw = {self.redraw} needs whole groups on each process: choose tasks as a "
                f"multiple of the {processes} processes, not {self.tasks}"
            )
        self.own(self.tasks * self.group, processes)

    def own(self, rollouts: int, processes: int) -> int:
        """The rollouts of a step that each process takes, in passes of `micro_batch`."""
        if rollouts % processes:
            raise UserError(
                f"{rollouts} rollouts per step cannot be shared by {processes} processes; "
                "choose tasks x group as a multiple of the processes"
            )
        own, most = rollouts // processes, self.micro_batch
        if most and own % most:
            raise UserError(
                f"micro_batch {most} does not divide the {own} rollouts per step and process; "
                f"{max(n for n in range(1, min(most, own + 1)) if own % n == 0)} does"
            )
        return own
