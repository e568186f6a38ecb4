"""Workers of a cluster: what is refused before anything begins, and how much there is room for."""

from pathlib import Path
from typing import Any

import pytest
from training import Words, stage

from coevolve.cli.run import need_ray
from coevolve.cluster.ray import Piece, pieces_of, room, rule_of
from coevolve.core.errors import UserError
from coevolve.engines.stage import describe
from coevolve.harness.plan import Plan, make_plan
from coevolve.harness.recipe import Recipe
from coevolve.harness.rules import ClusterRule
from coevolve.loop.create import Own
from coevolve.store.jobs import JOB


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"processes": 2}, "processes = 2 and cluster.workers = 4 both say"),
        ({"engine": "command:mine"}, 'cluster.workers = 4 needs engine = "trl", not'),
        ({"cluster": {"workers": 4, "least_workers": 5}}, "least_workers = 5 are more than"),
        ({"cluster": {"workers": 4, "gpus_per_worker": 2}}, "less than or equal to 1"),
        ({"cluster": {"worker": 4}}, "cluster.worker"),
    ],
)
def test_what_does_not_go_together(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_plan({"cluster": {"workers": 4}, **values}, "test")


def test_a_plan_mentions_workers_only_if_it_has_some() -> None:
    assert "cluster" not in Plan().model_dump()
    plan = make_plan({"cluster": {"workers": 4}}, "test")
    assert plan.model_dump()["cluster"]["workers"] == plan.all_processes == 4
    assert Plan(processes=3).all_processes == 3


def test_workers_need_a_cluster_and_a_domain_that_they_find() -> None:
    plan = make_plan({"cluster": {"workers": 4}}, "test")
    need_ray(plan, "auto")
    need_ray(Plan(), "")
    with pytest.raises(UserError, match=r"cluster\.workers = 4 needs a Ray cluster"):
        need_ray(plan, "")
    with pytest.raises(UserError, match=r"cluster\.workers = 4: other processes do not know"):
        Own(domain=Words()).named(plan)  # type: ignore[arg-type]


def test_a_stage_is_the_same_wherever_it_is_trained(tmp_path: Path) -> None:
    here, there = (stage(tmp_path, processes=2, cluster={"workers": n}) for n in (0, 2))
    assert describe(here, []) == describe(there, [])


TWO: list[Piece] = [(8.0, 2.0), (8.0, 2.0)]


@pytest.mark.parametrize(
    ("pieces", "times"),
    [
        ([(1.0, 0.0)], 5),
        ([(8.0, 0.0)], 2),
        ([(9.0, 0.0)], 0),
        ([(1.0, 1.0)] * 4, 1),
        ([(1.0, 1.0)] * 5, 0),
        ([(1.0, 0.0), (4.0, 0.0), (4.0, 0.0)], 1),
        ([(1.0, 0.5)] * 3, 2),
    ],
)
def test_room(pieces: list[Piece], times: int) -> None:
    assert room(TWO, pieces, 5) == times


def test_a_job_tells_what_its_workers_ask_for(tmp_path: Path) -> None:
    assert rule_of(tmp_path) == ClusterRule()
    (tmp_path / JOB).write_text('{"plan": {"cluster": {"workers": 3, "gpus_per_worker": 0.5}}}')
    assert pieces_of(rule_of(tmp_path)) == [(1.0, 0.5)] * 3
    assert len(pieces_of(ClusterRule(workers=3, least_workers=2))) == 2


def test_as_many_workers_train_as_have_equal_parts(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    from coevolve.engines.trl.span import sharing

    assert [sharing(Recipe(), 128, number) for number in (1, 3, 4, 15)] == [1, 2, 4, 8]
    assert sharing(Recipe(micro_batch=64), 128, 15) == 2


def test_probes_that_one_process_lacks_are_dropped(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    from coevolve.engines.trl.folder import StageFolder

    folder, checkpoint = StageFolder(tmp_path), tmp_path / "checkpoints/checkpoint-2"
    checkpoint.mkdir(parents=True)
    folder.complete(2, 2, True)
    for number in range(2):
        folder.probes(number).touch()
    folder.sweep(1)
    folder.sweep(2)
    assert folder.probes(0).exists()
    folder.sweep(3)
    assert not list(tmp_path.glob("probes-*"))


def test_what_is_waited_for_is_said_once_until_workers_come() -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    from coevolve.engines.trl.span import SILENCE_S, Wait

    rule = ClusterRule(workers=16, gpus_per_worker=1, cpus_per_worker=4)
    resources = {"CPU": 64.0, "GPU": 8.0, "memory": 1e9}, {"CPU": 62.5}
    wait = Wait(rule, lambda: resources)
    line = (
        "waiting for 16 workers of 4 CPUs and 1 GPUs each; the Ray cluster has 64 CPUs and 8 GPUs, "
        "of which 62.5 CPUs and 0 GPUs are free"
    )
    told = [wait.look(at_work, now * SILENCE_S) for at_work, now in (
        (False, 0.0), (False, 0.9), (False, 1.0), (False, 9.0),
        (True, 9.1), (False, 9.2), (False, 10.1), (False, 10.3),
    )]  # fmt: skip
    assert told == ["", "", line, "", "", "", "", line]
    fewer = Wait(ClusterRule(workers=3, least_workers=2), lambda: resources)
    fewer.look(False, 0.0)
    assert fewer.look(False, SILENCE_S).startswith("waiting for 2 to 3 workers of 1 CPUs and 0 GPU")


def test_workers_are_at_work_while_they_hold_their_stage(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    from coevolve.engines.trl.folder import StageFolder

    folder = StageFolder(tmp_path)
    found = [folder.has_workers()]
    with folder.taken_over():
        found.append(folder.has_workers())
    assert [*found, folder.has_workers()] == [False, True, False]
