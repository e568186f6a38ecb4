"""What nobody may do to the dashboard: run script in it, steer it from afar, leave its folder."""

import re
import threading
from collections.abc import Callable
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pytest
from pretended import HOSTILE, Listed, make_run, temperature
from served import hostile_folder
from web import TestClient, as_json, client

from coevolve.dashboard.web.app import make_app
from coevolve.dashboard.web.guard import host_of, is_local
from coevolve.loop.loop import run_loop
from coevolve.store.approval import ask
from coevolve.store.ledger import Ledger

Found = TypeVar("Found")
TOKEN = "a-token-of-many-characters"


class Read(HTMLParser):
    """Elements, attributes and scripts of a page as a browser reads it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in ("script", "style") and data.strip():
            self.inline.append(data)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[TestClient, str]:
    root = tmp_path_factory.mktemp("hostile")
    folder = hostile_folder(root)
    return client(root), folder.name


def addresses(web: TestClient, name: str) -> list[str]:
    run = f"/runs/{quote(name)}"
    found = ["/", "/compare", "/skills", "/?search=" + quote(HOSTILE)]
    for one in (run, "/runs/tree"):
        found += [one, *(f"{one}/{page}" for page in (
            "changes", "changes/0", "changes/1", "changes/generation-2", "rollouts", "ledger",
            "decision", "ledger/1", "diagnostics", "ledger?search=" + quote(HOSTILE),
            "rollouts?task=" + quote(HOSTILE), "rollouts?version=" + quote(HOSTILE),
            "rollouts?label." + quote(HOSTILE) + "=" + quote(HOSTILE),
            "rollouts/" + quote(HOSTILE), quote(HOSTILE),
        ))]  # fmt: skip
    found += [f"{run}/diagnostics/own?version=0", f"/{quote(HOSTILE)}", "/runs/tree/changes/4"]
    listed = web.get(f"{run}/rollouts?format=json").json()["found"]["rows"]
    found += [f"{run}/rollouts/{one['id']}" for one in listed[:2]]
    found += [f"{run}/rollouts/{one['id']}/picture" for one in listed[:2]]
    last = web.get(f"{run}/ledger?format=json").json()["lines"][0]["number"]
    return [*found, f"{run}/ledger/{last}"]


def test_nothing_that_was_written_becomes_markup(hostile: tuple[TestClient, str]) -> None:
    web, name = hostile
    seen = 0
    for address in addresses(web, name):
        answer = web.get(address)
        assert answer.status_code in (200, 400, 404), (address, answer.status_code)
        seen += "alert(" in answer.text
        page = Read(answer.text)
        for tag, given in page.found:
            assert not [key for key in given if key.startswith("on") or key == "style"], address
            assert tag not in ("img", "iframe", "object", "embed", "base", "style"), address
            for key in ("href", "src", "action", "hx-get"):
                assert re.match(r"[/?#]|$", given.get(key, "")), (address, given)
                assert not given.get(key, "").startswith("//")
            if tag == "script":
                assert given["src"].startswith("/static/")
        assert page.inline == [], address
    assert seen > 20  # it was there, as text


def test_every_answer_is_under_a_strict_policy(hostile: tuple[TestClient, str]) -> None:
    web, name = hostile
    for address in ("/", f"/runs/{quote(name)}", "/static/web.js", "/nothing", "/?format=json"):
        headers = web.get(address).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
    assert web.get("/?format=json").headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "path",
    [
        "../secret", "..%2fsecret", "%2e%2e/secret", "first/../../secret",
        "first%2f..%2f..%2fsecret",
        "/etc/passwd", "%2fetc%2fpasswd", "first/rollouts/../../../../secret/part-00000/0",
        "first/rollouts/%2e%2e/%2e%2e/secret/0", "linked", "first/ledger/../../../secret",
        "first/diagnostics/..%2f..%2fsecret", "first%00",
        "first/rollouts/versions/00/dev/part-00000/-1",
    ],
)  # fmt: skip
def test_no_address_leaves_the_folder(tmp_path: Path, path: str) -> None:
    root = tmp_path / "runs"
    for place, words in ((root / "first", "inside"), (tmp_path / "secret", "do not tell")):
        with Ledger.create(place, {"name": "x"}) as ledger:
            ledger.note("warning", words=words)
    (root / "linked").symlink_to(tmp_path / "secret", target_is_directory=True)
    web = client(root)
    for address in (f"/runs/{path}", f"/static/{path}", f"/compare/{path}"):
        answer = web.get(address)
        assert answer.status_code in (404, 400, 307), address
        assert "do not tell" not in answer.text
        assert "root:" not in answer.text


def waiting_run(folder: Path) -> int:
    """A run that waits for an answer; returns the number of its question."""
    with make_run(folder, approval=["completion"]).ledger as ledger:
        return ask(ledger, "versions/00", "completion", {"verdict": HOSTILE}).number


def form_of(web: TestClient) -> dict[str, str]:
    found = {
        given["name"]: given["value"]
        for tag, given in Read(web.get("/runs/run/decision").text).found
        if tag == "input" and given.get("type") == "hidden"
    }
    assert set(found) == {"form", "question"}
    return found


def test_only_the_page_itself_can_answer(tmp_path: Path) -> None:
    number = waiting_run(tmp_path / "run")
    web = client(tmp_path)
    stranger = TestClient(web.app, base_url="http://localhost")
    form = form_of(web)
    assert form["question"] == str(number)
    right = {**form, "decision": "approve", "note": "fine"}
    post = "/runs/run/answer"
    for data, headers, who in (
        ({**right, "form": ""}, {}, web),
        ({**right, "form": "0" * 64}, {}, web),
        (right, {"origin": "http://evil.example"}, web),
        (right, {"origin": "null"}, web),
        (right, {"sec-fetch-site": "cross-site"}, web),
        (right, {}, stranger),  # another session's form
    ):
        assert who.post(post, data=data, headers=headers).status_code == 403
    assert web.post(post, data={**right, "question": "1"}).status_code == 409
    assert web.post(post, data={**right, "decision": "delete"}).status_code == 409
    assert web.post(post, data={**right, "decision": "revise", "note": " "}).status_code == 409
    assert web.post(post, content=b"x" * 60_000).status_code == 413
    assert web.get(post).status_code == 404
    with Ledger.open(tmp_path / "run") as ledger:
        assert ledger.state() == "waiting"
    headers = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    done = web.post(post, data=right, headers=headers, follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, "/runs/run/decision")
    with Ledger.open(tmp_path / "run") as ledger:
        answer = ledger.events("answered")[-1]
        assert answer.payload == {"question": number, "decision": "approve", "note": "fine"}
    assert web.post(post, data=right).status_code == 409  # once


def until(look: Callable[[], Found]) -> Found:
    """What is seen once there is anything: pages may be a moment behind the disk."""
    for _ in range(3_000):
        if found := look():
            return found
        threading.Event().wait(0.1)
    raise AssertionError("it never came")


def asked_after(web: TestClient, number: int) -> dict[str, Any] | None:
    """What is asked on the page, if it is not the question that was answered before."""
    found: dict[str, Any] | None = as_json(web, "/runs/run/decision")["decision"]
    return found if found and found["question"]["number"] > number else None


def test_a_run_goes_on_with_what_was_decided_on_a_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripts=("prioritised", "greedy"), approval=["design"])
    thread = threading.Thread(target=run_loop, args=(run,), daemon=True)
    thread.start()
    web, answered = client(tmp_path), 0
    for decision, note in (("revise", "fewer holes"), ("approve", "")):
        asked = until(partial(asked_after, web, answered))
        answered = asked["question"]["number"]
        until(lambda: "This run waits for you" in web.get("/runs/run").text)
        (option,) = asked["options"]  # what is unusable is not decided on
        assert (option["author"], option["taken"]) == ("saying", True)
        names = [one["name"] for one in option["knobs"]]
        assert names == ["size3.hole_ratio", "size4.hole_ratio"]
        for environment in ("now", "0"):
            drawn = as_json(web, f"/runs/run/decision/tasks/{environment}")["tasks"]
            assert len(drawn) == 4
            assert all("<svg" in picture["svg"] for _, picture in drawn)
        data = {**form_of(web), "decision": decision, "note": note}
        assert web.post("/runs/run/answer", data=data, follow_redirects=False).status_code == 303
    thread.join(300)
    assert not thread.is_alive()
    assert run.ledger.state() == "done"
    until(lambda: "Nothing is asked now" in web.get("/runs/run/decision").text)
    assert "The last answer was approve" in web.get("/runs/run/decision").text
    assert as_json(web, "/runs/run/decision/tasks/now")["tasks"] == []
    assert web.get("/runs/run/decision/other").status_code == 404
    asked = [event.phase for event in run.ledger.events("phase")]
    assert "propose-1" in asked
    run.ledger.close()


def test_what_dead_groups_let_an_engineer_do_is_shown_before_it_is_approved(tmp_path: Path) -> None:
    """Knobs may move further than the plan says where training taught nothing."""
    far = {"factor": "knobs", "value": {"size3.data_ratio": 1.0, "size4.data_ratio": 0.0}}
    run = make_run(tmp_path / "run", Listed(far), ("greedy", "greedy"), approval=["design"])
    assert run.plan.reach < 0.5
    thread = threading.Thread(target=run_loop, args=(run,), daemon=True)
    thread.start()
    web = client(tmp_path)
    (option,) = until(partial(asked_after, web, 0))["options"]
    moved = {one["name"]: one["after"] for one in option["knobs"]}
    assert moved["size3.data_ratio"] > 0.5 + run.plan.reach
    web.post("/runs/run/answer", data={**form_of(web), "decision": "abort", "note": ""})
    thread.join(300)
    assert not thread.is_alive()
    run.ledger.close()


def test_what_is_passed_over_says_so_beside_what_is_trained(tmp_path: Path) -> None:
    patches = (temperature(0.9), temperature(0.8))
    changes = {"approval": ["backtest"], "factors": ["recipe.temperature"]}
    run = make_run(tmp_path / "run", Listed(*patches), ("prioritised", "greedy"), **changes)
    thread = threading.Thread(target=run_loop, args=(run,), daemon=True)
    thread.start()
    web = client(tmp_path)
    first, second = until(partial(asked_after, web, 0))["options"]
    assert (first["taken"], second["taken"]) == (True, False)
    (trial, other) = as_json(web, "/runs/run")["facts"]["answers"]["helped"]["trials"]
    assert (trial["verdict"], trial["why"], other["verdict"]) == ("undecided", "", "passed over")
    for page in ("", "/changes", "/changes/generation-1"):
        assert "sent it back" not in web.get(f"/runs/run{page}").text
    text = web.get("/runs/run/decision").text
    assert text.count("not trained</span>: not needed: others came first") == 1
    web.post("/runs/run/answer", data={**form_of(web), "decision": "abort", "note": ""})
    thread.join(300)
    assert not thread.is_alive()
    run.ledger.close()


def test_cookies_are_of_this_site_alone(tmp_path: Path) -> None:
    web = client(tmp_path)
    cookie = web.get("/").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "set-cookie" not in web.get("/").headers
    forged = TestClient(web.app, base_url="http://localhost", cookies={"coevolve": "forged.0000"})
    assert "set-cookie" in forged.get("/").headers


def test_other_names_are_refused_on_this_machine(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    for name in ("evil.example", "evil.example:8642", "localhost.evil.example", ""):
        answer = TestClient(app, base_url="http://localhost").get("/", headers={"host": name})  # type: ignore[arg-type]
        assert answer.status_code == 421, name
    for name in ("localhost:8642", "127.0.0.1:8642", "[::1]:8642"):
        answer = TestClient(app, base_url="http://localhost").get("/", headers={"host": name})  # type: ignore[arg-type]
        assert answer.status_code == 200, name


def test_elsewhere_a_token_is_needed(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "run", {"name": "x"}):
        pass
    app = make_app(tmp_path, TOKEN)
    web = TestClient(app, base_url="http://10.0.0.7:8642", follow_redirects=False)  # type: ignore[arg-type]
    for address in ("/", "/runs/run", "/runs/run/live", "/?token=wrong", "/static/web.js"):
        refused = web.get(address)
        assert refused.status_code == 401
        assert "run" not in refused.text.replace("coevolve serve", "")
    assert web.post("/runs/run/answer", data={}).status_code == 401
    assert web.get("/", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert web.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    web.cookies.clear()
    moved = web.get(f"//evil.example/?token={TOKEN}&search=x")
    assert moved.status_code == 303
    assert re.fullmatch(r"/[^/].*|/", moved.headers["location"])
    assert TOKEN not in moved.headers["location"]
    assert web.get("/").status_code == 200  # by its cookie


def test_names_of_hosts() -> None:
    assert host_of("localhost:1") == "localhost"
    assert host_of("[::1]:1") == "[::1]"
    assert host_of("[::1]") == "[::1]"
    assert [is_local(name) for name in ("localhost", "127.0.0.9", "::1", "0.0.0.0", "a.b")] == [
        True, True, True, False, False,
    ]  # fmt: skip
