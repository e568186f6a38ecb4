"""A stage as the program sees that the engine `command` has started for it: what to train on, what
answers earn, and where to write.

Python programs use `StageFolder`. Others may keep `python -m coevolve.engines.score FOLDER` beside
them: for each line of JSON with `task_id`, `text`, `tokens` and `stop` it writes a line with
`reward`, `valid`, `optimal` and `failure`. Invariant: what is scored here is what the engine will
say of the same attempt.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, FiniteFloat, ValidationError

from coevolve.core.errors import CoevolveError, EngineError, UserError
from coevolve.core.files import replace_file
from coevolve.core.rollout import Message, Outcome, Rollout, StopReason, Value
from coevolve.core.task import Label, Task, reason
from coevolve.domains.base import Domain
from coevolve.domains.capture import verify
from coevolve.domains.turns import Episode, TurnDomain, begin, has_turns
from coevolve.engines.base import Stage
from coevolve.engines.stage import components_of, domains_of, read
from coevolve.evaluation.judge import each, record
from coevolve.evaluation.shape import shaped, weighed
from coevolve.harness.expression import Numbers
from coevolve.harness.filters import Columns, Memory, grouped, weights
from coevolve.harness.reward import SHORT, names_short, short_after
from coevolve.policies.base import Completion, Prompt

STAGE, TASKS, PROMPTS = "stage.json", "tasks.jsonl", "prompts.jsonl"
"""Written by the engine."""
ROLLOUTS, STEPS, POLICY = "rollouts.jsonl", "steps.jsonl", "policy"
"""Written by the program."""


class Attempt(Value):
    """A line of rollouts.jsonl."""

    task_id: str
    step: int = Field(ge=0)
    """The step it was drawn for, from 0."""
    group: int = Field(ge=0)
    """Which group of the step; attempts of one group share a task."""
    text: str = ""
    """The answer."""
    messages: tuple[Message, ...] = ()
    """Instead of the text: all turns after the prompt, for tasks of several turns."""
    tokens: int = Field(ge=0)
    """That the policy drew; 0 if nobody counted."""
    prompt_tokens: int = Field(default=0, ge=0)
    stop: StopReason = StopReason.END
    mean_logprob: FiniteFloat | None = None
    min_logprob: FiniteFloat | None = None
    entropy: FiniteFloat | None = None
    seconds: FiniteFloat = 0.0
    reward: FiniteFloat | None = None
    """As the program saw it."""

    @property
    def turns(self) -> tuple[Message, ...]:
        return self.messages or (Message(role="assistant", content=self.text),)


class Ask(Value):
    """A line of prompts.jsonl: what the policy is asked."""

    id: str
    domain: str
    labels: dict[str, Label]
    messages: tuple[Message, ...]
    answer: str | None = None
    """What a warm start teaches."""


class Scored(NamedTuple):
    """What the attempts of a step are worth."""

    rewards: list[float]
    """By the harness's expression."""
    weights: list[float]
    """How much the harness's filters let each teach: 0 leaves it out."""


