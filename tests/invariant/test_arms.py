"""Arms of one seed share what they must, and an arm that is killed ends as if it had not been."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from arms import Pretended, comparison
from nodes import TESTS, ray_nodes
from processes import alive

from coevolve.cluster.compare import Outcome, run_comparison
from coevolve.cluster.processes import Processes
from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.evaluation.arms import ArmResult, table
from coevolve.harness.comparison import Comparison
from coevolve.loop import compare as arms
from coevolve.policies.base import Completion, Prompt, Sampling
from coevolve.store.files import WriterLock
from coevolve.store.gauge import gauge_of
from coevolve.store.jobs import give, result_of
from coevolve.store.ledger import Ledger

ANY = Pretended().check


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes find the stand-ins of these tests."""
    monkeypatch.setenv("PYTHONPATH", TESTS, prepend=os.pathsep)


def run(one: Comparison, output: Path, work: str = "arms:quick", **options: Any) -> Outcome:
    said: list[str] = []
    outcome = run_comparison(
        one, output, Processes(2, **options), lambda line, left: said.append(line), work, ANY
    )
    assert said
    return outcome


def facts(outcome: Outcome) -> list[dict[str, Any]]:
    """The table, without how long it took."""
    found = [row.as_json() for row in table(outcome.results, "fixed")]
    for row in found:
        del row["totals"]["seconds"]
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The table of a comparison that nothing disturbed, done in this process."""
    output = tmp_path_factory.mktemp("whole")
    results = []
    for job in comparison().jobs():
        folder = output / job.name
        folder.mkdir(parents=True)
        give(folder, job)
        arms.finish_arm(folder, Pretended(), lambda line: None)
        results.append(result_of(folder, ArmResult))
    return facts(Outcome([one for one in results if one], {}))


def test_arms_of_one_seed_share_tasks_knobs_and_base(tmp_path: Path) -> None:
    first: dict[int, Any] = {}
    for job in comparison(seeds=2).jobs():
        folder = tmp_path / job.name
        folder.mkdir(parents=True)
        give(folder, job)
        engine = Pretended()
        arms.finish_arm(folder, engine, lambda line: None)
        result = result_of(folder, ArmResult)
        assert result is not None
        if not job.trains:
            first[job.seed] = [result.tasks_hash]
            continue
        hashes = [
            json.loads((folder / place / "evaluation.json").read_text())["tasks_hash"]
            for place in ("base/gate", "versions/00/dev", "versions/00/gate", "versions/01/gate")
        ]
        base = json.loads((folder / "run/base.json").read_text())["payload"]
        base = [base["valid"], job.seed]
        stage, tasks = engine.stages[0]
        shared = [result.tasks_hash, *hashes, base, stage.seed, [task.id for task in tasks]]
        if len(first[job.seed]) == 1:
            assert first[job.seed][0] == shared[0]
            first[job.seed] = shared
        assert first[job.seed] == shared
    assert all(one != other for one, other in zip(first[0], first[1], strict=True))


def test_a_suite_is_told_by_its_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    domain = get_domain("lake")
    knobs = domain.space.parse(
        {"size3.data_ratio": 1.0, "agents2.share": 0.5, "agents3.share": 0.5}
    )
    tasks = list(domain.generate(knobs, 30, 0, Split.TEST))
    monkeypatch.setitem(type(domain).suites, "tiny", lambda: iter(tasks))  # type: ignore[arg-type]
    results = []
    for job in comparison(final="suite:tiny", by=["agents", "size"]).jobs():
        folder = tmp_path / job.name
        folder.mkdir(parents=True)
        give(folder, job)
        arms.finish_arm(folder, Pretended(), lambda line: None)
        results.append(result_of(folder, ArmResult))
    fixed = next(
        row for row in table([one for one in results if one], "fixed") if row.arm == "fixed"
    )
    assert list(fixed.kinds) == ["agents 2, size 3", "agents 3, size 3"]
    assert fixed.tasks == sum(n for _, _, n in fixed.kinds.values()) == len(tasks)
    whole = sum(valid.mean * n for valid, _, n in fixed.kinds.values()) / len(tasks)
    assert whole == pytest.approx(fixed.valid.mean)


def test_what_probes_draw_is_taken_off_training(tmp_path: Path) -> None:
    (_, _, job) = comparison(plan={**comparison().plan, "recipe": {"steps": 40, "tasks": 4}}).jobs()
    engine, folder = Pretended(), tmp_path / "arm"
    folder.mkdir()
    give(folder, job)
    arms.finish_arm(folder, engine, lambda line: None)
    result = result_of(folder, ArmResult)
    assert result is not None
    (first, _), (second, _) = engine.stages
    each = first.recipe.tasks * first.recipe.group
    assert first.recipe.steps == 40
    assert result.probe_rollouts > 0
    assert second.recipe.steps == (40 * each - result.probe_rollouts) // each
    assert result.train_tokens == 2 * 640


def test_fresh_tasks_are_of_dev_and_decided_nothing() -> None:
    for job in comparison().jobs()[:2]:
        measuring = gauge_of(job.plan)
        tasks = arms.fresh(measuring, 60)
        assert len(tasks) == 60
        assert {task.split for task in tasks} == {Split.DEV}
        used = {task.id for task in (*measuring.dev, *measuring.gate)}
        assert not used & {task.id for task in tasks}


class Wordy:
    """Reads five tokens and draws two for every prompt."""

    name = "wordy"

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        return [Completion("no", prompt_tokens=5, completion_tokens=2) for _ in prompts]


def test_tokens_are_all_that_were_read_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coevolve.store.gauge.get_policy", lambda *_, **__: (Wordy(), ""))
    found = {}
    for job in comparison().jobs()[:2]:
        folder = tmp_path / job.name
        folder.mkdir(parents=True)
        give(folder, job)
        arms.finish_arm(folder, Pretended(), lambda line: None)
        result = result_of(folder, ArmResult)
        assert result is not None
        found[job.arm] = result.tokens
    # Base, dev and gate of two versions, fresh tasks; and two trainings. Nothing is probed for
    # an engineer that changes nothing.
    assert found == {"untrained": 40 * 7, "fixed": (40 + 2 * (24 + 40) + 40) * 7 + 2 * 640}


def test_processes_give_the_table_and_nothing_is_run_twice(
    tmp_path: Path, expected: list[dict[str, Any]]
) -> None:
    assert facts(run(comparison(), tmp_path)) == expected
    # A work that cannot succeed shows that no work is done.
    assert facts(run(comparison(), tmp_path, "arms:none")) == expected
    with pytest.raises(UserError, match=r"plan\.versions 2, not 1"):
        run(comparison(plan={"policy": "greedy", "versions": 1}), tmp_path)


def test_a_failed_arm_stops_no_other_and_is_tried_again(
    tmp_path: Path, expected: list[dict[str, Any]]
) -> None:
    outcome = run(comparison(), tmp_path, "arms:failing")
    assert outcome.failures == {
        "frontier/seed-0": "no such thing", "fixed/seed-0": "ZeroDivisionError: by zero",
    }  # fmt: skip
    assert [one.job.arm for one in outcome.results] == ["untrained"]
    assert "Traceback" in (tmp_path / "fixed/seed-0/log.txt").read_text()
    assert facts(run(comparison(), tmp_path)) == expected


def test_a_killed_process_is_begun_again_and_resumes(
    tmp_path: Path, expected: list[dict[str, Any]]
) -> None:
    assert facts(run(comparison(), tmp_path, "arms:dying")) == expected
    with Ledger.open(tmp_path / "fixed/seed-0") as ledger:
        tried = [(e.place, e.phase) for e in ledger.events("began")]
    assert tried.count(("versions/00", "train")) == 1
    assert tried.count(("versions/01", "train")) == 2


def test_an_arm_opens_no_ledger_that_another_process_writes(tmp_path: Path) -> None:
    give(tmp_path, comparison().jobs()[1])
    opened = []
    with ExitStack() as held:
        held.enter_context(WriterLock(tmp_path / "lock").hold())

        def say(line: str) -> None:
            if line.startswith("waiting for process"):
                opened.append((tmp_path / "ledger.db").exists())
                held.close()

        arms.finish_arm(tmp_path, Pretended(), say)
    assert opened == [False]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_is_killed_every_time_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    (tmp_path / "dead.py").write_text(
        "import os\ndef work(folder):\n"
        f"    print('again', flush=True)\n    os.kill(os.getpid(), {number:d})\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (ended,) = Processes(1, retries=2).run("dead:work", [tmp_path], lambda: None)
    assert ended == (tmp_path, f"the process was killed by {number.name}")
    assert (tmp_path / "log.txt").read_text() == "again\n" * 3


def test_what_lacks_memory_beside_others_is_begun_again_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full.py").write_text(
        "import time\nfrom pathlib import Path\nMEMORY = Path(__file__).parent\n"
        "def work(folder):\n"
        "    try:\n        (MEMORY / 'taken').mkdir()\n"
        "    except FileExistsError:\n"
        "        (MEMORY / 'refused').touch()\n"
        "        raise MemoryError('Out of memory') from None\n"
        "    while not (MEMORY / 'refused').exists():\n        time.sleep(0.05)\n"
        "    (MEMORY / 'taken').rmdir()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    ended = list(Processes(2).run("full:work", folders, lambda: None))
    assert sorted(ended) == [(folder, "") for folder in folders]


def test_memory_that_is_too_small_for_one_alone_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fat.py").write_text("def work(folder):\n    raise MemoryError('out of memory')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (ended,) = Processes(2).run("fat:work", [tmp_path], lambda: None)
    assert ended == (tmp_path, "MemoryError: out of memory")


def test_other_programs_may_write_to_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a pipe takes."""
    (tmp_path / "loud.py").write_text(
        "import os\ndef work(folder):\n    os.system('seq 20000')\n    os.write(1, b'end')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (ended,) = Processes(1).run("loud:work", [tmp_path], lambda: None)
    assert ended == (tmp_path, "")
    assert (tmp_path / "log.txt").read_text().endswith("\n20000\nend")


SCRIPT = """
import sys
from pathlib import Path
from arms import Pretended, comparison
from coevolve.cluster.compare import run_comparison
from coevolve.cluster.processes import Processes
print("ready", flush=True)
run_comparison(
    comparison(), Path(sys.argv[1]), Processes(2), lambda line, left: None, "arms:slow",
    Pretended().check,
)
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)]
)
def test_processes_end_with_whoever_started_them(
    tmp_path: Path, number: signal.Signals, expected: list[dict[str, Any]]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        until(lambda: list(tmp_path.glob("*/*/versions/00/train.json")))
        writers = {int(path.read_text()) for path in tmp_path.glob("*/*/lock") if path.read_text()}
        process.send_signal(number)
        process.wait(120)
    until(lambda: not any(map(alive, writers)))
    assert writers
    assert facts(run(comparison(), tmp_path)) == expected


def until(true: Any, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """A Ray cluster of two machines that are both this one."""
    with ray_nodes(1, 1) as cluster:
        yield cluster


@pytest.mark.filterwarnings("ignore")
def test_what_no_machine_has_is_refused(tmp_path: Path, two_nodes: Any) -> None:
    from coevolve.cluster.ray import RayCluster

    cluster = RayCluster(two_nodes.address, cpus=3, gpus=1)
    with pytest.raises(UserError, match="asks for 3 CPUs and 1 GPUs, and the machines"):
        run_comparison(comparison(), tmp_path, cluster, lambda line, left: None, "arms:quick", ANY)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("work", "sign"),
    [
        pytest.param("arms:held", "generations/01/backtest.json", marks=pytest.mark.slow),
        ("arms:measured", "versions/01/gate/part-00000.parquet"),
    ],
)
def test_a_lost_machine_changes_nothing(
    tmp_path: Path, two_nodes: Any, expected: list[dict[str, Any]], work: str, sign: str
) -> None:
    """In the middle of a training, and of an evaluation."""
    from coevolve.cluster.ray import RayCluster

    if not two_nodes.worker_nodes:
        two_nodes.add_node(num_cpus=1)
    (lost,) = two_nodes.worker_nodes

    class Watched(RayCluster):
        def run(self, work: str, folders: Any, tick: Any) -> Any:
            return super().run(work, folders, lambda: (tick(), kill()))

    def kill() -> None:
        """Once both machines are in the middle of an arm, one is no more, and the rest goes on."""
        if len(list(tmp_path.glob(f"*/*/{sign}"))) == 2 and not (tmp_path / "go").exists():
            places = [path.read_text().split() for path in tmp_path.glob("f*/*/where")]
            (process,) = {int(number) for node, number in places if node == lost.node_id}
            two_nodes.remove_node(lost, allow_graceful=False)
            until(lambda: not alive(process))
            (tmp_path / "go").touch()

    cluster = Watched(two_nodes.address, cpus=1)
    outcome = run_comparison(comparison(), tmp_path, cluster, lambda line, left: None, work, ANY)
    assert (tmp_path / "go").exists()
    assert outcome.failures == {}
    assert facts(outcome) == expected
    tries = []
    for folder in tmp_path.glob("f*/seed-*"):
        with Ledger.open(folder) as ledger:
            tries.append(len(ledger.events("began")) - len(ledger.events("phase")))
    assert max(tries) >= 1  # an arm was broken off and went on elsewhere
