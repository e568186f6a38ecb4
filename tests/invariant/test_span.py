"""A stage that spans machines learns what one machine learns, also if one of them is lost."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")
pytest.importorskip("ray", reason="needs the extra `cluster`")

import torch
from nodes import freeze, lose, ray_nodes
from processes import alive
from training import LAKE, lake_tasks, stage, weights

from coevolve.cluster.compare import run_comparison
from coevolve.cluster.ray import RayCluster, spanning
from coevolve.core.errors import EngineError, UserError
from coevolve.engines.base import Progress
from coevolve.engines.stage import read_steps
from coevolve.engines.trl.engine import TrlEngine
from coevolve.harness.comparison import Comparison
from coevolve.harness.plan import make_plan, merged
from coevolve.harness.rules import ClusterRule
from coevolve.loop.create import create
from coevolve.loop.loop import run_loop
from coevolve.loop.train import WORK
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage, lineage_of
from coevolve.store.shards import read

pytestmark = pytest.mark.filterwarnings("ignore")
RECIPE = {"steps": 8, "tasks": 4}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Two machines, of which none has room for two workers."""
    with ray_nodes(1, 1) as cluster:
        yield cluster


def train(folder: Path, processes: int, recipe: dict[str, Any] = RECIPE) -> None:
    """The same stage on one machine."""
    TrlEngine().train(stage(folder, processes=processes, recipe=recipe), lake_tasks(8))


def same(one: Path, other: Path) -> bool:
    first, second = weights(one / "policy"), weights(other / "policy")
    return all(torch.equal(first[name], second[name]) for name in first)


def difference(one: Path, other: Path) -> tuple[float, float]:
    """How far two policies are apart, and the first from where it began."""
    from coevolve.pocket import folder

    first, second, start = weights(one / "policy"), weights(other / "policy"), weights(folder())
    apart = max((first[name] - second[name]).abs().max().item() for name in first)
    return apart, max((first[name] - start[name]).abs().max().item() for name in first)


def texts(folder: Path) -> list[str]:
    return sorted(str(row) for row in read(folder / "rollouts")["messages"].to_pylist())


def test_two_machines_agree_with_one(tmp_path: Path, nodes: Any) -> None:
    recipe, rule = {"steps": 2, "tasks": 4}, ClusterRule(workers=2)
    train(tmp_path / "one", 1, recipe)
    seen: list[Progress] = []
    both = stage(tmp_path / "two", processes=2, cluster=rule, recipe=recipe)
    with spanning(nodes.address, rule):
        TrlEngine().train(both, lake_tasks(8), seen.append)
    assert [progress.step for progress in seen] == [1, 2]
    apart, moved = difference(tmp_path / "one", tmp_path / "two")
    assert apart < 0.05 * moved
    assert texts(tmp_path / "one") == texts(tmp_path / "two")
    with (
        pytest.raises(UserError, match="3 workers asks for 3 CPUs and 0 GPUs, and the machines"),
        spanning(nodes.address, ClusterRule(workers=3)),
    ):
        pass


@pytest.mark.slow
def test_a_machine_that_is_lost_and_comes_back_changes_nothing(tmp_path: Path, nodes: Any) -> None:
    train(tmp_path / "calm", 2)
    folder, rule, first = tmp_path / "stage", ClusterRule(workers=2), list[str]()

    def observe(progress: Progress) -> None:
        if progress.step >= 3 and not first:
            first.append((folder / "workers").read_text())
            lose(nodes, next(iter(nodes.worker_nodes)))
            nodes.add_node(num_cpus=1)

    with spanning(nodes.address, rule):
        changed = stage(folder, processes=2, cluster=rule, recipe=RECIPE)
        TrlEngine().train(changed, lake_tasks(8), observe)
    assert first
    assert first != [(folder / "workers").read_text()]  # others finished what these had begun
    assert same(tmp_path / "calm", folder)
    assert texts(tmp_path / "calm") == texts(folder)


