"""The engine `command`: any program that is given the folder of a stage and trains there.

    stage.json      the stage, the model's folder, prompt styles, the order of the tasks
    tasks.jsonl     the tasks, as a judge needs them
    prompts.jsonl   a line per task: id, domain, labels, messages; in a warm start the answer, too
    rollouts.jsonl  by the program: a line per attempt, step by step
    steps.jsonl     by the program, if it likes: a line of metrics per step
    policy/         by the program: the result
    log.txt         what the program prints
    rollouts/       every attempt as it was judged here, a Parquet file per step
    done.json       written last: the stage is done

Invariant: evidence is what the domain's verifier says of each attempt, here, after the program has
ended; what the program says that it earned is never taken for it. docs/engines.md is the contract.
"""

import fcntl
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from coevolve.core.errors import EngineError, PolicyError, UserError
from coevolve.core.files import replace_file, settle
from coevolve.core.guard import GUARD
from coevolve.core.rollout import JUDGE_ERROR, Message, Rollout, StopReason
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.turns import has_turns
from coevolve.engines.base import Observe, Result, Stage, order
from coevolve.engines.score import PROMPTS, ROLLOUTS, STAGE, STEPS, TASKS, Ask, Attempt, StageFolder
from coevolve.engines.stage import (
    Follower,
    another_stage,
    check_stage,
    describe,
    domains_of,
    no_stage,
    numbers,
    policy_gone,
    read,
    read_steps,
    settled,
)
from coevolve.evaluation.wording import messages_of
from coevolve.harness.reward import SHORT, short_after
from coevolve.harness.wording import Wording
from coevolve.policies.base import tokens
from coevolve.policies.models import anywhere, check_trainable, find, style_for, worded_in
from coevolve.store.files import locked

__all__ = ["CommandEngine", "StageFolder"]

LOCK, LOG, DONE = "lock", "log.txt", "done.json"
WRITTEN = {STAGE, TASKS, PROMPTS, LOCK}
"""What lies in a folder before its program has begun."""
DERIVED = ("folder", "model_folder", "order")
"""Follows from the rest of stage.json, or from where things lie."""
LOOK_S = 0.5
"""Between looks at how far the program is."""
PATIENCE_S = 10.0
"""How long a program may take to be gone whose engine was killed."""
LAST_LINES = 12
"""Of the log, in the error about a program that failed."""


