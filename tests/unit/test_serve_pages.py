"""Every page of the dashboard, over runs that were really made, and its twin for scripts."""

import csv
import io
import json
import re
import shutil
import time
from html import escape, unescape
from pathlib import Path

import pytest
from pretended import TREE, Saying, make_run
from served import PARENTS, REFUSED, SKILL, VERDICTS, failed_run, rounds_run, tree_run
from typer.testing import CliRunner
from web import TestClient, as_json, client

from coevolve.cli.main import app
from coevolve.dashboard.facts import facts_of
from coevolve.dashboard.glossary import GLOSSARY
from coevolve.dashboard.text import ticked
from coevolve.dashboard.web import filter as filters
from coevolve.dashboard.web.filter import harmless
from coevolve.dashboard.web.folders import Folders, RunFolder
from coevolve.dashboard.web.summary import Summary, read
from coevolve.evaluation.difference import Difference
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.loop.final import final
from coevolve.loop.loop import run_loop
from coevolve.store import phases
from coevolve.store.ledger import Ledger


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    rounds_run(folder / "first")
    tree_run(folder / "deep" / "tree")
    failed_run(folder / "failed")
    (folder / "skills").mkdir()
    (folder / "skills" / "cool.toml").write_text(SKILL)
    return folder


@pytest.fixture(scope="module")
def web(root: Path) -> TestClient:
    return client(root)


PAGES = ["", "/changes", "/changes/1", "/changes/generation-1", "/diagnostics", "/rollouts",
         "/ledger", "/ledger/2", "/diagnostics/valid_rate"]  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("run", ["first", "deep/tree"])
def test_every_page_and_its_twin(web: TestClient, run: str, page: str) -> None:
    answer = web.get(f"/runs/{run}{page}")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert f"<strong>{run}</strong>" in answer.text
    found = as_json(web, f"/runs/{run}{page}")
    assert found["run"]["name"] == run


def test_controls_that_were_kept_are_counted_beside_the_others() -> None:
    found = Summary("run", "done", judged=3, kept=2)
    assert found.lines()["kept"] == "2 of 3 judged"
    assert found._replace(controls=1).lines()["kept"] == "2 of 3 judged, and 1 control"


def test_runs_are_listed_with_what_needs_somebody_first(web: TestClient) -> None:
    runs = as_json(web, "/")["runs"]
    assert [(one["name"], one["state"]) for one in runs] == [
        ("failed", "failed"), ("deep/tree", "done"), ("first", "done"),
    ]  # fmt: skip
    first = runs[2]
    assert first["base"]["n"] == 60
    assert (first["kept"], first["judged"]) == (2, 3)
    assert first["budget"]["rollouts"][1] == 10_000
    assert as_json(web, "/", search="FAIL")["runs"][0]["name"] == "failed"
    assert "the disk is full" in web.get("/runs/failed").text


def test_the_list_and_the_overview_tell_the_same_result(web: TestClient) -> None:
    runs = {one["name"]: one for one in as_json(web, "/")["runs"]}
    for name, version in (("first", 2), ("deep/tree", 1)):
        overview, listed = as_json(web, f"/runs/{name}")["facts"], runs[name]["standing"]
        assert (listed["version"], listed["told"]) == (version, version)
        assert overview["version"] == version
        assert overview["change"] == listed["change"]
        assert overview["change"]["n"] > 0
        assert overview["final"] == runs[name]["final"]
        assert overview["answer"] == runs[name]["answer"]
        assert overview["sentence"] == runs[name]["sentence"]
        helped = overview["answers"]["helped"]
        assert (helped["answer"], helped["brief"]) == (
            runs[name]["helped"], runs[name]["helped_brief"],
        )  # fmt: skip
        rates = [[one["name"], one["now"]] for one in overview["failing"]["rows"]]
        assert [[one["name"], one["now"]] for one in runs[name]["failing"]["rows"]] == rates
    assert runs["failed"]["standing"]["change"] is None
    assert "no evidence" in web.get("/").text
    assert as_json(web, "/runs/failed")["facts"]["answer"] == "unknown"


