"""Every rollout of a stage is read once and in order, however many processes wrote it, whatever was
killed, and before, while and after its files are compacted."""

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest
from synthetic import rollout

from coevolve.core.rollout import Rollout
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.store import shards
from coevolve.store.cells import cells_of
from coevolve.store.layout import parts_of, sound
from coevolve.store.rollouts import blocks, problem, read_row, write
from coevolve.store.shards import compact, forget, read, span_of, stage_files, step_file
from coevolve.store.stages import stage_cells, stage_rollouts

STEPS, PROCESSES, EACH = 5, 11, 4


def drawn(step: int, process: int) -> list[Rollout]:
    rng = random.Random(f"{step} {process}")
    return [
        rollout(
            rng, f"t{(step + process) % 7}", step=step, group=f"{step}/{process}", sample=n,
            shaped=rng.random(), bucket={"size": (step + process) % 7 % 3},
        )
        for n in range(EACH)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a stage that several processes have written, the last of them first."""
    folder = tmp_path_factory.mktemp("written")
    for step in range(STEPS):
        for process in reversed(range(PROCESSES)):
            write(drawn(step, process), step_file(folder / "rollouts", step, process))
    (folder / "stage.json").write_text("{}")
    return folder


@pytest.fixture
def stage(written: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(written, tmp_path / "stage")


def all_drawn() -> list[tuple[int, str, int]]:
    return [
        (step, f"{step}/{process}", n)
        for step in range(STEPS) for process in range(PROCESSES) for n in range(EACH)
    ]  # fmt: skip


def places(table: pyarrow.Table) -> list[tuple[int, str, int]]:
    return list(
        zip(*(table[name].to_pylist() for name in ("step", "group", "sample")), strict=True)
    )


def test_processes_are_read_as_one_stage_before_and_after_it_is_compacted(stage: Path) -> None:
    before = read(stage / "rollouts")
    assert places(before) == all_drawn()
    compact(stage / "rollouts")
    assert [file.name for file in (stage / "rollouts").iterdir()] == ["steps-000000-000004.parquet"]
    assert read(stage / "rollouts").equals(before)
    (part,) = parts_of(stage)
    assert sound(stage, [part], {}) == ([part], [])


def test_views_see_each_rollout_once(stage: Path) -> None:
    pytest.importorskip("duckdb", reason="the views need the extra `train`")
    from coevolve.diagnostics.views import connect, gather

    sql = 'SELECT step, "group", sample, reward FROM rollouts ORDER BY ALL'
    with connect(gather(stage)) as connection:
        before = connection.execute(sql).fetchall()
    kept = stage.parent / "kept"
    shutil.copytree(stage / "rollouts", kept)
    compact(stage / "rollouts")
    shutil.copytree(kept, stage / "rollouts", dirs_exist_ok=True)  # killed before it was tidied
    with connect(gather(stage)) as connection:
        assert connection.execute(sql).fetchall() == before
        assert connection.execute("SELECT count(DISTINCT id) FROM rollouts").fetchone() == (
            STEPS * PROCESSES * EACH,
        )


@pytest.mark.parametrize("left", [0, 1, 17, STEPS * PROCESSES])
def test_compacting_may_be_killed_at_any_instant(stage: Path, left: int) -> None:
    before, names = read(stage / "rollouts"), stage_files(stage / "rollouts")
    kept = stage.parent / "kept"
    shutil.copytree(stage / "rollouts", kept)
    compact(stage / "rollouts")
    for file in names[:left]:  # it was killed before it came to these
        shutil.copy(kept / file.name, file)
    (stage / "rollouts" / ".steps-000000-000004.parquet.1").write_bytes(b"PAR1 half of a file")
    assert read(stage / "rollouts").equals(before)
    compact(stage / "rollouts")
    assert len(list((stage / "rollouts").iterdir())) == 1
    assert read(stage / "rollouts").equals(before)


def test_files_are_made_of_whole_steps_and_are_large_enough(
    stage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read(stage / "rollouts")
    size = sum(file.stat().st_size for file in (stage / "rollouts").glob("step-000000-*"))
    monkeypatch.setattr(shards, "LARGE", size * 3 // 2)
    monkeypatch.setattr(shards, "ROWS", 3 * EACH)
    compact(stage / "rollouts")
    files = stage_files(stage / "rollouts")
    spans = [span_of(file) for file in files]
    assert [(span.first, span.last) for span in spans if span] == [(0, 1), (2, 3), (4, 4)]
    assert read(stage / "rollouts").equals(before)
    assert [len(block) for block in blocks(files[0])] == [3 * EACH] * 7 + [EACH]
    wanted = before.slice(50, 1).to_pylist()[0]
    assert read_row(files[0], 50) == wanted
    with pytest.raises(ValueError, match="fewer rows"):
        read_row(files[0], 2 * PROCESSES * EACH)


def test_a_damaged_file_is_left_as_it_is_and_named(stage: Path) -> None:
    bad = step_file(stage / "rollouts", 2, 3)
    data = bytearray(bad.read_bytes())
    data[40] ^= 255
    bad.write_bytes(bytes(data))
    names = stage_files(stage / "rollouts")
    compact(stage / "rollouts")
    assert stage_files(stage / "rollouts") == names
    parts, broken = sound(stage, parts_of(stage), {}, thoroughly=True)
    assert [one.file for one in broken] == [bad]
    assert len(parts[0].files) == len(names) - 1


def test_counts_are_those_of_the_rollouts(stage: Path) -> None:
    tasks = [
        Task(id=f"t{n}", domain="plain", split=Split.TRAIN, seed=n, data={}, bucket={"size": n % 3})
        for n in range(6)  # one task is not asked for
    ]
    wanted = cells_of(stage_rollouts(stage, tasks))
    assert stage_cells(stage, tasks) == wanted
    assert (
        sum(cell.n for cell in wanted)
        == sum((step + process) % 7 < 6 for step in range(STEPS) for process in range(PROCESSES))
        * EACH
    )
    assert [cell.labels for cell in wanted] == [{"size": size} for size in range(3)]


@pytest.mark.parametrize("compacted", [False, True])
def test_a_resumed_stage_forgets_what_it_will_draw_again(stage: Path, compacted: bool) -> None:
    if compacted:
        compact(stage / "rollouts")
    (stage / "rollouts" / ".step-000004-3.parquet.77").write_bytes(b"PAR1")
    forget(stage / "rollouts", 3)
    assert places(read(stage / "rollouts")) == [one for one in all_drawn() if one[0] < 3]
    assert not list((stage / "rollouts").glob(".*"))
    for process in range(PROCESSES):
        write(drawn(3, process), step_file(stage / "rollouts", 3, process))
    assert places(read(stage / "rollouts")) == [one for one in all_drawn() if one[0] < 4]
    forget(stage / "nothing", 0)


def test_forgetting_may_be_killed_at_any_instant(stage: Path) -> None:
    before = read(stage / "rollouts")
    compact(stage / "rollouts")
    (whole,) = stage_files(stage / "rollouts")
    shutil.copy(whole, stage / "kept.parquet")
    forget(stage / "rollouts", 3)
    (stage / "kept.parquet").rename(whole)  # killed before it was dropped
    assert read(stage / "rollouts").equals(before)
    forget(stage / "rollouts", 3)
    assert places(read(stage / "rollouts")) == [one for one in all_drawn() if one[0] < 3]


WRITER = """
import sys
from pathlib import Path
from coevolve.core.rollout import Message, Outcome, Rollout
from coevolve.store.rollouts import write
from coevolve.store.shards import step_file
outcome = Outcome(valid=True, optimal=True, reward=1.0, components={}, failure=None)
for step in range(100_000):
    said = Message(role="assistant", content=f"answer {step} " * 99)
    one = Rollout(task_id="t", domain="d", split="train", bucket={}, messages=(said,), step=step,
                  outcome=outcome, stop="end", sample=0, policy="p")
    write([one] * 200, step_file(Path(sys.argv[1]), step))
    print(step, flush=True)
"""


def test_a_killed_writer_loses_no_step_that_it_has_written(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as writer:  # fmt: skip
        assert writer.stdout
        told = [int(writer.stdout.readline()) for _ in range(5)]
        os.kill(writer.pid, signal.SIGKILL)
    files = stage_files(tmp_path)
    assert not [file for file in files if problem(file, thoroughly=True)]
    counts = read(tmp_path)["step"].value_counts().to_pylist()
    assert {one["counts"] for one in counts} == {200}
    assert {one["values"] for one in counts} >= set(told)
