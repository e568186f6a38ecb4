"""OpenEnv with the real library and real processes: served domains, servers as domains, checks."""

import json
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("openenv", reason="needs the extra `openenv`")

from guessing import GuessingDomain
from processes import coevolve

from coevolve.core.errors import DomainError, UserError
from coevolve.core.rollout import StopReason
from coevolve.core.splits import Split, split_of
from coevolve.domains.check import conformance
from coevolve.domains.openenv import semantics
from coevolve.domains.openenv.connection import Lines, Play, Refused
from coevolve.domains.openenv.declaration import TOKEN, Resources
from coevolve.domains.openenv.domain import ServedDomain
from coevolve.domains.openenv.trials import Solution, solutions, started
from coevolve.domains.registry import get_domain, members
from coevolve.engineers.registry import ENGINEERS
from coevolve.engines.base import Result, Stage
from coevolve.evaluation.attempts import ask
from coevolve.harness.plan import make_plan
from coevolve.loop.loop import run_loop
from coevolve.loop.run import Run
from coevolve.loop.train import one_by_one
from coevolve.policies.base import Sampling
from coevolve.policies.script import ScriptedPolicy
from coevolve.store.gauge import Gauge
from coevolve.store.ledger import Ledger

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module", autouse=True)
def token() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TOKEN, "a secret of this test")
        yield


@pytest.fixture(scope="module")
def addresses(token: None) -> Iterator[dict[str, str]]:
    command = [sys.executable, str(TESTS / "servers.py")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.kill()


@pytest.fixture(scope="module")
def guessing(token: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command serves a domain that another package brings."""
    place = tmp_path_factory.mktemp("installed")
    folder = place / "guessing-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: guessing\nVersion: 0\n")
    (folder / "entry_points.txt").write_text(
        "[coevolve.domains]\nguessing = guessing:GuessingDomain\n"
    )
    path = os.pathsep.join([str(place), str(TESTS), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        with started("guessing") as address:
            yield address


@pytest.fixture
def opened() -> Iterator[Callable[[str], ServedDomain]]:
    """Makes domains of servers, and ends their sessions."""
    with ExitStack() as stack:

        def open_one(address: str) -> ServedDomain:
            domain = get_domain(f"openenv:{address}")
            stack.callback(domain.close)
            return domain

        yield open_one


@pytest.fixture
def served(guessing: str, opened) -> ServedDomain:
    return opened(guessing)


KILLED = """
import os, signal, time
from coevolve.domains.openenv.trials import started
with started("lake") as address:
    print(address, flush=True)
    time.sleep(1)  # it has said all it has to say, and would go on
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_server_ends_with_whoever_started_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, check=False
    )
    port = int(done.stdout.strip().rpartition(":")[2])
    for _ in range(100):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.1)
    pytest.fail(f"the server still listens at {port}")


def test_openenv_itself_accepts_the_server(guessing: str) -> None:
    from openenv.cli._validation import validate_running_environment
    from openenv.core.generic_client import GenericEnvClient

    report = validate_running_environment(guessing)
    assert report["passed"], report["summary"]
    with GenericEnvClient(base_url=guessing).sync() as client:
        first = client.reset(seed=3, episode_id="mine", split="dev", knobs={"high": 60})
        assert first.observation["split"] == "dev"
        assert first.observation["messages"][-1]["content"].startswith("Guess the number from 1")
        step = client.step({"message": "<answer>0</answer>"})
        assert (step.done, step.reward) == (False, 0.0)
        assert "higher than 0" in step.observation["message"]
        assert (client.state()["episode_id"], client.state()["step_count"]) == ("mine", 1)
        last = client.step({"message": "I give up", "final": True})
        assert (last.done, last.reward) == (True, 0.0)
        assert last.observation["outcome"]["failure"] == "format"
        with pytest.raises(RuntimeError, match="reset first"):
            client.step({"message": "?"})
        with pytest.raises(RuntimeError, match="did you mean 'high'"):
            client.reset(seed=3, knobs={"hihg": 3})
        with pytest.raises(RuntimeError, match="split"):
            client.reset(seed=3, split="exam")


def test_a_served_domain_of_several_turns_passes_the_conformance_suite(served) -> None:
    assert [finding for finding in conformance(served) if not finding.passed] == []
    assert served.turns == GuessingDomain.turns