def test_the_list_says_where_no_version_is_better(tmp_path: Path) -> None:
    rounds_run(tmp_path / "same", **{**TREE, "versions": 1})
    (run,) = as_json(client(tmp_path), "/")["runs"]
    assert (run["answer"], run["standing"]["version"], run["standing"]["told"]) == ("no", None, 0)
    page = client(tmp_path).get("/").text
    assert "version 0 at best; ends with the first policy" in page
    assert run["sentence"].startswith("No: ")


def test_the_overview_has_the_facts_of_the_report(web: TestClient, root: Path) -> None:
    found = as_json(web, "/runs/first")
    facts = facts_of(root / "first")
    assert found["facts"]["sentence"] == facts.headline.answers.learned.sentence
    assert found["facts"]["final"]["n"] == 60
    steps = [step for one in found["charts"]["curves"] for step in one["steps"]]
    assert steps == list(range(1, 13))
    by_source = {(one["version"], one["source"]): one["n"] for one in found["counts"]}
    assert by_source[-1, "gate"] == 60
    assert by_source[2, "dev"] == 24
    page = web.get("/runs/first").text
    assert "of 10,000 used" in page
    assert 'id="chart-data"' in page


def test_copies_of_an_attempt_make_no_interval_narrower(tmp_path: Path) -> None:
    """Scripts answer a task the same every time, so three attempts at each tell what one does."""
    target = {"dev": 24, "gate": 60, "samples": 3}
    rounds_run(tmp_path / "copies", scripts=("prioritised",), target=target)
    facts, web = facts_of(tmp_path / "copies"), client(tmp_path)
    found, listed = as_json(web, "/runs/copies"), as_json(web, "/")["runs"][0]
    filtered = as_json(web, "/runs/copies/rollouts", source="gate", version="0")["found"]
    assert facts.boards
    shown = [
        *(one.as_json() for one in facts.boards[:2]), facts.versions[0].dev.as_json(),
        found["facts"]["base"], found["facts"]["final"], listed["base"], listed["final"],
        listed["dev"], filtered["valid"],
        *(one[key] for one in found["counts"] if one["source"] in ("gate", "dev")
          for key in ("valid", "optimal")),
    ]  # fmt: skip
    assert len(shown) == 15
    for one in shown:
        plain = wilson(one["successes"] // 3, one["n"] // 3)
        assert one["n"] % 3 == one["successes"] % 3 == 0 < one["n"]
        assert (one["low"], one["high"]) == pytest.approx((plain.low, plain.high))


def test_a_tree_shows_parents_verdicts_patches_and_alarms(web: TestClient) -> None:
    lineage = as_json(web, "/runs/deep/tree/changes")
    nodes = {one["version"]["number"]: one for one in lineage["versions"]}
    assert {number: one["version"]["verdict"] for number, one in nodes.items()} == VERDICTS
    assert {number: one["version"]["parent"] for number, one in nodes.items()} == PARENTS
    assert nodes[3]["changed"] == "group 8 → 16"
    ((generation, refused, _),) = lineage["refused"]
    assert (generation, refused["patch"]["factor"]) == (2, REFUSED[0])
    version = as_json(web, "/runs/deep/tree/changes/1")["change"]["one"]
    assert version["diffs"] == [
        ["recipe.temperature", [
            {"kind": "hunk", "text": "@@ -1 +1 @@"}, {"kind": "removed", "text": "-1.0"},
            {"kind": "added", "text": "+0.7"},
        ]]
    ]  # fmt: skip
    assert version["backtest"]["prediction"] == "up"
    assert version["judged"]["change"]["n"] == 40
    page = web.get("/runs/deep/tree/changes/1").text
    assert "dead after" in page
    assert "12.5 % <small>[6.0, 23.0] n 64" in page
    last = web.get("/runs/deep/tree/changes/4").text
    assert "hacked reward" in last
    assert "size5.data_ratio" in last
    assert "less signal" in web.get("/runs/deep/tree/changes").text
    assert "less signal" in web.get("/runs/deep/tree/changes/generation-2").text


def test_a_change_is_told_from_evidence_to_verdict(web: TestClient) -> None:
    found = as_json(web, "/runs/deep/tree/changes/3")
    change = found["change"]
    assert (change["generation"]["number"], change["generation"]["parent"]) == (2, 1)
    assert [version for _, version, _ in change["generation"]["tried"]] == [3, None]
    assert (found["before"]["name"], found["after"]["name"], found["n"]) == ("2", "4", 5)
    assert [one["version"] for one in found["curves"]["curves"]] == [1, 3]
    assert [one["version"]["number"] for one in found["grown"]] == [4]
    assert as_json(web, "/runs/deep/tree/changes/generation-1")["change"]["name"] == "1"
    page = web.get("/runs/first/changes/1").text
    steps = [
        page.index(f">{step}</h2>") for step in ("Evidence", "Proposal", "Training", "Verdict")
    ]
    assert steps == sorted(steps)
    assert "more holes" in page
    assert "had no second idea" in page
    assert "more cells that are holes on 4x4 boards (20 % → 28 %)" in page
    assert "size4.data_ratio" not in page  # which did not change


def test_numbers_open_the_rollouts_behind_them(web: TestClient) -> None:
    page = web.get("/runs/deep/tree/changes/3").text
    cells = re.findall(r'href="([^"]*)">(\d+)/(\d+)</a>', page)
    assert len(cells) > 5
    for address, valid, n in cells:
        found = web.get(f"{unescape(address)}&format=json").json()["found"]
        assert (found["valid"]["successes"], found["n"]) == (int(valid), int(n))
    failure = re.search(r'href="([^"]*failure=hole)">hole</a> \((\d+)\)', page)
    assert failure
    found = web.get(f"{unescape(failure[1])}&format=json").json()["found"]
    assert found["n"] == int(failure[2])


def test_rounds_are_a_lineage_without_branches(web: TestClient) -> None:
    nodes = as_json(web, "/runs/first/changes")["versions"]
    assert [one["version"]["parent"] for one in nodes] == [None, 0, 0]
    assert [one["version"]["verdict"] for one in nodes] == ["kept", "reverted", "kept"]
    holes = "more cells that are holes on 3x3 boards (20 % → 28 %) and 1 like it"
    assert [one["changed"] for one in nodes] == ["no change: the start", holes, holes]
    page = web.get("/runs/first/changes/1").text
    assert "size3.hole_ratio" in page
    assert "more holes" in page


def said(row: dict[str, list[dict[str, str]]], words: str) -> bool:
    return any(words in turn["content"].lower() for turn in row["messages"])


def test_texts_that_there_was_no_time_for_are_told_of(
    web: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "SEARCH_S", -1.0)
    found = as_json(web, "/runs/first/rollouts", text="nobody says this")["found"]
    assert (found["n"], found["unread"] > 0) == (0, True)
    page = web.get("/runs/first/rollouts", params={"text": "nobody says this"}).text
    assert "no time to look through" in page
    table = web.get("/runs/first/rollouts", params={"text": "h", "format": "csv"}).text
    assert len(table.splitlines()) > 1  # what is taken away is whole


def test_filters_tell_the_same_as_counting_by_hand(web: TestClient, root: Path) -> None:
    from coevolve.store.rollouts import read_file

    place = root / "deep" / "tree" / "versions" / "03"
    rows = [row for file in place.rglob("*.parquet") for row in read_file(file).to_pylist()]
    words = rows[0]["messages"][-1]["content"].strip()[:6]
    base = "/runs/deep/tree/rollouts"
    for query, wanted in (
        ({"version": "3"}, lambda r: True),
        ({"version": "3", "source": "dev"}, lambda r: r["split"] == "dev"),
        ({"version": "3", "failure": "hole"}, lambda r: r["failure"] == "hole"),
        ({"version": "3", "failure": "failed"}, lambda r: not r["valid"]),
        ({"version": "3", "label.size": "4"}, lambda r: dict(r["bucket"])["size"] == "4"),
        ({"version": "3", "least": "0.5", "most": "0.8"}, lambda r: 0.5 <= r["reward"] <= 0.8),
        ({"version": "3", "task": "d1"}, lambda r: r["task_id"].startswith("d1")),
        ({"version": "3", "text": words.upper()}, lambda r: said(r, words.lower())),
    ):
        found = as_json(web, base, **query)["found"]
        expected = [row for row in rows if wanted(row)]
        assert found["n"] == len(expected) > 0, query
        assert found["valid"]["successes"] == sum(row["valid"] for row in expected)
    ordered = as_json(web, base, order="-reward")["found"]["rows"]
    assert [one["reward"] for one in ordered] == sorted(
        (one["reward"] for one in ordered), reverse=True
    )
    tokens = [one["tokens"] for one in as_json(web, base, order="tokens")["found"]["rows"]]
    assert tokens == sorted(tokens)
    assert web.get(base, params={"order": "names"}).status_code == 400
    first, second = (as_json(web, base, page=number)["found"] for number in "12")
    assert not {one["id"] for one in second["rows"]} & {one["id"] for one in first["rows"]}
    assert len(second["rows"]) == 50
    assert as_json(web, base, page="999")["filter"]["page"] == second["pages"]
    assert web.get(base, params={"version": "three"}).status_code == 400
    assert "give a whole number" in web.get(base, params={"version": "three"}).text


def test_one_rollout_with_its_film(web: TestClient) -> None:
    rows = as_json(web, "/runs/first/rollouts", source="gate", failure="failed")["found"]["rows"]
    address = f"/runs/first/rollouts/{rows[0]['id']}"
    found = as_json(web, address)
    assert found["rollout"]["task_id"] == rows[0]["task_id"]
    assert [turn["role"] for turn in found["turns"]][-1] == "assistant"
    film = web.get(f"{address}/picture").text
    assert "<animate" in film
    assert "✕" in film or "fails" in film
    assert "What solves it" in film
    elsewhere = found["rollout"]["elsewhere"]
    assert len({one["version"] for one in elsewhere}) > 1
    assert {one["task_id"] for one in elsewhere} == {rows[0]["task_id"]}
    after = as_json(web, f"/runs/first/rollouts/{found['rollout']['after']}")["rollout"]
    assert after["before"] == rows[0]["id"]
    query = {"source": "gate", "failure": "failed"}  # neighbours are those of the list
    first, second = (as_json(web, f"/runs/first/rollouts/{one['id']}", **query) for one in rows[:2])
    assert (first["rollout"]["before"], first["rollout"]["after"]) == (None, rows[1]["id"])
    assert (second["rollout"]["before"], second["rollout"]["place"]) == (rows[0]["id"], 2)
    assert web.get(f"{address[:-1]}999999").status_code == 404


def test_rollouts_as_a_table_for_other_programs(web: TestClient) -> None:
    base = "/runs/first/rollouts"
    found = web.get(base, params={"source": "gate", "version": "0", "format": "csv"})
    assert found.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(found.text)))
    assert len(rows) == as_json(web, base, source="gate", version="0")["found"]["n"]
    assert {"task_id", "valid", "reward", "size", "agents"} <= rows[0].keys()
    assert web.get("/", params={"format": "csv"}).status_code == 400
    unknown = web.get(base, params={"format": "xml"})
    assert (unknown.status_code, "take one of html, json, csv" in unknown.text) == (400, True)
    assert harmless("=1+1") == "'=1+1"
    assert harmless(-1.0) == -1.0


