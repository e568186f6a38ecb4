"""`coevolve serve` before it serves: addresses, tokens, folders; and a comparison of arms."""

import random
from pathlib import Path

import pytest
from web import client

from coevolve.cli.serve import TOKEN, chosen_token
from coevolve.core.errors import UserError
from coevolve.core.server import listen
from coevolve.dashboard.web.app import make_app
from coevolve.evaluation.arms import ArmResult
from coevolve.harness.comparison import make_comparison
from coevolve.store.jobs import JOB
from coevolve.store.ledger import Ledger


def test_a_token_is_made_up_or_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    assert len(chosen_token()) >= 32
    assert chosen_token() != chosen_token()
    monkeypatch.setenv(TOKEN, "a-token-of-many-characters")
    assert chosen_token() == "a-token-of-many-characters"
    monkeypatch.setenv(TOKEN, "short")
    with pytest.raises(UserError, match="5 characters; use at least 16"):
        chosen_token()


def test_a_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(UserError, match=rf"127\.0\.0\.1:{port}.*another --port"):
            listen("127.0.0.1", port)


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        make_app(tmp_path / "none")


def test_arms_are_compared_with_paired_intervals(tmp_path: Path) -> None:
    values = {"name": "two", "seeds": 3, "tasks": 40, "arms": {"fixed": {}, "frontier": {}}}
    rng = random.Random(0)
    for job in make_comparison(values, "test").jobs():
        folder = tmp_path / "two" / job.name
        if job.trains:
            Ledger.create(folder, {"name": job.arm}).close()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / JOB).write_text(job.model_dump_json())
        chance = {"untrained": 0.2, "fixed": 0.4, "frontier": 0.9}[job.arm]
        valid = tuple(rng.random() < chance for _ in range(job.tasks))
        result = ArmResult(job=job, policy="p", ended="done", tasks_hash=f"{job.seed}", valid=valid,
                           optimal=valid, train_rollouts=100, seconds=5.0)  # fmt: skip
        (folder / "result.json").write_text(result.model_dump_json())
    web = client(tmp_path)
    found = web.get("/compare/two?format=json").json()
    assert [row["arm"] for row in found["rows"]] == ["frontier", "fixed", "untrained"]
    assert (found["reference"], found["done"]) == ("fixed", 9)
    change = found["rows"][0]["valid_change"]
    assert change["n"] == 3
    assert 0 < change["low"] < change["mean"] < change["high"]
    page = web.get("/compare/two").text
    assert 'href="/runs/two/frontier/seed-2"' in page
    assert web.get("/runs/two/frontier/seed-2").status_code == 200
    assert "paired</small>" not in page
    for seed in (1, 2):
        (tmp_path / f"two/fixed/seed-{seed}/result.json").unlink()
    assert web.get("/compare/two").text.count("<small>1 paired</small>") == 2
    rows = web.get("/compare/two?format=json").json()["rows"]
    assert {row["valid_change"] for row in rows} == {None}
    assert "two" in web.get("/compare").text