def test_tasks_splits_and_verdicts_are_those_of_the_domain(served) -> None:
    local = GuessingDomain()
    knobs = served.space.parse({"high": 300})
    tasks = list(served.generate(knobs, 12, 5, Split.GATE))
    for task in tasks:
        reset = task.data["reset"]
        twin = next(local.generate(local.space.parse(dict(knobs)), 1, reset["seed"], Split.GATE))
        assert served.fingerprint(task) == local.fingerprint(twin)
        assert split_of(served.fingerprint(task)) is Split.GATE
        assert served.prompt(task) == local.prompt(twin)
        for text in (served.oracle(task), "<answer>1</answer>", "?"):
            outcome = served.verify(task, text)
            assert outcome.model_copy(update={"details": {}}) == local.verify(
                twin, text
            ).model_copy(update={"details": {}})
            assert outcome.details["guesses"] == 1
        assert served.limit(task) == local.limit(twin)
    clone = pickle.loads(pickle.dumps(served))
    assert list(clone.generate(knobs, 12, 5, Split.GATE)) == tasks
    clone.close()


def test_episodes_go_turn_by_turn_as_they_do_without_a_server(served) -> None:
    tasks = list(served.generate(served.space.defaults(), 6, 1, Split.DEV))
    found = ask(served, ScriptedPolicy(served, "halve"), tasks, Sampling(), "", 1)
    assert all(rollout.outcome.valid for rollout in found)
    assert max(len(rollout.messages) for rollout in found) > 6
    said = [sum(message.role == "assistant" for message in r.messages) for r in found]
    assert said == [rollout.outcome.details["guesses"] for rollout in found]

    class Stubborn:
        name = "stubborn"

        def answer(self, prompts, sampling):
            from coevolve.policies.base import Completion

            return [Completion("<answer>0</answer>") for _ in prompts]

    (cut,) = ask(served, Stubborn(), tasks[:1], Sampling(), "", 1)
    assert (cut.stop, cut.outcome.valid) == (StopReason.TURNS, False)
    assert cut.outcome.details["guesses"] == served.limit(tasks[0])


def test_an_episode_outlives_its_connection(served) -> None:
    task = next(served.generate(served.space.defaults(), 1, 3, Split.DEV))
    episode = served.begin(task)
    assert "higher" in episode.reply("<answer>0</answer>")
    served.lines.lines[-1].socket.close()
    assert episode.reply(served.oracle(task)) is None
    assert episode.outcome("").details["guesses"] == 2


def test_many_episodes_share_the_one_session_of_a_server(addresses, opened) -> None:
    """The library's servers take a single session unless told otherwise."""
    domain = opened(addresses["sums"])
    tasks = list(domain.generate(domain.space.defaults(), 5, 1, Split.DEV))
    assert {split_of(domain.fingerprint(task)) for task in tasks} == {Split.DEV}
    episodes = [domain.begin(task) for task in tasks]
    assert len(domain.lines.lines) == 1
    sums = [sum(map(int, task.data["messages"][-1]["content"].strip(".").split()[1::2]))
            for task in tasks]  # fmt: skip
    assert [e.reply(str(s)) for e, s in zip(episodes, sums, strict=True)] == ["And twice that?"] * 5
    assert [e.reply(str(2 * s)) for e, s in zip(episodes[:4], sums, strict=False)] == [None] * 4
    assert episodes[4].outcome("").failure == "unfinished"
    assert [e.outcome("").valid for e in episodes] == [True] * 4 + [False]
    outcome = domain.verify(tasks[0], "nonsense")
    assert (outcome.valid, outcome.reward, outcome.failure) == (False, 0.0, "wrong")
    with pytest.raises(DomainError, match="gives no solutions"):
        domain.oracle(tasks[0])


def test_actions_that_are_not_text_are_json(addresses, opened) -> None:
    domain = opened(addresses["pairs"])
    task = next(domain.generate(domain.space.defaults(), 1, 0, Split.TRAIN))
    rules, question = (message.content for message in domain.prompt(task))
    assert '"first"' in rules
    total = sum(map(int, question.strip(".").split()[1::2]))
    episode = domain.begin(task)
    assert episode.reply(json.dumps({"first": total, "second": 0})) == "And twice that?"
    assert episode.reply(json.dumps({"first": total, "second": total})) is None
    assert episode.outcome("").valid
    assert domain.verify(task, "7").failure == "format"
    assert domain.verify(task, '{"first": "x", "second": 1}').failure == "refused"


