"""A stage trained by prime-rl, for the engine `command`:

    coevolve train grpo -p Qwen/Qwen3-4B --device cuda \\
        --engine "command:examples/prime_rl_grpo.py --deployment.num_train_gpus 2"

Words after the program are options of prime-rl's own, which win over ours. It is started as
`uv run rl`, or by COEVOLVE_PRIME_RL, where coevolve and this folder can be imported, too.

NOT RUN WITH PRIME-RL BY US: written after its source of 2026-08-21, and tried with a stand-in that
reads and writes what that does. prime-rl has a loss of its own (`dppo`) and draws while it trains,
so that attempts may be a few steps older than the weights that learn from them.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import tomli_w

from coevolve.core.errors import EngineError, UserError
from coevolve.core.rollout import StopReason
from coevolve.engines.command import StageFolder
from coevolve.engines.score import ROLLOUTS, Attempt

PROGRAM = "uv run rl"
RUN = "prime-rl"


@cache
def opened(folder: str) -> StageFolder:
    return StageFolder(folder)


try:
    import verifiers.v1 as vf
except ImportError:  # where the stage is handed over, it need not be installed
    pass
else:

    class Config(vf.TasksetConfig):
        folder: str = ""
        """Of the stage."""

    class Data(vf.TaskData):
        folder: str
        task: str

    class StageTask(vf.Task[Data]):
        @vf.reward
        async def earned(self, trace: vf.Trace) -> float:
            return opened(self.data.folder).score(self.data.task, trace.last_reply)

    class StageTaskset(vf.Taskset[StageTask, Config]):
        """The tasks of a stage, in its order."""

        def load(self) -> Any:
            work = opened(self.config.folder)
            for place in work.order:
                ask = work.asks[place]
                system = [one.content for one in ask.messages if one.role == "system"]
                rest = [one.model_dump() for one in ask.messages if one.role != "system"]
                data = Data(
                    system_prompt="\n".join(system) or None, prompt=rest, task=ask.id,
                    folder=str(work.path),
                )  # fmt: skip
                yield StageTask(data, self.config.task)

    __all__ = ["StageTaskset"]


def check(work: StageFolder) -> None:
    """Refuse what prime-rl would do otherwise than the stage says."""
    recipe = work.stage.recipe
    work.refuse(Path(__file__).name, {
        f"recipe.schedule = {recipe.schedule}": recipe.schedule != "constant",
        f"recipe.entropy = {recipe.entropy:g}": bool(recipe.entropy),
        f"recipe.iterations = {recipe.iterations}": recipe.iterations != 1,
    })  # fmt: skip


def settings(work: StageFolder) -> dict[str, Any]:
    """The stage in prime-rl's words."""
    recipe = work.stage.recipe
    source = {
        "name": "stage",
        "env": {
            "taskset": {"id": Path(__file__).stem, "folder": str(work.path)},
            "agent": {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}},
        },
    }
    trainer: dict[str, Any] = {
        "optim": {"lr": recipe.learning_rate},
        "loss": {
            "dppo_mask_low": recipe.clip_low, "dppo_mask_high": recipe.clip_high,
            "kl_tau": recipe.kl,
        },
    }  # fmt: skip
    if recipe.lora:
        trainer["model"] = {"lora": {"rank": recipe.lora, "alpha": 2 * recipe.lora}}
    return {
        "max_steps": recipe.steps,
        "output_dir": str(work.path),
        "run": {"name": RUN},
        "model": {"name": work.model},
        "ckpt": {"interval": recipe.steps},
        "weight_broadcast": {"type": "filesystem"},  # which leaves weights that others can load
        "trainer": trainer,
        "orchestrator": {
            "batch_size": recipe.tasks * recipe.group,
            "group_size": recipe.group,
            "train": {
                "sampling": {
                    "temperature": recipe.temperature, "max_completion_tokens": recipe.max_tokens,
                },
                "source": [source],
            },
        },
        "inference": {},
    }  # fmt: skip


def attempts(work: StageFolder) -> Iterator[list[Attempt]]:
    """What prime-rl trained on, step by step, in groups."""
    for step in range(work.stage.recipe.steps):
        file = work.path / RUN / "rollouts" / f"step_{step + 1}/train/effective/traces.jsonl"
        if not file.exists():
            raise EngineError(f"prime-rl has left no {file}")
        groups: dict[str, int] = {}
        found = []
        for number, line in enumerate(file.read_text("utf-8").rstrip("\n").split("\n"), 1):
            try:
                episode = json.loads(line)
                group = groups.setdefault(episode["group"]["id"], len(groups))
                (trace,) = episode["traces"]
                found.append(attempt(step, group, trace))
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise EngineError(f"{file}, line {number}: {error!r}") from None
        yield sorted(found, key=lambda one: one.group)


def attempt(step: int, group: int, trace: dict[str, Any]) -> Attempt:
    """One answer, from the nodes that were drawn."""
    drawn = [node for node in trace["nodes"] if node.get("sampled")]
    chances = [one for node in drawn for one in node.get("logprobs") or ()]
    cut = "length" in str(trace.get("stop_condition"))
    return Attempt(
        task_id=trace["task"]["data"]["task"],
        step=step,
        group=group,
        text=drawn[-1]["message"]["content"] or "",
        tokens=len(chances),
        stop=StopReason.LENGTH if cut else StopReason.END,
        mean_logprob=fmean(chances) if chances else None,
        min_logprob=min(chances, default=None),
        # The sum is not written down.
        reward=sum(one["score"] * one["weight"] for one in trace["rewards"].values()),
    )


def take_policy(work: StageFolder) -> None:
    """The last weights that were handed to inference, and what else a model consists of."""
    from transformers import AutoConfig, AutoTokenizer

    weights = work.path / RUN / "broadcasts" / f"step_{work.stage.recipe.steps}"
    if not work.stage.recipe.lora:
        AutoConfig.from_pretrained(work.model).save_pretrained(work.policy)
        AutoTokenizer.from_pretrained(work.model).save_pretrained(work.policy)
    shutil.copytree(weights, work.policy, dirs_exist_ok=True)


def main(folder: str, more: list[str]) -> None:
    work = StageFolder(folder)
    check(work)
    config = work.path / "prime-rl.toml"
    config.write_text(tomli_w.dumps(settings(work)))
    words = shlex.split(os.environ.get("COEVOLVE_PRIME_RL", PROGRAM))
    begun = ["--resume"] if (work.path / RUN / "checkpoints").exists() else ["--clean"]
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    subprocess.run([*words, "@", str(config), *begun, *more], check=True, env=own)
    for step, found in enumerate(attempts(work)):
        work.append(ROLLOUTS, step, [one.model_dump_json() for one in found])
        work.tell(step + 1, reward=fmean(one.reward or 0.0 for one in found))
    take_policy(work)


if __name__ == "__main__":
    try:
        main(sys.argv[-1], sys.argv[1:-1])
    except (UserError, EngineError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