class StageFolder:
    """A stage, read from its folder."""

    def __init__(self, path: Path | str, domains: dict[str, Domain] | None = None) -> None:
        self.path = Path(path).absolute()
        told = read(self.path / STAGE)
        values = {name: told[name] for name in Stage.model_fields if name in told}
        self.stage = Stage.model_validate({**values, "folder": self.path})
        self.model: str = told["model_folder"]
        """The folder or hub id to load the policy from."""
        self.policy = self.path / POLICY
        """The folder to save it to."""
        self.order: list[int] = told["order"]
        self.styles: dict[str, str] = told["styles"]
        """How policies are asked, by domain."""
        tasks = (Task.model_validate_json(line) for line in lines_of(self.path / TASKS))
        self.tasks = {task.id: task for task in tasks}
        self.asks = [Ask.model_validate_json(line) for line in lines_of(self.path / PROMPTS)]
        self.prompts = {ask.id: ask.messages for ask in self.asks}
        self.domains = domains_of((ask.domain for ask in self.asks), domains)
        self.memory: Memory | None = None
        """Of the filters; unknown before the first step of this process."""
        self.short = SHORT
        """The fact of that name, likewise."""
        self.begun: set[str] = set()
        """Files that this process has written to."""

    def refuse(self, program: str, more: Mapping[str, bool]) -> None:
        """Refuse, for a program that hands the stage to another trainer, what no such trainer does
        as the stage says, and what else is true of `more`."""
        stage, recipe = self.stage, self.stage.recipe
        refused = {
            f"kind = {stage.kind}": stage.kind != "grpo",
            "filters": bool(stage.filters),
            "tasks of several turns": any(has_turns(one) for one in self.domains.values()),
            "a reward that names `short`": names_short(stage.reward),
            f"recipe.tokens = {recipe.tokens}": bool(recipe.tokens),
            f"recipe.revisit = {recipe.revisit:g}": bool(recipe.revisit),
            **more,
        }
        if found := [name for name, wrong in refused.items() if wrong]:
            raise UserError(f"{program} cannot do this: {', '.join(found)}")

    def batch(self, step: int) -> list[Ask]:
        """The tasks of a step, each of which is tried `group` times."""
        count = self.stage.recipe.tasks
        return [self.asks[index] for index in self.order[step * count : (step + 1) * count]]

    def begin(self, task_id: str) -> Episode:
        """A fresh episode of a task of several turns."""
        domain = self.domains[self.task(task_id).domain]
        if not has_turns(domain):
            raise UserError(f"task {task_id} has one turn; give its answer to `score`")
        return begin(domain, self.task(task_id))[0]

    def score(self, task_id: str, text: str, tokens: int = 0, stop: str = "end") -> float:
        """What an answer earns under the harness."""
        attempt = Attempt(
            task_id=task_id, step=0, group=0, text=text, tokens=tokens, stop=StopReason(stop)
        )
        return float(self.judge([attempt])[0].shaped or 0.0)

    def record(self, step: int, attempts: Sequence[Attempt]) -> Scored:
        """Score the attempts of a step and write them down. Lines of this step and of later ones,
        as a program leaves them that was killed, are dropped."""
        if self.memory is None:
            self.memory = self.recalled(step)
        rollouts = self.judge(attempts, self.short)
        rewards = [float(one.shaped or 0.0) for one in rollouts]
        scored = [
            one.model_copy(update={"reward": reward})
            for one, reward in zip(attempts, rewards, strict=True)
        ]
        self.append(ROLLOUTS, step, [one.model_dump_json() for one in scored])
        valid = np.array([float(one.outcome.valid) for one in rollouts])
        groups = np.array([one.group for one in attempts], dtype=np.int64)
        own = weighed(
            self.stage.filters, rollouts, components_of(self.domains), self.short,
            grouped(groups, np.array(rewards), valid),
        )  # fmt: skip
        keep, self.memory = self.passed(scored, self.memory, own.values)
        return Scored(rewards, keep.tolist())

    def recalled(self, step: int) -> Memory:
        """What the filters remember of the steps before."""
        memory = Memory()
        before = [Attempt.model_validate_json(line) for line in self.earlier(ROLLOUTS, step)]
        for _, part in groupby(before, key=lambda one: one.step):
            _, memory = self.passed(list(part), memory)
        return memory

    def passed(
        self, attempts: Sequence[Attempt], memory: Memory, weight: Numbers | None = None
    ) -> tuple[Numbers, Memory]:
        """How much the filters let attempts of a step teach, and what is remembered of it."""
        seen = columns(attempts, np.ones(len(attempts)) if weight is None else weight)
        self.short = short_after(self.short, seen.tokens)
        return weights(self.stage.filters, seen, memory)

    def tell(self, step: int, **metrics: float | str) -> None:
        """Write the metrics of a step down, when so many steps are done."""
        self.append(STEPS, step, [json.dumps({"step": step, **metrics})])

    def append(self, name: str, step: int, lines: Sequence[str]) -> None:
        """Add lines to a file. The first time, lines that are not of earlier steps are dropped."""
        file = self.path / name
        if name not in self.begun:
            whole = "".join(line + "\n" for line in self.earlier(name, step))
            replace_file(file, whole.encode("utf-8"))
        self.begun.add(name)
        with file.open("a", encoding="utf-8", newline="\n") as stream:
            stream.write("".join(line + "\n" for line in lines))

    def earlier(self, name: str, step: int) -> list[str]:
        """Whole lines of earlier steps in a file."""
        file = self.path / name
        whole = file.read_text("utf-8").rpartition("\n")[0].split("\n") if file.exists() else []
        return [line for line in whole if line and json.loads(line)["step"] < step]

    def attempts(self) -> Iterator[list[Attempt]]:
        """All that the program has written down, step by step; each step must be whole."""
        file, recipe = self.path / ROLLOUTS, self.stage.recipe
        if not file.exists():
            raise EngineError(f"the program has left no {file}; it writes a line per attempt there")
        numbered = enumerate(lines_of(file), 1)
        every = ((n, self.parsed(line, f"{file}, line {n}")) for n, line in numbered)
        for expected, (step, part) in enumerate(groupby(every, key=lambda pair: pair[1].step)):
            lines = list(part)
            where, found = f"{file}, line {lines[-1][0]}", [attempt for _, attempt in lines]
            if step != expected or step >= recipe.steps:
                raise EngineError(
                    f"{where}: step {step} comes where step {expected} of {recipe.steps} should"
                )
            sizes = Counter(one.group for one in found)
            if len(sizes) != recipe.tasks or set(sizes.values()) != {recipe.group}:
                raise EngineError(
                    f"{where}: step {step} has {len(found)} attempts in {len(sizes)} groups, and "
                    f"the recipe says tasks = {recipe.tasks}, group = {recipe.group}"
                )
            if len({(one.group, one.task_id) for one in found}) > len(sizes):
                raise EngineError(f"{where}: a group of step {step} has attempts at two tasks")
            yield found

    def parsed(self, line: bytes, where: str) -> Attempt:
        """A line of rollouts.jsonl."""
        try:
            attempt = Attempt.model_validate_json(line)
        except ValidationError as error:
            raise EngineError(f"{where}: {reason(error)}") from None
        if attempt.task_id not in self.tasks:
            raise EngineError(
                f"{where}: the stage has no task '{attempt.task_id}'; {PROMPTS} lists those it has"
            )
        domain = self.domains[self.tasks[attempt.task_id].domain]
        if len(attempt.messages) > 1 and not has_turns(domain):
            raise EngineError(
                f"{where}: {len(attempt.messages)} messages, but the task has one turn; give its "
                "answer as `text`"
            )
        return attempt

    def task(self, task_id: str) -> Task:
        if task_id not in self.tasks:
            raise UserError(f"the stage has no task '{task_id}'; {PROMPTS} lists those it has")
        return self.tasks[task_id]

    def judge(self, attempts: Sequence[Attempt], short: float | None = None) -> list[Rollout]:
        """Attempts of a step with the verdicts of their domains and the rewards of the harness."""
        if short is None and names_short(self.stage.reward):
            raise UserError(
                f"the reward '{self.stage.reward}' names `short`, which follows from the steps "
                "before: have whole steps scored by `record`"
            )
        found = each(self.domains.values(), self.judged, attempts)
        short = SHORT if short is None else short
        rewards = shaped(self.stage.reward, found, components_of(self.domains), short).values
        tried = Counter[str]()
        rollouts = []
        for attempt, rollout, reward in zip(attempts, found, rewards, strict=True):
            group = f"{attempt.step}/{attempt.group}"
            own = {"shaped": float(reward), "sample": tried[group], "group": group}
            own |= attempt.model_dump(include={"mean_logprob", "min_logprob", "entropy"})
            rollouts.append(rollout.model_copy(update=own))
            tried[group] += 1
        return rollouts

    def judged(self, attempt: Attempt) -> Rollout:
        task = self.task(attempt.task_id)
        domain, text, stop = self.domains[task.domain], attempt.turns[-1].content, attempt.stop
        if has_turns(domain):
            outcome, stop = replayed(domain, task, attempt)
        else:
            outcome = verify(domain, task, text, attempt.tokens or None)
        completion = Completion(
            text,
            stop,
            prompt_tokens=attempt.prompt_tokens,
            completion_tokens=attempt.tokens,
            seconds=attempt.seconds,
        )
        prompt = Prompt(self.prompts[task.id], task)
        return record(prompt, completion, attempt.turns, outcome, self.stage.model, attempt.step)