def test_a_server_that_does_not_keep_seeds_is_an_error(addresses, opened) -> None:
    domain = opened(addresses["sums"] + "?fault=seedless")
    task = next(domain.generate(domain.space.defaults(), 1, 0, Split.TRAIN))
    with pytest.raises(DomainError, match="another task"):
        domain.verify(task, "1")


def known(domain, count: int = 6) -> list[Solution]:
    found = []
    for seed in range(count):
        play = Play(domain.lines, {"seed": seed})
        words = play.begin().observation["text"].strip(".").split()
        play.end()
        total = int(words[1]) + int(words[3])
        actions = ({"text": str(total)}, {"text": str(2 * total)})
        found.append(Solution(reset={"seed": seed}, actions=actions))
    return found


CAUGHT = {
    "": set(),
    "gift": {"semantic.floor_gap", "semantic.canary_floor"},
    "leak": {"semantic.no_solution_leakage"},
    "seedless": {"runtime.seed_control", "runtime.episode_determinism"},
    "moody": {"runtime.episode_determinism"},
}


@pytest.mark.parametrize("fault", list(CAUGHT))
def test_each_fault_is_caught_by_its_check(addresses, opened, fault: str) -> None:
    domain = opened(addresses["sums"] + (f"?fault={fault}" if fault else ""))
    domain.lines.most = 1
    subject = semantics.Subject(domain, known(domain), None, Resources())
    results = {result.check_id: result for result in semantics.examine(subject)}
    failed = {name for name, result in results.items() if result.status == "fail"}
    assert CAUGHT[fault] <= failed, results
    if fault in ("", "gift"):
        assert failed == CAUGHT[fault], results
        assert results["runtime.episode_isolation"].status == "skip"
        assert results["semantic.verifier_portability"].status == "skip"
    if fault in ("seedless", "moody"):
        assert results["semantic.oracle_max"].status == "skip"


def test_without_a_solution_the_oracle_check_fails_as_the_standard_says(addresses, opened) -> None:
    domain = opened(addresses["sums"])
    assert solutions(domain, 4, None) == []
    subject = semantics.Subject(domain, [], None, Resources())
    results = {result.check_id: result.status for result in semantics.examine(subject)}
    assert results["semantic.oracle_max"] == "fail"
    assert results["semantic.no_solution_leakage"] == "skip"


def test_the_checks_are_those_that_openenv_leaves_open() -> None:
    from openenv.validation import load_policy
    from openenv.validation.runner import default_grader_registry

    policy = load_policy("v2")
    graders = default_grader_registry(policy)
    asked = {entry.check_id for entry in policy.entries if entry.check_id.startswith("semantic.")}
    assert asked == {name for name in semantics.CHECKS if name.startswith("semantic.")}
    assert [name for name in semantics.CHECKS if graders.get(name)] == []


