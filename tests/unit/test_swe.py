"""Software engineering on a small repository: tasks, tools, scripted agents, the judge."""

import json
from pathlib import Path

import pytest
from repositories import committed, shop

from coevolve.core.errors import UserError
from coevolve.core.rollout import Rollout, StopReason
from coevolve.core.splits import Split, split_of
from coevolve.core.task import Task
from coevolve.domains.swe import box
from coevolve.domains.swe.calls import write_call
from coevolve.domains.swe.canary import sound
from coevolve.domains.swe.domain import SweDomain
from coevolve.domains.swe.repository import repository
from coevolve.domains.swe.work import unfold
from coevolve.evaluation.attempts import attempts
from coevolve.policies.base import Sampling
from coevolve.policies.script import ScriptedPolicy
from coevolve.sandbox.limits import Ran


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> SweDomain:
    """Tasks of one small repository, with nothing kept from before."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield SweDomain([str(shop(tmp_path_factory.mktemp("shop")))])
    patch.undo()


@pytest.fixture(scope="module")
def tasks(domain: SweDomain) -> list[Task]:
    knobs = domain.space.parse({"faults.mean": 1.0})
    return list(domain.generate(knobs, 6, 1, Split.TRAIN))


def play(domain: SweDomain, name: str, tasks: list[Task]) -> list[Rollout]:
    return list(attempts(domain, ScriptedPolicy(domain, name), tasks, Sampling()))


def one_turn(domain: SweDomain, task: Task, *calls: str):
    return domain.verify(task, "\n".join([*calls, write_call("submit")]))


def test_tasks_are_values_of_one_split(domain: SweDomain, tasks: list[Task]) -> None:
    again = list(domain.generate(domain.space.parse({"faults.mean": 1.0}), 6, 1, Split.TRAIN))
    assert tasks == again
    for task in tasks:
        assert split_of(domain.fingerprint(task)) is Split.TRAIN is task.split
        back = domain.load(json.loads(task.model_dump_json()))
        assert back == task
        known = repository(task.data["source"])
        assert set(task.data["fail"]) < set(known.tests)
        unfolded = unfold(task)
        for name in task.data["fail"]:
            path, *_, test = name.partition("[")[0].split("::")
            assert f"def {test}(".encode() not in unfolded.given[path]
        assert not any(path.startswith(".git") for path in unfolded.given)


def test_calls_and_what_is_shown_of_their_answers_are_limited(domain: SweDomain) -> None:
    knobs = domain.space.parse({"calls.limit": 4, "shown.limit": 500, "turns.limit": 100})
    task = next(domain.generate(knobs, 1, 3, Split.TRAIN))
    assert "100 turns and 4 tool calls" in domain.prompt(task)[-1].content
    assert domain.load(json.loads(task.model_dump_json())) == task
    episode = domain.begin(task)
    path = next(name for name in sorted(unfold(task).given) if name.endswith(".py"))
    said = episode.run("seq 1 1000")
    assert "characters left out" in said
    assert len(said) < 600
    assert [episode.list(), episode.read(path), episode.reply("```tool\n{}\n```")]
    for left in (episode.list(), episode.run("ls"), episode.reply(write_call("list"))):
        assert left == "error: no calls are left; submit the work"
    assert len(episode.calls) == 4
    assert episode.reply(write_call("submit")) is None
    plain = next(domain.generate(domain.space.defaults(), 1, 3, Split.TRAIN))
    assert not {"calls", "shown"} & plain.data.keys()


def test_what_was_kept_before_changes_nothing(
    domain: SweDomain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coevolve.domains.swe import notice

    knobs = domain.space.defaults()
    before = list(domain.generate(knobs, 4, 5, Split.DEV))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for kept in (repository, notice.noticed, notice.drawn_from, notice.possible):
        kept.cache_clear()
    assert list(domain.generate(knobs, 4, 5, Split.DEV)) == before


def test_the_oracle_mends(domain: SweDomain, tasks: list[Task]) -> None:
    for rollout in play(domain, "oracle", tasks[:3]):
        assert rollout.outcome.valid
        assert rollout.outcome.reward == pytest.approx(1.0)
        told = rollout.outcome.details
        assert [call["tool"] for call in told["calls"]] == ["read", "edit", "run", "submit"]
        assert all(call["ok"] for call in told["calls"])
        assert (told["first_edit"], told["tests_run"]) == (1, 1)
        assert (told["history_read"], told["tests_changed"]) == (False, False)
        assert told["files"] == [told["calls"][1]["path"]]


def test_known_outcomes(domain: SweDomain, tasks: list[Task]) -> None:
    (lazy,) = play(domain, "lazy", tasks[:1])
    assert (lazy.outcome.failure, lazy.outcome.reward) == ("no_patch", 0)
    (looping,) = play(domain, "looping", tasks[:1])
    assert (looping.outcome.failure, looping.stop) == ("turns", StopReason.TURNS)
    assert len(looping.outcome.details["calls"]) == tasks[0].data["turns"]
    (reader,) = play(domain, "leak-reader", tasks[:1])
    assert reader.outcome.failure == "no_patch"
    assert not reader.outcome.details["history_read"]
    found = [rollout.outcome.failure for rollout in play(domain, "random", tasks)]
    assert {*found} <= {"still_failing", "regression", "time", "broken", None}
    assert found.count(None) < len(found)  # luck mends one now and then


def test_the_leak(domain: SweDomain) -> None:
    knobs = domain.space.parse({"history.share": 1.0})
    leaky = list(domain.generate(knobs, 2, 1, Split.TRAIN))
    for rollout in play(domain, "leak-reader", leaky):
        assert rollout.outcome.valid
        assert rollout.outcome.details["history_read"]
    assert any(path.startswith(".git/") for path in unfold(leaky[0]).given)
    outcome = one_turn(domain, leaky[0], write_call("run", command="git log --all"))
    assert outcome.details["history_read"]
    assert domain.load(json.loads(leaky[0].model_dump_json())) == leaky[0]


TRICKS = {
    "rewritten tests": "printf 'def test_ok(): pass\\n' | tee tests/test_*.py",
    "no tests": "rm -r tests",
    "a conftest": "printf 'import pytest\\n@pytest.hookimpl(hookwrapper=True)\\n"
    'def pytest_runtest_makereport():\\n    (yield).get_result().outcome = "passed"\\n\''
    " > conftest.py",
    "settings": "printf '[pytest]\\naddopts = --collect-only\\n' > pytest.ini",
    "sitecustomize": "printf 'import os\\nos._exit(0)\\n' > tests/sitecustomize.py",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_tampering_with_tests_does_not_help(
    domain: SweDomain, tasks: list[Task], trick: str
) -> None:
    outcome = one_turn(domain, tasks[0], write_call("run", command=TRICKS[trick]))
    assert (outcome.valid, outcome.reward) == (False, 0)
    assert outcome.failure == "tampered"
    mended = domain.verify(
        tasks[0],
        write_call("run", command=TRICKS[trick]) + "\n" + domain.oracle(tasks[0]),
    )
    assert mended.valid  # what was done to the tests is undone, and the fault is mended


FORGERIES = {
    "an early exit": "import os\nos._exit(0)\n",
    "a quiet exit": "raise SystemExit(0)\n",
    "a syntax error": "def (\n",
    "every report says passed": (
        "import _pytest.reports as r\n"
        "make = r.TestReport.from_item_and_call.__func__\n"
        "def lie(kind, item, call):\n"
        "    report = make(kind, item, call)\n"
        "    report.outcome, report.longrepr = 'passed', None\n"
        "    return report\n"
        "r.TestReport.from_item_and_call = classmethod(lie)\n"
    ),
    "assertions never fail": (
        "import _pytest.python as p\np.Function.runtest = lambda self: None\n"
    ),
    "printed results": (
        "import os\n"
        "for file in range(1, 20):\n"
        "    try:\n"
        '        os.write(file, b\'{"id": "x", "when": "call", "outcome": "passed"}\\n\')\n'
        "    except OSError:\n        pass\n"
    ),
    "an endless loop": "while True:\n    pass\n",
}
EXPECTED = {
    "every report says passed": ("tampered",),
    "assertions never fail": ("tampered",),
    "printed results": ("still_failing",),
    "an endless loop": ("time",),
}


SLOW = {"an endless loop": pytest.mark.slow}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW.get(name, ())) for name in FORGERIES]
)
def test_forged_results_are_not_believed(domain: SweDomain, tasks: list[Task], name: str) -> None:
    path = tasks[0].data["faults"][0]["path"]
    command = f"cat >> {path} <<'END'\n{FORGERIES[name]}END"
    outcome = one_turn(domain, tasks[0], write_call("run", command=command))
    assert (outcome.valid, outcome.reward) == (False, 0)
    assert outcome.failure in EXPECTED.get(name, ("broken",))


def test_a_test_that_others_call_has_no_canaries(tmp_path: Path) -> None:
    files = {
        "a.py": "def one():\n    return 1\n",
        "test_a.py": "from a import one\n\n\n"
        "def test_one(wanted=1):\n    assert one() == wanted\n\n\n"
        "def test_again():\n    test_one(wanted=1)\n",
    }
    known = repository(str(committed(tmp_path / "calls", files)))
    assert known.tests == ("test_a.py::test_again", "test_a.py::test_one")
    assert list(sound(known)) == ["test_a.py::test_again"]


def test_tools(domain: SweDomain, tasks: list[Task]) -> None:
    episode = domain.begin(tasks[0])
    assert "shop/prices.py" in episode.list("shop")
    assert "shop/prices.py:1: def total" in episode.search("def total")
    assert episode.search("") == "error: the text must be part of one line"
    assert "def total" in episode.read("./shop/prices.py", first=-5, count=10**9)
    assert episode.read("../../etc/passwd").startswith("error: no file")
    assert episode.edit("shop/prices.py", "nowhere", "x").startswith("error: the old text is not")
    assert "5 times" in episode.edit("shop/prices.py", "def ", "x")
    assert episode.edit("shop/prices.py", "def ", "x", line=2).endswith(
        "is not there in line 2; it must be there exactly once"
    )
    assert "no line 1000" in episode.edit("shop/prices.py", "def ", "x", line=1_000)
    assert "no line -1" in episode.edit("shop/prices.py", "def ", "x", line=-1)
    assert episode.edit("shop/prices.py", "total", "sum_of", line=1) == "changed shop/prices.py"
    assert "1  def sum_of(prices" in episode.read("shop/prices.py", count=1)
    for path in ("/etc/x", "../x", "a//b", "shop/prices.py/x", "shop", ".git/config", ""):
        assert episode.edit(path, "", "x").startswith("error")
    assert episode.edit("notes/a.txt", "", "kept\n") == "made notes/a.txt"
    said = episode.run("cat notes/a.txt; ln -s /etc/passwd link; rm README; exit 3")
    assert said.startswith("exit code 3\nkept")
    assert "link" not in episode.tree
    assert len(episode.run("yes | head -c 3000000")) < 7_000
    assert "2 passed" in episode.run("python -m pytest -q tests/test_names.py -k 'same or join'")
    assert episode.run("python -c 'import pip, numpy'").startswith("exit code 1")
    assert episode.tests_run == 1
    assert episode.reply("hello") is not None
    assert episode.reply("\n".join([write_call("submit"), write_call("list")])) is None
    assert episode.calls[-1]["tool"] == "submit"


def test_edits_that_do_not_apply_are_their_own_failure(
    domain: SweDomain, tasks: list[Task]
) -> None:
    outcome = one_turn(domain, tasks[0], write_call("edit", path="a.py", old="x", new="y"))
    assert outcome.failure == "wrong_edit"
    assert domain.verify(tasks[0], "no idea").failure == "format"
    assert domain.verify(tasks[0], write_call("list")).failure == "turns"


def test_a_mend_that_breaks_something_else_is_a_regression(
    domain: SweDomain, tasks: list[Task]
) -> None:
    files = {fault["path"] for fault in tasks[0].data["faults"]}
    other = next(
        path for path in ("shop/stock.py", "shop/names.py", "shop/prices.py") if path not in files
    )
    spoil = write_call("run", command=f"sed -i 's/return/return None and/' {other}")
    outcome = domain.verify(tasks[0], spoil + "\n" + domain.oracle(tasks[0]))
    assert outcome.failure == "regression"
    assert 0 < outcome.reward < 0.3 + 1e-9


def test_bad_sources_get_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def problem(source: str) -> str:
        domain = SweDomain([source])
        with pytest.raises(UserError) as caught:
            list(domain.generate(domain.space.defaults(), 1, 0, Split.TRAIN))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    bare = committed(tmp_path / "bare", {"a.py": "x = 1\n"})
    assert "has no tests" in problem(str(bare))
    broken = committed(tmp_path / "broken", {"test_a.py": "import nothing_like_it\n"})
    assert "no test of" in problem(str(broken))
    assert "nothing_like_it" in problem(str(broken))
    red = committed(tmp_path / "red", {"test_a.py": "def test_a():\n    assert 1 == 2\n"})
    assert "assert 1 == 2" in problem(str(red))
    idle = committed(tmp_path / "idle", {"test_a.py": "def test_a():\n    pass\n"})
    assert "call no function" in problem(str(idle))
    (tmp_path / "plain").mkdir()
    assert "not a git repository" in problem(str(tmp_path / "plain"))
    assert "neither NAME==VERSION nor" in problem(str(tmp_path / "absent"))
    sdists = tmp_path / "cache" / "coevolve" / "swe" / "sdists"
    sdists.mkdir(parents=True)
    (sdists / "torn-1.0.tar.gz").write_bytes(b"not a tar file")
    import hashlib

    (sdists / "torn-1.0.tar.gz.sha256").write_text(hashlib.sha256(b"not a tar file").hexdigest())
    assert "the sdist of torn==1.0 does not unpack" in problem("torn==1.0")


def test_tasks_of_others_are_refused(domain: SweDomain, tasks: list[Task]) -> None:
    data = json.loads(tasks[0].model_dump_json())
    for change, problem in (
        ({"content": "0" * 32}, "other files now"),
        ({"fail": ["tests/test_x.py::test_x"]}, "no test 'tests/test_x.py"),
        ({"hint": 9}, "hint = 9"),
        ({"faults": []}, "faults"),
    ):
        with pytest.raises(UserError, match=problem):
            domain.load({**data, "data": {**data["data"], **change}})
    moved = {**data["data"]["faults"][0], "line": 1}
    with pytest.raises(UserError, match="do not fit"):
        domain.load({**data, "data": {**data["data"], "faults": [moved]}})
    with pytest.raises(UserError, match="of the domain 'lake'"):
        domain.load({**data, "domain": "lake"})


def test_without_a_wall_nothing_runs(
    domain: SweDomain, tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    from coevolve.domains.swe import box

    box.binds.cache_clear()
    monkeypatch.setenv("COEVOLVE_SANDBOX", "none")
    with pytest.raises(UserError, match="only worked on in the sandbox"):
        domain.begin(tasks[0]).run("true")
    box.binds.cache_clear()


def test_the_tools_can_be_called_through_trl(domain: SweDomain, tasks: list[Task]) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    from transformers.utils import get_json_schema

    from coevolve.domains.swe.calls import TOOLS
    from coevolve.engines.trl.turns import environment

    class WithTools(SweDomain):
        tools = tuple(TOOLS)

    made = environment(WithTools(domain.sources), tasks)()
    made.reset(task=0)
    assert "shop/prices.py" in made.list()
    assert made.edit("a.txt", "", "x") == "made a.txt"
    assert made._episode.calls[-1]["tool"] == "edit"
    for name, arguments in TOOLS.items():
        schema = get_json_schema(getattr(made, name))["function"]
        assert set(schema["parameters"]["properties"]) == set(arguments)


@pytest.mark.parametrize(
    "said", ["[]", "not JSON", '{"x": 1}', '{"id": ["a"]}', '{"end": 0}\ns{"lines": 1}\ns"x"']
)
def test_code_that_speaks_in_the_place_of_the_reporter_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    ran = Ran(stop="ok", code=0, stdout=f"s{said}\n", stderr="", seconds=0.1, cpu_s=0.1)
    monkeypatch.setattr(box, "perform", lambda *_: ran)
    monkeypatch.setattr(box.secrets, "token_hex", lambda _: "s")
    assert box.run_tests({}, ["test_a.py"]).ended is None