@pytest.mark.slow
def test_checkpoints_may_be_at_an_address(tmp_path: Path, nodes: Any) -> None:
    """The machine that writes them is lost, with all that it had."""
    train(tmp_path / "calm", 2)
    folder, store, seen = tmp_path / "stage", tmp_path / "store", list[list[str]]()
    rule = ClusterRule(workers=2, checkpoints=store.as_uri())

    def observe(progress: Progress) -> None:
        if progress.step >= 3 and not seen:
            seen.append(sorted(path.parent.name for path in store.glob("*/*/complete")))
            assert not (folder / "checkpoints").exists()
            lose(nodes, next(iter(nodes.worker_nodes)))
            nodes.add_node(num_cpus=1)

    with spanning(nodes.address, rule):
        changed = stage(folder, processes=2, cluster=rule, recipe=RECIPE)
        TrlEngine().train(changed, lake_tasks(8), observe)
    assert seen[0]
    assert same(tmp_path / "calm", folder)
    assert texts(tmp_path / "calm") == texts(folder)
    assert not list(store.glob("*/checkpoint-*"))  # they are dropped once the stage is done


@pytest.mark.slow
def test_fewer_workers_go_on_where_they_may(tmp_path: Path) -> None:
    """Of three workers two train, who can share the rollouts; then there is room for one."""
    train(tmp_path / "calm", 1)
    folder, rule, lost = tmp_path / "stage", ClusterRule(workers=4, least_workers=1), list[int]()
    with ray_nodes(1, 2) as nodes:

        def observe(progress: Progress) -> None:
            if progress.step >= 3 and not lost:
                lost.append(len(list((folder / "rollouts").glob("step-000000-*"))))
                lose(nodes, next(iter(nodes.worker_nodes)))

        with spanning(nodes.address, rule):
            changed = stage(folder, processes=4, cluster=rule, recipe=RECIPE)
            TrlEngine().train(changed, lake_tasks(8), observe)
    assert lost == [2]
    apart, moved = difference(tmp_path / "calm", folder)
    assert apart < 0.05 * moved
    assert texts(tmp_path / "calm") == texts(folder)


@pytest.mark.slow
def test_what_a_worker_refuses_is_told_once(tmp_path: Path, nodes: Any) -> None:
    rule = ClusterRule(workers=2)
    wrong = stage(tmp_path, processes=2, cluster=rule, reward="nobody_measures_this")
    with (
        spanning(nodes.address, rule),
        pytest.raises(EngineError, match="nobody_measures_this"),
    ):
        TrlEngine().train(wrong, lake_tasks(8))


@pytest.mark.slow
def test_workers_end_with_a_killed_command(tmp_path: Path, nodes: Any) -> None:
    command = [sys.executable, "-m", "coevolve", "train", "-o", tmp_path / "stage"]
    recipe = [word for word in ("steps=1000", "tasks=4", "group=4") for word in ("-r", word)]
    on = ["--workers", "2", "--ray", nodes.address]
    with subprocess.Popen([*command, *recipe, *on], stderr=subprocess.DEVNULL) as running:
        while not read_steps(tmp_path / "stage/steps.jsonl"):
            assert running.poll() is None
            time.sleep(0.1)
        first = int((tmp_path / "stage/workers").read_text())
        running.kill()
    while alive(first):
        time.sleep(0.1)


PLAN = {
    "versions": 1, "engineers": ["fixed"], "knobs": LAKE,
    "recipe": {"steps": 12, "tasks": 4, "group": 4, "max_tokens": 40, "learning_rate": 1e-4},
    "target": {"dev": 8, "gate": 16, "max_tokens": 40, "knobs": LAKE},
}  # fmt: skip


