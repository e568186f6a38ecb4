"""Broken input: the page says what is broken and shows the rest."""

import shutil
import time
from pathlib import Path

import pytest
from served import rounds_run, tree_run
from web import as_json, client

from coevolve.dashboard.web.table import Table
from coevolve.store.ledger import Ledger


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    rounds_run(folder / "run")
    tree_run(folder / "tree")
    return folder


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "runs")
    return tmp_path / "runs"


@pytest.mark.parametrize("damage", ["garbage", "cut", "missing"])
def test_a_broken_ledger(root: Path, damage: str) -> None:
    file = root / "run" / "ledger.db"
    if damage == "missing":
        file.unlink()
    else:
        data = file.read_bytes()
        file.write_bytes(b"garbage" * 999 if damage == "garbage" else data[: len(data) // 3])
    web = client(root)
    runs = {one["name"]: one for one in as_json(web, "/")["runs"]}
    assert runs["run"]["state"] == "unknown"
    assert "ledger.db" in runs["run"]["problem"]
    assert runs["tree"]["state"] == "done"
    for page in ("", "/changes", "/changes/1", "/changes/generation-1", "/ledger",
                 "/rollouts"):  # fmt: skip
        answer = web.get(f"/runs/run{page}")
        assert answer.status_code == 200, page
        assert "ledger.db" in answer.text, page
    assert as_json(web, "/runs/run/changes/1")["n"] == 3  # from the copies
    assert as_json(web, "/runs/run/ledger")["n"] > 10
    change = as_json(web, "/runs/run/changes/generation-1")["change"]
    assert change["one"]["version"]["verdict"] == "reverted"


def test_half_a_file_of_rollouts(root: Path) -> None:
    file = root / "tree" / "versions" / "03" / "dev" / "part-00000.parquet"
    whole = as_json(client(root), "/runs/tree/rollouts")["found"]["n"]
    file.write_bytes(file.read_bytes()[:500])
    web = client(root)
    found = as_json(web, "/runs/tree/rollouts")
    assert found["found"]["n"] == whole - 40
    assert any("versions/03/dev/part-00000.parquet" in words for words in found["problems"])
    assert "versions/03/dev/part-00000.parquet" in web.get("/runs/tree").text


def test_a_file_that_is_damaged_in_the_middle(root: Path) -> None:
    folder = root / "tree"
    file = folder / "versions" / "01" / "gate" / "part-00000.parquet"
    data = bytearray(file.read_bytes())
    data[8 : len(data) // 2] = b"\xff" * (len(data) // 2 - 8)
    file.write_bytes(data)
    table = Table(folder)
    table.refresh(("once",))
    assert [one.file for one in table.broken] == [file]
    assert table.ask("SELECT count(*) FROM rollouts WHERE version = 1")[0][0] == 72
    table.close()


def test_files_that_are_written_again_are_read_again(root: Path) -> None:
    folder = root / "tree"
    file = folder / "versions" / "01" / "gate" / "part-00000.parquet"
    table = Table(folder)
    table.refresh(("once",))
    before = table.ask("SELECT count(*), count_if(valid) FROM rollouts")[0]
    shutil.copy(folder / "versions" / "00" / "gate" / "part-00000.parquet", file)
    table.refresh(("changed",))
    assert table.ask("SELECT 1 FROM rollouts WHERE version = 1 AND source = 'gate'") == []
    with Ledger.open(folder) as ledger:
        ledger.seal(again=file)
    table.refresh(("twice",))
    rows = table.ask("SELECT task_id, valid FROM rollouts WHERE version = 1 AND source = 'gate'")
    again = table.ask("SELECT task_id, valid FROM rollouts WHERE version = 0 AND source = 'gate'")
    assert sorted(rows) == sorted(again)
    assert table.ask("SELECT count(*) FROM rollouts")[0][0] == before[0]
    file.unlink()
    table.refresh(("thrice",))
    assert table.ask("SELECT count(*) FROM rollouts")[0][0] == before[0] - len(rows)
    table.close()


def test_a_missing_checkpoint_is_said(root: Path) -> None:
    shutil.rmtree(root / "run" / "versions" / "02" / "stage" / "policy")
    page = client(root).get("/runs/run")
    assert page.status_code == 200
    assert "the checkpoint of version 2 is missing" in page.text
    assert "Did it learn?" in page.text


def test_what_is_lost_while_it_is_being_served(root: Path) -> None:
    web = client(root)
    row = as_json(web, "/runs/tree/rollouts", source="train")["found"]["rows"][0]
    shutil.rmtree(root / "tree" / "versions" / "00" / "stage" / "rollouts")
    answer = web.get(f"/runs/tree/rollouts/{row['id']}")
    # The page knows the file still, or, where the request came late, has noticed that it is gone.
    assert answer.status_code in (400, 404)
    assert answer.status_code == 404 or "step-000000-0.parquet" in answer.text
    shutil.rmtree(root / "tree")
    time.sleep(0.35)
    assert web.get("/runs/tree").status_code == 404
    assert web.get("/").status_code == 200


def test_a_broken_result_of_an_arm(root: Path, tmp_path: Path) -> None:
    arm = root / "cmp" / "fixed" / "seed-0"
    shutil.copytree(root / "run", arm)
    (arm / "job.json").write_text("{}")
    (arm / "result.json").write_text("{half")
    page = as_json(client(root), "/compare/cmp")
    assert page["rows"] == []
    assert any("result.json" in words for words in page["problems"])
