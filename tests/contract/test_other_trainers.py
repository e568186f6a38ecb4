"""The examples that hand a stage to other trainers, with stand-ins that read and write what these
do."""

import json
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

from coevolve.core.errors import EngineError
from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.engines.base import Stage
from coevolve.engines.command import CommandEngine
from coevolve.harness.recipe import Recipe
from coevolve.policies.base import Prompt, Sampling
from coevolve.policies.local import LocalPolicy
from coevolve.store.shards import read

EXAMPLES = Path(__file__).parents[2] / "examples"
LAKE = get_domain("lake")

VERL = f"""#!{sys.executable}
# verl 0.9: `python -m verl.trainer.main_ppo key=value ...`; every second answer is what somebody
# says who has read the task's file, which no policy could.
import importlib.util, json, shutil, sys, uuid
from pathlib import Path
from pyarrow import parquet

assert sys.argv[1:3] == ["-m", "verl.trainer.main_ppo"]
told = dict(word.split("=", 1) for word in sys.argv[3:])
place = importlib.util.spec_from_file_location("own", told["reward.custom_reward_function.path"])
own = importlib.util.module_from_spec(place)
place.loader.exec_module(own)
score = getattr(own, told["reward.custom_reward_function.name"])
rows = parquet.read_table(told["data.train_files"]).to_pylist()
size, group = int(told["data.train_batch_size"]), int(told["actor_rollout_ref.rollout.n"])
dump = Path(told["trainer.rollout_data_dir"])
dump.mkdir()
for step in range(1, int(told["trainer.total_training_steps"]) + 1):
    lines = []
    for row in rows[(step - 1) * size : step * size]:
        stem = uuid.uuid4()
        truth, folder = row["reward_model"]["ground_truth"], row["data_source"]
        work = own.StageFolder(folder)
        task = work.tasks[json.loads(truth)["task"]]
        for sample in range(group):
            right = work.domains[task.domain].oracle(task, work.styles[task.domain])
            said = right if sample % 2 else "1,1"
            found = score(data_source=folder, solution_str=said, ground_truth=truth,
                          extra_info=row["extra_info"])
            lines.append({{"input": row["prompt"][-1]["content"], "output": said, "gts": truth,
                          "score": found, "step": step, "uid": f"{{stem}}_{{sample}}_0"}})
    lines.reverse()
    (dump / f"{{step}}.jsonl").write_text("".join(json.dumps(one) + "\\n" for one in lines))
actor = Path(told["trainer.default_local_dir"]) / f"global_step_{{step}}" / "actor"
shutil.copytree(told["actor_rollout_ref.model.path"], actor / "huggingface")
"""