def facts(lineage: Lineage) -> list[Any]:
    """What came of every version, but for how long it took."""
    return [
        (node.train.weights, node.train.cells, node.dev.cells, node.gate.scores.rates)
        for node in lineage.nodes
        if node.train and node.dev and node.gate
    ]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What comes of a run on one machine, with as many processes."""
    folder = tmp_path_factory.mktemp("calm") / "run"
    with (run := create(make_plan({**PLAN, "processes": 2}, "test"), folder)).ledger:
        return facts(run_loop(run))


@pytest.mark.slow
def test_a_version_that_spans_machines_survives_one_of_them(
    tmp_path: Path, expected: list[Any]
) -> None:
    frozen, steps = Event(), tmp_path / "versions/00/stage/steps.jsonl"
    with ray_nodes(2, 1) as nodes:
        lost = next(iter(nodes.worker_nodes))

        def watch() -> None:
            while len(read_steps(steps)) < 3:
                time.sleep(0.02)
            freeze(lost)
            frozen.set()

        def tick() -> None:
            if frozen.is_set() and lost in nodes.worker_nodes:
                lose(nodes, lost)
                nodes.add_node(num_cpus=1)

        Thread(target=watch, daemon=True).start()
        assert spanned(tmp_path, {"workers": 2}, nodes, tick) == expected
        assert lost not in nodes.worker_nodes


@pytest.mark.slow
def test_a_version_takes_no_room_from_workers_that_may_be_fewer(
    tmp_path: Path, nodes: Any, expected: list[Any]
) -> None:
    rule = {"workers": 2, "least_workers": 1}
    assert spanned(tmp_path, rule, nodes, lambda: None) == expected


@pytest.mark.slow
def test_arms_that_span_machines_stand_side_by_side_and_survive_the_loss_of_one(
    tmp_path: Path,
) -> None:
    """Three machines have room for both arms with two workers each; on two, one of them waits."""
    rates: dict[str, dict[str, Any]] = {"slow": {}, "fast": {"recipe": {"learning_rate": 3e-4}}}
    plan = {**PLAN, "policy": "pocket", "cluster": {"workers": 2}}
    both = Comparison(name="both", seeds=range(1), tasks=16, plan=plan, arms=rates)
    calm = {}
    for arm in rates:
        alone = merged(merged(plan, rates[arm]), {"processes": 2, "cluster": {"workers": 0}})
        with (run := create(make_plan(alone, "test"), tmp_path / "calm" / arm)).ledger:
            calm[arm] = facts(run_loop(run))
    steps = "versions/00/stage/steps.jsonl"
    together = list[str]()
    with ray_nodes(2, 2, 2) as nodes:

        class Watched(RayCluster):
            def run(self, work: str, folders: Any, tick: Any) -> Any:
                return super().run(work, folders, lambda: (tick(), watch()))

        def watch() -> None:
            begun = [arm for arm in rates if read_steps(tmp_path / arm / "seed-0" / steps)]
            if len(begun) == 2 and not together:
                together.extend(begun)
                lose(nodes, next(iter(nodes.worker_nodes)))

        outcome = run_comparison(
            both, tmp_path, Watched(nodes.address, cpus=1), lambda line, left: None
        )
    assert outcome.failures == {}
    assert together == ["slow", "fast"]
    for arm, expected in calm.items():
        with Ledger.open(tmp_path / arm / "seed-0") as ledger:
            assert facts(lineage_of(ledger)) == expected


def spanned(folder: Path, rule: dict[str, int], nodes: Any, tick: Callable[[], None]) -> list[Any]:
    """What comes of a run whose versions span machines."""

    def work(folders: Sequence[Path]) -> None:
        cluster = RayCluster(nodes.address, cpus=1)
        with closing(cluster.run(WORK, folders, tick)) as ended:
            assert [one.failure for one in ended] == [""]

    run = create(make_plan({**PLAN, "cluster": rule}, "test"), folder, work=work)
    with run.ledger:
        found = facts(run_loop(run))
    assert found
    return found