class CommandEngine:
    """Trains with a program. One that was cut off is started again in the same folder."""

    def __init__(
        self,
        command: str,
        domains: dict[str, Domain] | None = None,
        limit_s: float = math.inf,
        repeats: bool = True,
    ) -> None:
        if not command.strip():
            raise UserError("engine 'command' needs a program; write command:PROGRAM ARGS")
        self.command, self.domains = command, domains
        self.limit_s = limit_s
        """How long the program may take."""
        self.repeats = repeats
        """Whether the program promises the same policy for the same stage."""

    def words(self) -> list[str]:
        """The program and its arguments; a Python file runs in the Python that runs this."""
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise UserError(f"command '{self.command}' cannot be read: {error}") from None
        python = words[0].endswith(".py")
        if not (Path(words[0]).is_file() if python else shutil.which(words[0])):
            raise UserError(f"there is no program '{words[0]}'; give its path")
        return [sys.executable, *words] if python else words

    def check(self, model: str, scripts: Collection[str]) -> None:
        """Refuse what is no model with weights, and a program that is not there."""
        check_trainable(model, scripts)
        find(model)
        self.words()

    def train(self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        """Start the program, or take what it left in the stage's folder when it was done."""
        if not tasks:
            raise UserError("there are no tasks to train on")
        stage = settled(stage, "command")
        folder, began = stage.folder.absolute(), time.monotonic()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with claimed(folder) as lock:
                base = self.open(stage, tasks, folder)
                work = StageFolder(folder, self.domains)
                if done := finished(work):
                    return done
                self.run(work, lock, observe)
                result = closed(work, base, time.monotonic() - began)
                replace_file(folder / DONE, result.model_dump_json(indent=1).encode("utf-8"))
                return result
        except OSError as error:
            raise EngineError(f"cannot work in {folder}: {error.strerror or error}") from None

    def open(self, stage: Stage, tasks: Sequence[Task], folder: Path) -> dict[str, Any]:
        """Take the folder for this stage, unless it is another's; returns the model's config."""
        model, recipe = find(stage.model), stage.recipe
        base = config_of(model)
        domains = domains_of((task.domain for task in tasks), self.domains)
        taught = base.get("coevolve_styles") or {}
        styles = {name: style_for(name, stage.style) or taught.get(name, "") for name in domains}
        words = {
            name: stage.wording.get(name, Wording()).over(worded_in(base, name)) for name in domains
        }
        wanted = {
            **describe(stage, tasks),
            "folder": ".",
            "command": self.command,
            "model_folder": anywhere(model),
            "styles": styles,
            "wording": {name: one.model_dump() for name, one in words.items()},
            "order": order(len(tasks), recipe.steps * recipe.tasks, stage.seed),
        }
        there = {path.name for path in folder.iterdir() if path.name[0] != "."}
        if others := sorted(there - WRITTEN):
            check_same(wanted, folder, others)
        if DONE in others:
            return base
        for name, domain in domains.items():
            if has_turns(domain) and domain.tools:
                raise UserError(f"'{name}' works through tools, which only the engine trl can call")
        if recipe.revisit:
            raise UserError(f"revisit = {recipe.revisit}: only the engine trl tries tasks again")
        if recipe.redraw:
            raise UserError(
                f"redraw = {recipe.redraw}: only the engine trl draws further groups in place of "
                "dead ones"
            )
        if recipe.temperature_end:
            raise UserError(
                f"temperature_end = {recipe.temperature_end:g}: only the engine trl changes the "
                "temperature as it goes"
            )
        check_stage(stage, tasks, domains)
        said = messages_of(tasks, domains, styles.__getitem__, words.__getitem__)
        asks = [
            ask(stage, task, domains[task.domain], styles[task.domain], messages)
            for task, messages in zip(tasks, said, strict=True)
        ]
        files = {
            TASKS: "".join(task.model_dump_json() + "\n" for task in tasks),
            PROMPTS: "".join(one.model_dump_json(exclude_none=True) + "\n" for one in asks),
            STAGE: json.dumps(wanted, indent=1),
        }
        for name, text in files.items():  # anew for each start: the program may have changed them
            replace_file(folder / name, text.encode("utf-8"))
        return base

    def run(self, work: StageFolder, lock: int, observe: Observe | None) -> None:
        """Have the program run to its end, and say how far it is."""
        log = work.path / LOG
        words = [sys.executable, "-IS", "-c", GUARD, *self.words(), str(work.path)]
        follower = Follower(work.path / STEPS, work.stage.recipe.steps, observe)
        with log.open("ab") as output:
            start = output.tell()
            guard = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=[lock],
                start_new_session=True,
            )  # fmt: skip
        assert guard.stdin is not None
        try:
            code: int | None = None
            while code is None:
                code = ended(guard)
                spent = follower.look()
                if code is None and spent > self.limit_s:
                    raise EngineError(
                        f"'{self.command}' took longer than {self.limit_s:g} s and was ended; what "
                        f"it left is in {work.path}, and the same command starts it again there"
                    )
        finally:
            guard.stdin.close()
            guard.wait()
        if code:
            with log.open("rb") as output:
                output.seek(start)
                last = output.read().decode("utf-8", "replace").strip().splitlines()[-LAST_LINES:]
            raise EngineError(
                f"'{self.command}' ended with {code}, see {log}; its last lines:\n"
                + "\n".join(last or ["(it printed nothing)"])
            )


def ended(guard: subprocess.Popen[bytes]) -> int | None:
    """How the program ended, if it does so soon."""
    try:
        return guard.wait(LOOK_S)
    except subprocess.TimeoutExpired:
        return None