PRIME_RL = f"""#!{sys.executable}
# prime-rl of 2026-08-21: `rl @ FILE.toml --clean`; every second answer is right.
import json, shutil, sys, tomllib
from pathlib import Path
from coevolve.engines.command import StageFolder

assert sys.argv[1] == "@"
told = tomllib.loads(Path(sys.argv[2]).read_text())
assert sys.argv[3:] == ["--clean", "--log.level", "debug"]
wanted, train = told["orchestrator"], told["orchestrator"]["train"]
(source,) = train["source"]
work = StageFolder(source["env"]["taskset"]["folder"])
run = Path(told["output_dir"]) / told["run"]["name"]
asked = [work.asks[place] for place in work.order]
tasks, group = wanted["batch_size"] // wanted["group_size"], wanted["group_size"]
for step in range(1, told["max_steps"] + 1):
    place = run / "rollouts" / f"step_{{step}}" / "train" / "effective"
    place.mkdir(parents=True)
    lines = []
    for ask in asked[(step - 1) * tasks : step * tasks]:
        task = work.tasks[ask.id]
        for sample in range(group):
            right = work.domains[task.domain].oracle(task, work.styles[task.domain])
            said = right if sample % 2 else "1,1"
            score = {{"score": work.score(ask.id, said), "weight": 1.0}}
            nodes = [
                {{"parent": None, "sampled": False, "message": {{"role": "user", "content": "?"}}}},
                {{"parent": 0, "sampled": True, "message": {{"role": "assistant", "content": said}},
                 "logprobs": [-0.5, -0.25]}},
            ]
            trace = {{"task": {{"data": {{"task": ask.id}}}}, "nodes": nodes, "ok": True,
                     "rewards": {{"earned": score}}, "stop_condition": "done"}}
            lines.append({{"id": f"{{len(lines)}}", "group": {{"id": ask.id}}, "traces": [trace]}})
    lines.reverse()
    (place / "traces.jsonl").write_text("".join(json.dumps(one) + "\\n" for one in lines))
weights = run / "broadcasts" / f"step_{{step}}"
weights.mkdir(parents=True)
for file in Path(told["model"]["name"]).glob("*.safetensors"):
    shutil.copy(file, weights)
"""
SWIFT = f"""#!{sys.executable}
# ms-swift 4.6: `python -m swift.cli.main rlhf FILE.json --name value ...`; every second answer is
# right. The plugin is the real one.
import importlib.util, json, shutil, sys, types
from pathlib import Path
from coevolve.engines.command import StageFolder

assert sys.argv[1:4] == ["-m", "swift.cli.main", "rlhf"]
told = json.loads(Path(sys.argv[4]).read_text())
assert sys.argv[5:] == ["--log_level", "debug"]
made = {{}}
class ORM:
    def __init__(self, args=None):
        pass
for name, names in {{
    "swift": {{}},
    "swift.rewards": {{"ORM": ORM, "orms": {{}}}},
    "swift.model": {{"ModelMeta": lambda name, groups, template: (name, template),
                    "register_model": lambda meta: made.update(model=meta)}},
    "swift.template": {{"TemplateMeta": lambda name, **parts: (name, parts["prompt"]),
                       "register_template": lambda meta: made.update(template=meta)}},
}}.items():
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(names)
place = importlib.util.spec_from_file_location("own", told["external_plugins"])
place.loader.exec_module(importlib.util.module_from_spec(place))
assert made == {{"model": ("stage", "stage"), "template": ("stage", ["{{{{QUERY}}}}"])}}
judge = sys.modules["swift.rewards"].orms[told["reward_funcs"]](args=None)

run, group = Path(told["output_dir"]), told["num_generations"]
work = StageFolder(run.parent)
rows = [json.loads(line) for line in Path(told["dataset"]).read_text().splitlines()]
size = told["per_device_train_batch_size"] * told["gradient_accumulation_steps"] // group
with (run / "logging.jsonl").open("a") as logged:
    for step in range(told["max_steps"]):
        drawn = []
        for row in rows[step * size : step * size + size]:
            task = work.tasks[row["task"]]
            right = work.domains[task.domain].oracle(task, work.styles[task.domain])
            for sample in range(group):
                said = right if sample % 2 else "1,1"
                drawn.append({{"completions": said, "task": row["task"], "row": row["row"],
                              "response_token_ids": [5] * len(said.split()),
                              "finish_reason": "stop"}})
        rewards = judge(**{{name: [one[name] for one in drawn] for name in drawn[0]}},
                        messages=[], trainer_state=None)
        line = {{"loss": 0.0, "reward": sum(rewards) / len(rewards),
                "global_step/max_steps": f"{{step + 1}}/{{told['max_steps']}}"}}
        print(json.dumps(line), file=logged, flush=True)
last = run / f"checkpoint-{{told['max_steps']}}"
shutil.copytree(told["model"], last)
(last / "trainer_state.json").write_text("{{}}")
"""
STAND_INS = {"verl": VERL, "prime_rl": PRIME_RL, "swift": SWIFT}
MORE = {
    "verl": "trainer.n_gpus_per_node=2",
    "prime_rl": "--log.level debug",
    "swift": "--log_level debug",
}


@pytest.fixture(params=list(STAND_INS))
def trainer(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    program = tmp_path / name
    program.write_text(STAND_INS[name])
    program.chmod(0o755)
    monkeypatch.setenv(f"COEVOLVE_{name.upper()}", str(program))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    return name


def stage(folder: Path, **recipe: object) -> Stage:
    values = {"steps": 2, "tasks": 3, "group": 4, "max_tokens": 64, **recipe}
    return Stage(
        kind="grpo", model="pocket", recipe=Recipe(**values), folder=folder,
        reward="(valid + optimal) / 2",
    )  # fmt: skip


def test_a_stage_goes_there_and_back(trainer: str, tmp_path: Path) -> None:
    tasks = list(LAKE.generate(LAKE.space.parse({"agents2.share": 1}), 8, 0, Split.TRAIN))
    engine = CommandEngine(f"{EXAMPLES / trainer}_grpo.py {MORE[trainer]}")
    result = engine.train(stage(tmp_path / "stage"), tasks)
    assert (result.steps, result.rollouts) == (2, 24)
    assert result.metrics["reward_gap"] == 0
    found = read(tmp_path / "stage" / "rollouts").to_pylist()
    assert sum(one["valid"] for one in found) == 12
    assert {one["shaped"] for one in found} == {0.0, 1.0}
    order = json.loads((tmp_path / "stage" / "stage.json").read_text())["order"]
    prompts = (tmp_path / "stage" / "prompts.jsonl").read_text().splitlines()
    asked = [json.loads(line)["id"] for line in prompts]
    for step in (0, 1):
        own = {one["task_id"] for one in found[12 * step : 12 * step + 12]}
        assert own == {asked[place] for place in order[3 * step : 3 * step + 3]}
    (answer,) = LocalPolicy(result.policy).answer(
        [Prompt(LAKE.prompt(tasks[0], "cells"))], Sampling(max_tokens=8)
    )
    assert answer.text


def test_what_it_would_do_otherwise_is_refused(trainer: str, tmp_path: Path) -> None:
    tasks = list(LAKE.generate(LAKE.space.defaults(), 8, 0, Split.TRAIN))
    with pytest.raises(EngineError, match=r"cannot do this: recipe\.tokens = 999"):
        CommandEngine(f"{EXAMPLES / trainer}_grpo.py").train(
            stage(tmp_path / "stage", tokens=999), tasks
        )