def test_what_fails_now_leads_to_its_rollouts(web: TestClient) -> None:
    failing = as_json(web, "/runs/first")["facts"]["failing"]
    first = failing["rows"][0]
    assert first["now"]["n"] > 0
    page = web.get("/runs/first").text
    assert "What fails now" in page
    link = f"version={failing['version']}&amp;source=dev&amp;failure={first['name']}"
    assert link in page
    rows = as_json(web, "/runs/first/rollouts", version=str(failing["version"]), source="dev",
                   failure=first["name"])["found"]["n"]  # fmt: skip
    assert rows == first["now"]["successes"]


def test_tools_and_edits_are_told_turn_by_turn() -> None:
    from coevolve.dashboard.web.transcript import turns_of
    from coevolve.domains.swe.calls import write_call

    edit = write_call("edit", path="a.py", old="x = 1\ny = 2", new="x = 1\ny = 3")
    rollout = {
        "messages": [
            {"role": "user", "content": "mend it"}, {"role": "assistant", "content": edit},
            {"role": "tool", "content": "done"}, {"role": "assistant", "content": "finished"},
        ],
        "details": {"calls": [{"tool": "edit", "ok": True}]},
    }  # fmt: skip
    turns = turns_of(rollout)
    (change,) = turns[1].edits
    assert [line.text for line in change.lines if line.kind == "added"] == ["+y = 3"]
    assert turns[2].calls == ("edit: worked",)
    assert [turn.answer for turn in turns] == [False, False, False, True]