@contextmanager
def claimed(folder: Path) -> Iterator[int]:
    """Nobody else trains here meanwhile, nor a program that an earlier engine has left behind: it
    is the open file that is locked, and the guard has it, too."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not locked(lock, fcntl.LOCK_EX, PATIENCE_S):
            raise UserError(
                f"the stage in {folder} is going on in another process; wait for it, or end it "
                "first"
            )
        yield lock
    finally:
        os.close(lock)


def check_same(wanted: dict[str, Any], folder: Path, others: list[str]) -> None:
    """Refuse a folder that holds another stage, or something else."""
    if not (folder / STAGE).exists():
        raise no_stage(folder, others)
    found = read(folder / STAGE)
    names = [name for name in wanted if wanted[name] != found.get(name) and name not in DERIVED]
    if names:
        raise another_stage(folder, names)


def ask(stage: Stage, task: Task, domain: Domain, style: str, messages: tuple[Message, ...]) -> Ask:
    """What the policy is asked about a task."""
    return Ask(
        id=task.id, domain=task.domain, labels=task.bucket, messages=messages,
        answer=domain.oracle(task, style) if stage.kind == "warm" else None,
    )  # fmt: skip


def config_of(model: str) -> dict[str, Any]:
    """The config of a model, which tells how it was taught to be asked."""
    file = Path(model) / "config.json"
    if Path(model).is_dir():
        return read(file) if file.exists() else {}
    try:
        from huggingface_hub import hf_hub_download

        return read(Path(hf_hub_download(model, "config.json")))
    except (ImportError, OSError, ValueError) as error:
        raise PolicyError(
            f"cannot read the config of '{model}' ({type(error).__name__}); fetch the model where "
            f"there is a network (hf download {model} --local-dir FOLDER) and name the folder"
        ) from None


def finished(work: StageFolder) -> Result | None:
    """What came of the stage, if it is done."""
    file = work.path / DONE
    if not file.exists():
        return None
    if not work.policy.is_dir():
        raise policy_gone(work.path, work.policy)
    return Result.model_validate({**read(file), "policy": str(work.policy)})


def closed(work: StageFolder, base: dict[str, Any], seconds: float) -> Result:
    """Make sure of what the program left, judge its attempts, and store them as evidence."""
    take_policy(work, base)
    file = work.path / STEPS
    steps, lines = work.stage.recipe.steps, read_steps(file)
    if file.exists() and len(lines) < len(file.read_bytes().splitlines()):
        raise EngineError(f"{file}, line {len(lines) + 1}: no JSON object with a whole `step`")
    last, measured = lines[-1] if lines else {}, list[dict[str, float]]()
    stopped, tried, used, short = last.get("stopped"), 0, 0, SHORT
    done = int(last.get("step", steps))
    if work.stage.kind == "grpo":
        from coevolve.store.rollouts import write
        from coevolve.store.shards import compact, step_file

        place = work.path / "rollouts"
        shutil.rmtree(place, ignore_errors=True)
        for step, attempts in enumerate(work.attempts()):
            rollouts = work.judge(attempts, short)
            short = short_after(short, [one.tokens for one in attempts])
            write(rollouts, step_file(place, step))
            measured.append(facts_of(rollouts, attempts))
            tried += len(rollouts)
            used += tokens(rollouts)
        compact(place)
        done = len(measured)
        if not lines:
            text = "".join(json.dumps({"step": n, **m}) + "\n" for n, m in enumerate(measured, 1))
            replace_file(file, text.encode("utf-8"))
    if not stopped and not work.stage.recipe.is_over(done, used):
        raise EngineError(
            f"{work.path / ROLLOUTS} holds {done} of {steps} steps; a program that ends early says "
            f"why in the last line of {STEPS}, as `stopped`"
        )
    return Result(
        policy=str(work.policy), steps=done, stopped=stopped, rollouts=tried, tokens=used,
        seconds=seconds, metrics=numbers(last | (measured[-1] if measured else {})),
    )  # fmt: skip


def take_policy(work: StageFolder, base: dict[str, Any]) -> None:
    """Make sure of the policy, and note in its config how it was asked in training."""
    if not any(work.policy.glob("*.safetensors")) and not any(work.policy.glob("*.bin")):
        raise EngineError(
            f"the program ended well, but {work.policy} holds no weights; it must save a folder "
            "there that transformers can load"
        )
    file = work.policy / "config.json"
    config = read(file) if file.exists() else base
    styles = {name: style for name, style in work.styles.items() if style}
    config["coevolve_styles"] = {**(config.get("coevolve_styles") or {}), **styles}
    words = {name: one.model_dump() for name, one in work.stage.wording.items() if one != Wording()}
    if words:
        config["coevolve_wording"] = {**(config.get("coevolve_wording") or {}), **words}
    replace_file(file, json.dumps(config, indent=2).encode("utf-8"))
    settle(work.policy, deep=True)


def facts_of(rollouts: Sequence[Rollout], attempts: Sequence[Attempt]) -> dict[str, float]:
    """What is measured of a step by the verdicts; `reward_gap` is how far the program was off."""
    groups: dict[str, set[float | None]] = {}
    for one in rollouts:
        groups.setdefault(one.group, set()).add(one.shaped)
    pairs = zip(rollouts, attempts, strict=True)
    gaps = [
        abs((one.shaped or 0.0) - said.reward) for one, said in pairs if said.reward is not None
    ]
    return {
        "reward": fmean(one.shaped or 0.0 for one in rollouts),
        "valid": fmean(one.outcome.valid for one in rollouts),
        "optimal": fmean(one.outcome.optimal for one in rollouts),
        "unjudged": fmean(one.outcome.failure == JUDGE_ERROR for one in rollouts),
        "dead": fmean(len(rewards) == 1 for rewards in groups.values()),
        "length": fmean(one.completion_tokens for one in rollouts),
        "cut": fmean(one.stop is StopReason.LENGTH for one in rollouts),
        **({"reward_gap": max(gaps)} if gaps else {}),
    }