def test_the_command_makes_all_checks_on_a_domain_of_several_turns(guessing: str) -> None:
    from openenv.validation.report import CheckResult

    done = coevolve("check-server", guessing, "--count", 4, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert {result["check_id"]: result["status"] for result in report["results"]} == dict.fromkeys(
        semantics.CHECKS, "pass"
    )
    for result in report["results"]:
        CheckResult.model_validate({**result, "duration_s": 0.0})


def test_evaluation_over_the_wire(guessing: str, addresses, opened) -> None:
    words = ("evaluate", "-d", f"openenv:{guessing}", "-p", "halve", "--split", "dev")
    done = coevolve(*words, "--count", 8, "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["valid"], facts["n"]) == (1.0, 8)
    math = opened(addresses["math"])
    tasks = list(math.generate(math.space.defaults(), 8, 0, Split.DEV))
    found = ask(math, ScriptedPolicy(math, "careless"), tasks, Sampling(), "", 1)
    assert {rollout.outcome.failure for rollout in found} <= {None, "wrong_value"}
    assert not hasattr(math, "begin")


@pytest.mark.parametrize("name", ["openenv:nowhere", "openenv:ftp://x"])
def test_addresses_that_are_none(name: str) -> None:
    with pytest.raises(UserError, match="address"):
        get_domain(name)


def test_mistakes_are_named(guessing: str, opened, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DomainError, match="no server answers"):
        get_domain("openenv:http://127.0.0.1:1")
    with pytest.raises(UserError, match="HOST:PORT"):
        members("openenv")
    domain = opened(guessing)
    task = next(domain.generate(domain.space.defaults(), 1, 0, Split.DEV))
    changed = {**task.data, "messages": [{"role": "user", "content": "?"}]}
    with pytest.raises(UserError, match="another prompt"):
        domain.load(changed)
    with pytest.raises(UserError, match="`reset`"):
        domain.load({"seed": 3})
    monkeypatch.setenv(TOKEN, "a guess")
    with pytest.raises(DomainError, match="403"):
        domain.oracle(task)
    monkeypatch.delenv(TOKEN)
    assert list(domain.scripts) == ["silent"]
    with pytest.raises(Refused):
        Play(Lines(domain.address), {"seed": -1, "knobs": {"high": 0}}).begin()
    done = coevolve("serve-domain", "guesing")
    assert (done.returncode, "unknown domain 'guesing'" in done.stderr) == (2, True)


class Pretended:
    """An engine whose every round ends with a policy that solves everything."""

    def train(self, stage: Stage, tasks, observe=None) -> Result:
        assert {task.split for task in tasks} == {"train"}
        return Result(policy="oracle", steps=1, rollouts=8)

    def check(self, model: str, scripts: Collection[str]) -> None:
        pass


def test_a_run_makes_a_served_domain_of_several_turns_harder(served, tmp_path: Path) -> None:
    plan = make_plan(
        {
            "domain": served.name, "policy": "silent", "versions": 2,
            "recipe": {"steps": 2, "tasks": 4}, "target": {"dev": 24, "gate": 24},
            "backtest": {"on": False},
        },
        "test",
    )  # fmt: skip
    gauge = Gauge(plan, served, lambda name: (ScriptedPolicy(served, name), ""))
    ledger = Ledger.create(tmp_path / "run", plan.model_dump(mode="json"))
    work = one_by_one(Pretended(), gauge, None)
    engineers = {"frontier": ENGINEERS["frontier"]}
    lineage = run_loop(Run(plan, ledger, gauge, lambda _: engineers, work))
    assert [one.verdict for one in lineage.versions] == ["kept", "kept"]
    high = [one.harness.knobs["high"] for one in lineage.versions]
    assert high[1] > high[0] == served.space.defaults()["high"]


RUN = """
name = "served"
domain = "openenv:{address}"
style = "cells"
versions = 2
engineers = ["frontier"]
knobs = {{ "size3.data_ratio" = 0.5, "size4.data_ratio" = 0.5, "agents2.share" = 1.0 }}
[recipe]
steps = 1
tasks = 2
group = 4
max_tokens = 64
[target]
dev = 16
gate = 24
max_tokens = 64
knobs = {{ "size3.data_ratio" = 0.5, "size4.data_ratio" = 0.5 }}
[backtest]
tasks = 6
samples = 2
"""


@pytest.mark.slow
def test_a_run_trains_on_a_served_domain(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    with started("lake") as address:
        (tmp_path / "served.toml").write_text(RUN.format(address=address))
        done = coevolve("run", tmp_path / "served.toml", "-o", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(done.stdout)
    assert [past["number"] for past in facts["versions"]] == [0, 1]
    trained = json.loads((tmp_path / "run" / "versions" / "00" / "train.json").read_text())
    assert sum(cell["n"] for cell in trained["payload"]["cells"]) == 8
    measured = json.loads((tmp_path / "run" / "versions" / "00" / "dev.json").read_text())[
        "payload"
    ]
    assert sum(cell["valid"] for cell in measured["cells"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["math", "code", "lake", "reasoning.leg_counting"])
def test_served_domains_pass_the_conformance_suite(name: str, opened) -> None:
    with started(name) as address:
        failed = [finding for finding in conformance(opened(address)) if not finding.passed]
    assert failed == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["math", "code", "lake", "reasoning.leg_counting"])
def test_served_domains_pass_the_checks_of_openenv(name: str) -> None:
    with started(name) as address:
        done = coevolve("check-server", address, "--json")
    assert done.returncode == 0, done.stdout
    assert {result["status"] for result in json.loads(done.stdout)["results"]} == {"pass"}