def test_the_ledger_is_searched(web: TestClient, root: Path) -> None:
    with Ledger.open(root / "first") as ledger:
        events = ledger.events()
    found = as_json(web, "/runs/first/ledger")
    assert found["n"] == len(events)
    assert [line["number"] for line in found["lines"]] == [e.number for e in reversed(events)]
    words = as_json(web, "/runs/first/ledger", search="propose holes")
    assert words["n"] == sum(
        event.phase == "propose" and "holes" in json.dumps(event.payload) for event in events
    )
    assert words["n"] > 0
    assert as_json(web, "/runs/first/ledger", search="propose%holes")["n"] == 0
    one = as_json(web, f"/runs/first/ledger/{found['lines'][0]['number']}")
    assert one["event"]["kind"] == "done"
    assert web.get("/runs/first/ledger/99999").status_code == 404


def test_skills_and_comparisons(web: TestClient) -> None:
    (skill,) = as_json(web, "/skills")["skills"]
    assert (skill["name"], skill["factor"], skill["kept"], skill["not_kept"]) == (
        "cool_down", "recipe.temperature", 1, 1,
    )  # fmt: skip
    page = web.get("/skills").text
    assert "/runs/deep/tree/changes/1" in page
    assert "/runs/gone" not in page
    assert as_json(web, "/compare")["comparisons"] == []
    assert "no comparison" in web.get("/compare").text


