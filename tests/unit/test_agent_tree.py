"""Trees with a model with tools in the engineer's seat, behind an address."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from answering import chat, serving
from pretended import SMALL, TREE, Listed, make_run, temperature

from coevolve.engineers.agent import AgentEngineer
from coevolve.engineers.calls import Tool
from coevolve.engineers.library import SkillLibrary
from coevolve.harness.rules import AgentRule
from coevolve.loop.loop import run_loop
from coevolve.loop.run import Run
from coevolve.policies.endpoint import EndpointPolicy

DRAWN = {"dev": 24, "gate": 60, "temperature": 1.0, "knobs": SMALL}
IDS = "SELECT id FROM rollouts WHERE source = 'dev' ORDER BY id"


def patch(factor: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"factor": factor, "value": value, "hypothesis": "If so, then better.", **more}


WARMER = {
    "name": "drawn_colder", "summary": "Draw colder", "trigger": "valid_rate >= 0",
    "factor": "recipe.temperature", "template": {"kind": "scale", "by": 0.9, "low": 0.5},
    "hypothesis": "If it is colder, then better.",
}  # fmt: skip
LOOKS = [
    {"thought": "What is there?", "tool": "schema"},
    {"tool": "schema", "name": "rollouts"},
    {"tool": "query", "sql": "SELECT version, avg(reward) FROM rollouts GROUP BY version"},
    {"tool": "rollouts", "sql": IDS},
    {"tool": "lineage"},
    {"tool": "compare", "version": 0, "other": 0},
    {"tool": "diagnostics", "name": "valid_rate"},
    {"tool": "diagnostic", "diagnostic": {
        "name": "long_answers", "question": "Are answers long?",
        "sql": "SELECT version, avg(completion_tokens) AS value, count(*) AS n FROM rollouts "
               "GROUP BY version"}},
    {"tool": "skills"},
    {"tool": "skill", "skill": WARMER},
    {"tool": "backtest", "patch": patch("reward", "valid + 0.2 * optimal")},
    {"tool": "note", "text": "temperature first"},
]  # fmt: skip
ENDS = [
    [temperature(0.9, hypothesis="If it is colder, then better.", skill="drawn_colder"),
     patch("recipe.kl", 0.05)],
    *([patch("recipe.kl", round(0.1 * n, 1), parent=1)] for n in (1, 2, 3, 4, 5, 6, 7, 8)),
]  # fmt: skip


class Expert:
    """A server that looks at everything once and then makes its proposals, one after another; in
    calls of functions, unless it knows none."""

    def __init__(self, native: bool = True) -> None:
        self.native, self.proposed, self.measured = native, 0, False
        self.heard: list[list[dict[str, Any]]] = []

    def __call__(self, number: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        if "tools" in body and not self.native:
            return 400, {}, {"error": "unknown field tools"}
        self.heard.append(body["messages"])
        turn = sum(one["role"] == "assistant" for one in body["messages"])
        call = self.next(turn)
        if not self.native:
            return 200, {}, chat(json.dumps(call))
        said, name = call.pop("thought", None), call.pop("tool")
        function = {"name": name, "arguments": json.dumps(call)}
        message = {
            "role": "assistant", "content": said,
            "tool_calls": [{"id": "x", "type": "function", "function": function}],
        }  # fmt: skip
        return 200, {}, chat(message=message, reason="tool_calls")

    def next(self, turn: int) -> dict[str, Any]:
        if not self.proposed and turn < len(LOOKS):
            return dict(LOOKS[turn])
        if self.proposed == 5 and not self.measured:
            self.measured = True
            return {"tool": "measure", "version": 1, "text": "it may have been lucky"}
        if self.proposed == len(ENDS):
            return {"tool": "stop", "text": "that was all"}
        self.proposed += 1
        return {"tool": "propose", "patches": ENDS[self.proposed - 1]}


def seated(
    folder: Path, url: str, others: tuple[Listed, ...] = (), patience_s: float = 60, **changes: Any
) -> Run:
    """A tree with the model behind an address in the first seat."""
    policy = EndpointPolicy(url, "expert", backoff_s=0.01, retries=1, timeout_s=patience_s)
    run = make_run(folder, None, **{**TREE, "target": DRAWN, **changes})
    agent = AgentEngineer("expert", policy, SkillLibrary(run.paths.skills), run.plan.agent)
    run.team = lambda checkpoint: {one.name: lambda one=one: one for one in (agent, *others)}  # type: ignore[misc]
    return run


def test_an_expert_that_uses_every_tool_finishes_a_tree_of_ten(tmp_path: Path) -> None:
    expert = Expert()
    with serving(expert) as server:
        run = seated(tmp_path / "run", server.url, versions=10)
        lineage = run_loop(run)
    assert run.ledger.state() == "done"
    assert lineage.counted == 10
    assert lineage.best
    assert lineage.best.version == 1
    said = lineage.proposals
    used = {call["tool"] for one in said for call in one.calls}
    assert used == set(get_args(Tool)) - {"stop"}
    assert not [one.failure for one in said if one.failure]
    answers = {call["tool"]: call["answer"] for one in said for call in one.calls}
    assert not [text for text in answers.values() if text.startswith(("error", "refused"))]
    assert "assistant:" in answers["rollouts"]
    assert '"passed"' in answers["backtest"]
    checks = [one.check for one in lineage.generations if one.check]
    assert [one.version for one in checks if one] == [1]
    assert {one.parent for one in lineage.versions[2:]} == {1}
    # What it noted is told again, with what became of its proposals.
    second = "\n".join(str(one["content"]) for one in expert.heard[len(LOOKS) + 1])
    assert "you noted: temperature first" in second
    assert "you proposed recipe.temperature: version 1, kept" in second
    assert "The untrained policy reaches about" in second
    assert SkillLibrary(run.paths.skills).skills["drawn_colder"].held() == 1
    roles = [one["role"] for one in expert.heard[2]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert expert.heard[1][2]["content"] == "What is there?"


def test_where_an_address_knows_no_functions_calls_are_json(tmp_path: Path) -> None:
    expert = Expert(native=False)
    with serving(expert) as server:
        lineage = run_loop(seated(tmp_path / "run", server.url, versions=2))
    assert [one.verdict for one in lineage.versions] == ["root", "kept"]
    (said, _) = lineage.proposals
    assert len(said.calls) == len(LOOKS) + 1
    assert {one["role"] for one in expert.heard[-1]} == {"system", "user", "assistant"}


FAULTS: dict[str, tuple[int, dict[str, str], Any]] = {
    "error 500": (500, {}, {"error": "down"}),
    "slow": (200, {"x-trickle": "2"}, chat("x" * 200)),
    "wrong schema": (200, {}, chat('{"tool": "obey", "patch": 3}')),
    "endless": (200, {}, chat("and so on " * 9_000, reason="length")),
    "refusing": (200, {}, chat(None, message={"role": "assistant", "refusal": "I cannot."})),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_fails_leaves_the_tree_to_others(tmp_path: Path, fault: str) -> None:
    others = Listed(temperature(0.9), patch("recipe.kl", 0.1), patch("recipe.kl", 0.2))
    with serving(lambda number, body: FAULTS[fault]) as server:
        patience_s = 0.5 if fault == "slow" else 60
        run = seated(tmp_path / "run", server.url, (others,), patience_s, learn=False)
        lineage = run_loop(run)
    assert run.ledger.state() == "done"
    assert [one.author for one in lineage.versions] == ["start", *["listed"] * 3]
    failed = [one for one in lineage.proposals if one.failure]
    assert len(failed) == 3
    assert all(one.again for one in failed)


def test_a_tree_whose_only_engineer_is_out_waits_and_asks_again(tmp_path: Path) -> None:
    with serving(lambda number, body: FAULTS["error 500"]) as server:
        run = seated(tmp_path / "run", server.url, versions=3, learn=False)
        lineage = run_loop(run)
    assert run.ledger.state() == "stopped"
    assert "resume" in run.ledger.last().payload["reason"]
    assert lineage.failures == 3, "three generations were tried"
    assert len(lineage.versions) == 1
    with serving(Expert()) as server:
        policy = EndpointPolicy(server.url, "expert")
        rule = AgentRule(calls=20)
        agent = AgentEngineer("expert", policy, SkillLibrary(run.paths.skills), rule)
        again = Run(
            run.plan, run.ledger, run.gauge, lambda checkpoint: {"expert": lambda: agent}, run.work
        )
        lineage = run_loop(again)
    assert again.ledger.state() == "done"
    assert len(lineage.versions) == 3


def test_a_model_can_end_a_tree_with_a_reason(tmp_path: Path) -> None:
    expert = Expert()
    expert.proposed = len(ENDS)
    with serving(expert) as server:
        run = seated(tmp_path / "run", server.url)
        run_loop(run)
    assert run.ledger.state() == "stopped"
    assert run.ledger.last().payload["reason"] == "expert: that was all"
