"""Evaluations that are kept in a folder: they go on where they ended, and are never mixed up."""

import json

import pytest

from coevolve.cli.evaluate import file_name, folders_of
from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.domains.lake.domain import LakeDomain
from coevolve.evaluation.attempts import attempts, cut
from coevolve.evaluation.tally import Tally
from coevolve.policies.base import Sampling
from coevolve.policies.models import hash_of_weights, weights_of
from coevolve.policies.script import ScriptedPolicy
from coevolve.store.evaluations import Evaluation, EvaluationFolder, hash_of_tasks

DOMAIN = LakeDomain()


@pytest.fixture(scope="module")
def tasks():
    return list(DOMAIN.generate(DOMAIN.space.parse({"size3.data_ratio": 1}), 11, 0, Split.DEV))


class Counting(ScriptedPolicy):
    """Counts what it is asked, and gives up after some batches."""

    def __init__(self, batches=10**9):
        super().__init__(DOMAIN, "random")
        self.left, self.asked = batches, 0

    def answer(self, prompts, sampling):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.asked += len(prompts)
        return super().answer(prompts, sampling)


def description(tasks, **changes):
    fields = {
        "policy": "random", "domain": "lake", "source": {"tasks": "t.jsonl"}, "tasks": len(tasks),
        "tasks_hash": hash_of_tasks(tasks), "samples": 3, "batch": 8, "sampling": Sampling(),
        "style": "paths", "weights_hash": "",
    }  # fmt: skip
    return Evaluation(**{**fields, **changes})


def counted(policy, tasks, folder):
    counts = Tally()
    parts = folder and EvaluationFolder(folder, description(tasks))
    for rollout in attempts(DOMAIN, policy, tasks, Sampling(), samples=3, batch=8, parts=parts):
        counts.add(rollout)
    groups = [group.as_json() for group in counts.by(["size", "holes", "wait"])]
    return json.dumps([groups, counts.by([])[0].as_json(), counts.pass_at()])


def test_an_interrupted_evaluation_goes_on_to_the_same_numbers(tasks, tmp_path):
    whole = counted(Counting(), tasks, None)
    for batches in (0, 2, 1):
        with pytest.raises(KeyboardInterrupt):
            counted(Counting(batches), tasks, tmp_path / "kept")
    assert len(list((tmp_path / "kept").glob("part-*.parquet"))) == 3
    last = Counting()
    assert counted(last, tasks, tmp_path / "kept") == whole
    assert last.asked == 33 - 3 * 6
    again = Counting(batches=0)
    assert counted(again, tasks, tmp_path / "kept") == whole


def test_parts_are_whole_tasks(tasks):
    assert [len(part) for part in cut(tasks, 3, 8)] == [2, 2, 2, 2, 2, 1]
    assert [len(part) for part in cut(tasks, 9, 8)] == [1] * 11
    assert [len(part) for part in cut(tasks, 1, 64)] == [11]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy": "greedy"}, "policy 'random', not 'greedy'"),
        ({"samples": 4}, "samples 3, not 4"),
        ({"sampling": Sampling(seed=1)}, "seed 0, not 1"),
        ({"sampling": Sampling(temperature=0.5)}, "temperature 1.0, not 0.5"),
        ({"tasks_hash": "00"}, "tasks_hash"),
        ({"weights_hash": "00"}, "weights_hash '', not '00'"),
    ],
)
def test_a_folder_of_another_evaluation_is_refused(tasks, tmp_path, changes, message):
    EvaluationFolder(tmp_path, description(tasks))
    with pytest.raises(UserError, match=message):
        EvaluationFolder(tmp_path, description(tasks, **changes))


def test_the_same_tasks_may_come_from_elsewhere(tasks, tmp_path):
    EvaluationFolder(tmp_path, description(tasks))
    before = (tmp_path / "evaluation.json").read_bytes()
    EvaluationFolder(tmp_path, description(tasks, source={"tasks": "/elsewhere/t.jsonl"}))
    assert (tmp_path / "evaluation.json").read_bytes() == before