def test_any_two_runs_side_by_side(web: TestClient, tmp_path: Path, root: Path) -> None:
    found = as_json(web, "/compare?run=first&run=deep/tree")
    assert [one["name"] for one in found["sides"]] == ["first", "deep/tree"]
    assert [one["name"] for one in found["curves"]["curves"]] == ["first", "deep/tree"]
    assert found["results"] == {}  # other gate tasks
    assert {"plan", "gate"} <= {one["part"] for one in found["settings"]}
    page = web.get("/compare?run=first&run=deep/tree").text
    assert "not measured on the same gate tasks" in page
    assert web.get("/compare?run=first&run=none").status_code == 404
    shutil.copytree(root / "first", tmp_path / "first")
    rounds_run(tmp_path / "worse", scripts=("random",))
    near = as_json(client(tmp_path), "/compare?run=worse&run=first")
    change = near["results"]["valid"]
    before, after = near["sides"][0]["base"], near["sides"][1]["final"]  # it kept nothing
    gained = (after["successes"] - before["successes"]) / 60
    assert (change["mean"], change["n"]) == (pytest.approx(gained), 60)
    assert change["low"] > 0
    assert len(near["curves"]["curves"][1]["steps"]) == 8  # of versions 0 and 2


def test_curves_of_any_runs_and_versions(web: TestClient) -> None:
    found = as_json(web, "/compare?run=first&run=deep/tree&run=first@0&run=deep/tree@1")
    names = ["first", "deep/tree", "first@0", "deep/tree@1"]
    assert [one["name"] for one in found["curves"]["curves"]] == names
    assert [one["version"] for one in found["curves"]["curves"]][2:] == [0, 1]
    assert [one["name"] for one in found["sides"]] == ["first", "deep/tree"]
    assert (found["settings"], found["results"]) == (None, {})
    whole, alone = (len(one["steps"]) for one in found["curves"]["curves"][::2])
    assert whole > alone > 0
    page = web.get("/compare?run=first@0&run=first@1").text
    assert "What sets two runs apart" not in page
    assert web.get("/compare?run=first&run=first@99").status_code == 404
    assert web.get("/compare?run=first&run=@1").status_code == 404
    many = "&".join(f"run=first@{number}" for number in range(7))
    assert "at most 6" in web.get(f"/compare?{many}").text
    assert web.get("/compare?run=first").status_code == 200  # the other is still to be chosen