def replayed(domain: TurnDomain, task: Task, attempt: Attempt) -> tuple[Outcome, StopReason]:
    """The verdict on a dialogue, which is held once more: the domain must reply as it did then."""
    where = f"{ROLLOUTS}, step {attempt.step}, group {attempt.group}, task {task.id}"
    said, heard = attempt.turns[::2], attempt.turns[1::2]
    if any(turn.role != "assistant" for turn in said) or len(said) == len(heard):
        raise EngineError(f"{where}: every other turn must be the assistant's, and so the last")
    (episode, limit), stop = begin(domain, task), attempt.stop
    for number, (turn, answer) in enumerate(zip(said, heard, strict=False), 1):
        if episode.reply(turn.content) != answer.content:
            raise EngineError(f"{where}: the domain gives another reply to turn {number}")
    if stop is not StopReason.LENGTH and episode.reply(said[-1].content) is not None:
        if len(said) < limit:
            raise EngineError(f"{where}: it ends after {len(said)} turns, but the task goes on")
        stop = StopReason.TURNS
    return episode.outcome(said[-1].content, attempt.tokens or None), stop


def columns(attempts: Sequence[Attempt], weight: Numbers) -> Columns:
    """What filters look at in a step's attempts."""
    turns = [sum(turn.role == "assistant" for turn in one.turns) for one in attempts]
    return Columns(
        np.array([one.group for one in attempts], dtype=np.int64),
        np.array([one.reward for one in attempts], dtype=np.float64),
        np.array([one.stop is StopReason.LENGTH for one in attempts], dtype=bool),
        np.array([one.tokens for one in attempts], dtype=np.int64),
        np.array(turns, dtype=np.int64),
        weight,
    )


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file."""
    with path.open("rb") as lines:
        yield from lines


def answered(work: StageFolder, line: str) -> dict[str, Any]:
    """What is said of a line of JSON; a line that is wrong spoils no other."""
    try:
        values = json.loads(line)
        if not isinstance(values, dict):
            return {"error": f"a line holds an object with task_id and text, not {line[:80]!r}"}
        values = {"step": 0, "group": 0, "tokens": 0, **values}
        rollout = work.judge([Attempt.model_validate(values)])[0]
    except ValidationError as error:
        return {"error": reason(error)}
    except (ValueError, CoevolveError) as error:
        return {"error": str(error)}
    told = rollout.outcome.model_dump(include={"valid", "optimal", "failure"})
    return {"reward": rollout.shaped, **told}


def main() -> None:
    """Score lines of standard input until it ends."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m coevolve.engines.score FOLDER")
    try:
        work = StageFolder(sys.argv[1])
    except CoevolveError as error:
        sys.exit(str(error))
    for line in sys.stdin:
        print(json.dumps(answered(work, line)), flush=True)


if __name__ == "__main__":
    main()
