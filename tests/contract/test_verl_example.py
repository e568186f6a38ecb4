"""examples/verl_grpo.py with a stand-in for verl that reads and writes what verl does."""

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
from coevolve.store.rollouts import read

EXAMPLE = Path(__file__).parents[2] / "examples" / "verl_grpo.py"
LAKE = get_domain("lake")

STAND_IN = f"""#!{sys.executable}
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


@pytest.fixture
def verl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python-with-verl"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    monkeypatch.setenv("COEVOLVE_VERL", str(program))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))


def stage(folder: Path, **recipe: object) -> Stage:
    values = {"steps": 2, "tasks": 3, "group": 4, "max_tokens": 64, **recipe}
    return Stage(
        kind="grpo", model="pocket", recipe=Recipe(**values), folder=folder,
        reward="(valid + optimal) / 2",
    )  # fmt: skip


@pytest.mark.usefixtures("verl")
def test_a_stage_goes_through_verl_and_back(tmp_path: Path) -> None:
    tasks = list(LAKE.generate(LAKE.space.parse({"agents2.share": 1}), 8, 0, Split.TRAIN))
    engine = CommandEngine(f"{EXAMPLE} trainer.n_gpus_per_node=2")
    result = engine.train(stage(tmp_path / "stage"), tasks)
    assert (result.steps, result.rollouts) == (2, 24)
    assert result.metrics["reward_gap"] == 0
    assert (tmp_path / "stage" / "policy" / "config.json").is_file()
    found = read(tmp_path / "stage" / "rollouts").to_pylist()
    assert sum(one["valid"] for one in found) == 12
    assert {one["shaped"] for one in found} == {0.0, 1.0}
    order = json.loads((tmp_path / "stage" / "stage.json").read_text())["order"]
    prompts = (tmp_path / "stage" / "prompts.jsonl").read_text().splitlines()
    asked = [json.loads(line)["id"] for line in prompts]
    assert [one["task_id"] for one in found[::4]] == [asked[place] for place in order]


@pytest.mark.usefixtures("verl")
def test_what_verl_would_do_otherwise_is_refused(tmp_path: Path) -> None:
    tasks = list(LAKE.generate(LAKE.space.defaults(), 8, 0, Split.TRAIN))
    with pytest.raises(EngineError, match=r"cannot do this: recipe\.schedule = cosine"):
        CommandEngine(str(EXAMPLE)).train(stage(tmp_path / "stage", schedule="cosine"), tasks)