def share(rate: Rate) -> phases.Share:
    return phases.Share(rate=rate.value, low=rate.low, high=rate.high, n=rate.n)


def test_an_open_test_split_has_the_last_word(root: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(root / "deep" / "tree", tmp_path / "tree"))
    change = Difference(mean=-0.126, low=-0.158, high=-0.093, p=1e-9, n=500)
    first, last = (
        phases.Tested(policy=name, rates={"valid": share(wilson(k, 1000))})
        for name, k in (("pocket", 717), ("p1", 591))
    )
    found = phases.Final(tasks=500, words="so", first=first, last=last, change={"valid": change})
    with Ledger.open(folder) as ledger:
        with ledger.writing():
            ledger.phase("run", "final", lambda: found.model_dump(mode="json"))
            ledger.note("done")
        summary = read(RunFolder("tree", folder), ledger)
    assert summary.at == "generation 3"
    assert summary.standing.change.mean == 0.05  # the gate's, not that of the test split
    assert summary.lines()["test, change"] == "-12.6 points [-15.8, -9.3], n 500"
    web = client(tmp_path)
    assert "on test; gate +5.0" in web.get("/").text
    facts = as_json(web, "/runs/tree")["facts"]
    assert facts["answer"] == "no"
    assert "on test tasks" in facts["sentence"]
    assert facts["test"]["change"] == change.model_dump()
    said = CliRunner().invoke(app, ["status", str(folder)]).stdout
    assert f"Did it learn? {facts['sentence']}" in " ".join(said.split())


def test_a_run_that_went_on_after_its_test_split_was_opened_is_told_by_the_gate(
    root: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(root / "deep" / "tree", tmp_path / "tree"))
    change = Difference(mean=-0.126, low=-0.158, high=-0.093, p=1e-9, n=500)
    first, last = (
        phases.Tested(policy=name, rates={"valid": share(wilson(500, 1000))})
        for name in ("pocket", "p0")
    )
    found = phases.Final(tasks=500, words="so", first=first, last=last, change={"valid": change})
    with Ledger.open(folder) as ledger, ledger.writing():
        ledger.phase("run", "final", lambda: found.model_dump(mode="json"))
    facts = as_json(client(tmp_path), "/runs/tree")["facts"]
    assert (facts["test"]["version"], facts["version"]) == (0, 1)
    assert "(the gate)" in facts["sentence"]
    assert '<th scope="col">version 0, test</th>' in client(tmp_path).get("/runs/tree").text


