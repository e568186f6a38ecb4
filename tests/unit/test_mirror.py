"""Checkpoints at an address: what is whole there is found on any machine."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")
pytest.importorskip("fsspec", reason="needs the extra `cluster`")

from pydantic import ValidationError
from training import stage

from coevolve.core.errors import EngineError, UserError
from coevolve.engines.trl.folder import COMPLETE, StageFolder
from coevolve.engines.trl.mirror import Mirror, check_storage
from coevolve.engines.trl.span import trainer_of
from coevolve.harness.rules import ClusterRule


@pytest.fixture
def address() -> Iterator[str]:
    """An object store: it knows no folders but those of its files."""
    from fsspec.implementations.memory import MemoryFileSystem

    yield "memory://bucket/stage"
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs.clear()


def checkpoint(folder: StageFolder, updates: int, name: str) -> Path:
    """What one machine has of a checkpoint."""
    path = folder.checkpoints / f"checkpoint-{updates}" / "deep" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{name} of {updates}")
    return path


def machine(path: Path, name: str, address: str) -> StageFolder:
    (path / "stage").mkdir(exist_ok=True)
    return StageFolder(path / "stage", Mirror(address, path / name))


def test_machines_share_what_is_whole(tmp_path: Path, address: str) -> None:
    first, second = (machine(tmp_path, name, address) for name in ("first", "second"))
    for updates in (2, 4):
        for folder, file in ((first, "weights"), (second, "seeds")):
            checkpoint(folder, updates, file)
            folder.send(updates)
    first.complete(1, 2, good=True)  # the other was cut off before its mark
    third = machine(tmp_path, "third", address)
    checkpoint(third, 6, "left over")
    third.fetch()
    assert third.last() == (1, third.checkpoints / "checkpoint-2")
    assert [path.name for path in third.all_checkpoints()] == ["checkpoint-2"]
    deep = third.checkpoints / "checkpoint-2/deep"
    assert {path.name: path.read_text() for path in deep.iterdir()} == {
        "weights": "weights of 2", "seeds": "seeds of 2",
    }  # fmt: skip
    third.rotate()
    assert third.mirror is not None
    assert third.mirror.names() == ["checkpoint-2"]
    third.mirror.keep(())
    assert third.mirror.names() == []
    third.fetch()
    assert third.last() is None


def test_a_stage_goes_on_where_its_checkpoints_are(tmp_path: Path) -> None:
    folder = StageFolder(tmp_path)
    assert folder.place("") == ""
    begun = folder.place("s3://bucket/team/")
    assert begun.startswith(f"s3://bucket/team/{tmp_path.name}-")
    assert folder.place("") == folder.place("gs://another") == begun
    here = StageFolder(tmp_path / "here")
    here.checkpoints.mkdir(parents=True)
    assert here.place("s3://bucket/team") == ""


def test_an_address_that_is_refused_is_not_kept(tmp_path: Path) -> None:
    folder = StageFolder(tmp_path)
    wrong = ClusterRule(workers=2, checkpoints="nosuch://bucket")
    with pytest.raises(UserError, match="Protocol not known: nosuch"):
        trainer_of(stage(tmp_path, cluster=wrong), folder)
    mended = f"file://{tmp_path}/store"
    assert folder.place(mended).startswith(mended)


def test_a_storage_that_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError, match="Protocol not known: nosuch"):
        check_storage("nosuch://bucket")
    with pytest.raises(UserError, match="nothing can be written there"):
        check_storage(f"{tmp_path}/file/below")
    folder = machine(tmp_path, "here", f"file://{tmp_path}/file/below")
    checkpoint(folder, 2, "weights")
    with pytest.raises(EngineError, match=r"cannot keep checkpoints at file://.*goes on from"):
        folder.send(2)
    check_storage(f"{tmp_path}/fine")
    assert not any((tmp_path / "fine").iterdir())


def test_rules_name_what_workers_find() -> None:
    assert ClusterRule(workers=2, checkpoints="/shared/stages").checkpoints == "/shared/stages"
    assert "checkpoints" not in ClusterRule(workers=2).model_dump()
    with pytest.raises(ValidationError, match="name an absolute path, or an address"):
        ClusterRule(workers=2, checkpoints="stages")
    with pytest.raises(ValidationError, match="need workers of a cluster"):
        ClusterRule(checkpoints="s3://bucket")


def test_marks_tell_the_step(tmp_path: Path, address: str) -> None:
    folder = machine(tmp_path, "here", address)
    checkpoint(folder, 4, "weights")
    folder.send(4)
    folder.complete(2, 4, good=False)
    assert folder.mirror is not None
    mark = folder.mirror.storage.cat_file(f"{folder.mirror.root}/checkpoint-4/{COMPLETE}")
    assert json.loads(mark) == {"step": 2, "good": False}