def test_folders_that_are_no_evaluation_are_left_alone(tasks, tmp_path):
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "chapter1.tex").write_text("years of work")
    with pytest.raises(UserError, match="holds other files"):
        EvaluationFolder(thesis, description(tasks))
    assert [path.name for path in thesis.iterdir()] == ["chapter1.tex"]
    with pytest.raises(UserError, match="cannot write to"):
        EvaluationFolder(thesis / "chapter1.tex", description(tasks))
    (thesis / "evaluation.json").write_text("{oops")
    with pytest.raises(UserError, match="does not describe an evaluation"):
        EvaluationFolder(thesis, description(tasks))


def test_a_spoiled_part_is_named(tasks, tmp_path):
    counted(Counting(), tasks, tmp_path)
    first, second = tmp_path / "part-00000.parquet", tmp_path / "part-00001.parquet"
    kept = first.read_bytes()
    first.write_bytes(kept[:100])
    with pytest.raises(UserError, match=r"cannot read .*part-00000.* move it away"):
        counted(Counting(), tasks, tmp_path)
    first.write_bytes(second.read_bytes())
    with pytest.raises(UserError, match=r"part-00000.* does not hold the attempts it should"):
        counted(Counting(), tasks, tmp_path)
    first.unlink()
    counted(Counting(batches=1), tasks, tmp_path)


def test_a_list_of_tasks_is_known_by_content_and_order(tasks):
    other = tasks[0].model_copy(update={"data": {**tasks[0].data, "cost": 99}})
    hashes = {hash_of_tasks(t) for t in (tasks, tasks[:-1], tasks[::-1], [other, *tasks[1:]])}
    assert len(hashes) == 4
    assert hash_of_tasks(list(tasks)) in hashes


def test_a_checkpoint_written_over_is_noticed(tmp_path):
    (tmp_path / "notes.json").write_text("{}")
    assert hash_of_weights(tmp_path) == ""
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"a" * 100)
    first = hash_of_weights(tmp_path)
    (tmp_path / "notes.json").write_text("{1}")
    assert hash_of_weights(tmp_path) == first
    weights.write_bytes(b"a" * 99 + b"b")
    second = hash_of_weights(tmp_path)
    assert second not in ("", first)
    for name in ("config.json", "tokenizer.json", "chat_template.jinja", "generation_config.json"):
        (tmp_path / name).write_text("{}")
        assert hash_of_weights(tmp_path) != second, name
        second = hash_of_weights(tmp_path)
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    base = {"base_model_name_or_path": str(tmp_path)}
    (adapter / "adapter_config.json").write_text(json.dumps(base))
    first = hash_of_weights(adapter)
    weights.write_bytes(b"another")
    assert hash_of_weights(adapter) != first
    assert weights_of(str(weights)) == hash_of_weights(weights)
    assert weights_of("greedy") == weights_of("http://localhost:1/v1#m") == ""


def test_every_policy_has_a_folder_of_its_own(tmp_path):
    names = ["greedy", "a/b", "a-b", "http://h/v1#m", "..", "../../etc", "x" * 300]
    found = folders_of(tmp_path, names)
    assert found["greedy"] == tmp_path / "greedy"
    assert len(set(found.values())) == len(names)
    for folder in found.values():
        assert folder.parent == tmp_path
        assert folder.resolve().parent == tmp_path.resolve()
        assert len(folder.name) < 100
    assert folders_of(tmp_path, ["a/b"]) == {"a/b": tmp_path}
    assert folders_of(None, names) == dict.fromkeys(names)
    assert not file_name("..").startswith(".")
    (tmp_path / "evaluation.json").write_text("{}")
    with pytest.raises(UserError, match="of a single policy"):
        folders_of(tmp_path, names)