def test_what_fails_most_opens_its_rollouts_from_the_top_of_the_page(
    web: TestClient, root: Path
) -> None:
    page = unescape(web.get("/runs/first").text)
    where = "/runs/first/rollouts?version=2&source=dev&failure=conflict"
    assert f'href="{where}">Look at these rollouts' in page
    found = as_json(web, where)["found"]
    assert found["n"] == facts_of(root / "first").failing.rows[0].now.successes
    tree = web.get("/runs/deep/tree/changes/3").text
    assert "Its 1 number<" in tree


def test_numbers_of_the_test_split_open_its_rollouts_once_it_is_open(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Saying())
    run_loop(run)
    final(run.ledger, run.gauge, 12)
    run.ledger.close()
    web = client(tmp_path)
    overview = unescape(web.get("/runs/run").text)
    for version, rate in ((-1, "before"), (2, "after")):
        asked = {"version": str(version), "source": "test"}
        assert f'href="/runs/run/rollouts?version={version}&source=test"' in overview
        found = as_json(web, "/runs/run/rollouts", **asked)["found"]
        metrics = as_json(web, "/runs/run")["facts"]["test"]["metrics"]
        assert found["n"] == metrics[0][rate]["n"] == 12
        assert found["valid"]["successes"] == metrics[0][rate]["successes"]
        drawn = web.get(f"/runs/run/rollouts/{found['rows'][0]['id']}/picture").text
        assert "<svg" in drawn


def test_an_empty_folder_says_how_to_begin(tmp_path: Path) -> None:
    page = client(tmp_path).get("/")
    assert page.status_code == 200
    assert "coevolve run" in page.text


def test_a_change_on_the_disk_is_seen(tmp_path: Path, root: Path) -> None:
    shutil.copytree(root / "first", tmp_path / "copy")
    web, folders = client(tmp_path), Folders(tmp_path)
    before = as_json(web, "/runs/copy/ledger")["n"]
    stamp = folders.stamp(folders.runs()["copy"])
    with Ledger.open(tmp_path / "copy") as ledger:
        ledger.note("warning", words="late")
    again = Folders(tmp_path)
    assert again.stamp(again.runs()["copy"]) != stamp
    time.sleep(0.35)
    assert as_json(web, "/runs/copy/ledger")["n"] == before + 1


def test_a_change_is_told_even_if_it_came_before_the_listening() -> None:
    import asyncio

    from coevolve.dashboard.web.stream import Streams, seen_of

    states = ["new", "new", "newer", "newer"]

    async def heard(seen: str) -> list[bytes]:
        left, found = iter(states), []
        streams = Streams()
        stream = streams.follow(lambda: next(left), seen)
        try:
            for _ in range(2):
                found.append(await asyncio.wait_for(anext(stream), 10))
        finally:
            await stream.aclose()  # type: ignore[attr-defined]
        return [*found, next(left).encode()]

    hello, changed, rest = asyncio.run(heard(seen_of("old")))
    assert b"hello" in hello
    assert (changed, rest) == (b"event: changed\ndata: 1\n\n", b"new")  # at the first look
    _, changed, rest = asyncio.run(heard(seen_of("new")))
    assert (changed, rest) == (b"event: changed\ndata: 1\n\n", b"newer")  # at the third


def test_pages_that_are_not_there(web: TestClient) -> None:
    for path in ("/nothing", "/runs/none", "/runs/first/nothing", "/runs/first/changes/77",
                 "/runs/first/changes/generation-x", "/compare/none",
                 "/static/none.js"):  # fmt: skip
        answer = web.get(path)
        assert answer.status_code == 404, path
        assert "Nothing here" in answer.text


def test_words_explain_themselves(web: TestClient) -> None:
    page = web.get("/words").text
    assert all(f">{word}</dt>" in page for word in GLOSSARY)
    assert f'title="{escape(GLOSSARY["gate"])}">gate</abbr>' in web.get("/runs/first").text
    shown = ticked("a <b> `coevolve final`, ")
    assert shown == "a &lt;b&gt; <code>coevolve final</code>, "
    assert ticked("one ` only") == "one ` only"
