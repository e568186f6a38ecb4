"""The gallery: faults are caught, gains are kept, and a fault that slips through is told."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("duckdb", reason="diagnostics need the extra `train`")

from synthetic import judged
from typer.testing import CliRunner

from coevolve.cli.main import app
from coevolve.core.splits import Split
from coevolve.diagnostics.health import Diagnosis, Health
from coevolve.domains.math.domain import MathDomain
from coevolve.evaluation.difference import Difference
from coevolve.gallery import run as gallery_run
from coevolve.gallery.engine import advantages, moved
from coevolve.gallery.math import scripts
from coevolve.gallery.mixture import Mixture, MixturePolicy
from coevolve.gallery.run import check_of, exhibit
from coevolve.gallery.scenario import Scenario
from coevolve.harness.diagnostic import Alarm
from coevolve.policies.base import Sampling

FAST = {
    "dead_groups": "backtest",
    "over_filtered": "backtest",
    "bonus_for_all": "backtest",
    "fresh_bank": "",
    "key_in_prompt": "the clean room",
    "forgetting": "protected bucket",
}
"""Scenarios of seconds, and what decides them."""
SLOW = {
    "history_leak": "diagnostic history_read",
    "test_tampering": "diagnostic tests_changed",
    "brevity_reward": "backtest",
    "debugging_reward": "backtest",
    "echo_trap": "diagnostic hacked_reward, echo",
    "contamination": "diagnostic contamination",
    "exploration": "",
    "clear_issues": "",
    "learning_rate": "",
    "answers_anywhere": "the clean room",
    "examples_as_tests": "the clean room",
    "verbose_reward": "backtest",
    "luck": "gate: not beyond chance",
    "easier_problems": "",
    "faster_learning": "",
    "no_filter": "",
    "smaller_boards": "",
}
CHEATS = (
    "history_leak", "test_tampering", "contamination", "key_in_prompt", "answers_anywhere",
    "examples_as_tests",
)  # fmt: skip
"""Ways to a score without the skill."""


def test_all_scenarios_are_tested_and_the_asked_for_faults_are_there() -> None:
    assert gallery_run.SCENARIOS.keys() == FAST.keys() | SLOW.keys()
    assert sum(one.fault for one in gallery_run.SCENARIOS.values()) >= 15
    assert sum(not one.fault for one in gallery_run.SCENARIOS.values()) >= 8


def check(name: str, folder: Path) -> None:
    row = exhibit(gallery_run.SCENARIOS[name], folder, lambda line: None)
    assert row.right, row.ours.words
    assert row.score.kept, row.score.words
    assert row.ours.by.startswith((FAST | SLOW)[name]), row.ours
    if row.trained:
        assert not row.trained.kept, row.trained.words
    again = exhibit(gallery_run.SCENARIOS[name], folder, lambda line: None)
    assert again.as_json() == row.as_json()  # read, not run again
    with Diagnosis(folder / name) as diagnosis:
        assert diagnosis.health(["valid_rate"]).findings[0].readings


@pytest.mark.parametrize("name", FAST)
def test_a_scenario(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_scenario_of_minutes(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEATS)
def test_the_clean_room_needs_no_diagnostic(name: str, tmp_path: Path) -> None:
    off = {"blocks": False}
    row = exhibit(gallery_run.SCENARIOS[name], tmp_path, lambda line: None, diagnostic=off)
    assert row.ours.by == "the clean room", row.ours


def small(name: str, **plan: object) -> Scenario:
    """A scenario with a shorter training."""
    found = gallery_run.SCENARIOS[name]
    recipe = {**found.plan["recipe"], "steps": 12, "tasks": 8, "learning_rate": 0.5}
    return found._replace(plan={**found.plan, "recipe": recipe, **plan})


def ran(scenario: Scenario, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict]:
    monkeypatch.setattr(gallery_run, "SCENARIOS", {scenario.name: scenario})
    done = CliRunner().invoke(app, ["gallery", "--output", str(folder), "--json"])
    return done.exit_code, json.loads(done.stdout)


def test_the_exit_code_follows_a_fault_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaky = small("contamination")
    code, facts = ran(leaky, tmp_path / "whole", monkeypatch)
    assert (code, facts["faults_kept"], facts["faults_kept_by_score"]) == (0, 0, 1)
    assert facts["rows"][0]["ours"]["by"] == "diagnostic contamination"
    monkeypatch.setattr(Health, "blocking", lambda health, version: [])
    code, facts = ran(leaky, tmp_path / "blind", monkeypatch)
    assert (code, facts["faults_kept"]) == (1, 1)


def test_the_exit_code_follows_a_gain_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, facts = ran(small("fresh_bank", gate={"gain": 0.9}), tmp_path, monkeypatch)
    assert (code, facts["gains_kept"], facts["gains"]) == (1, 0, 1)


def test_an_unknown_scenario_is_named() -> None:
    done = CliRunner().invoke(app, ["gallery", "--only", "echo_trip"])
    assert done.exit_code != 0
    assert "did you mean 'echo_trap'" in str(done.exception)


def test_a_mixture_draws_by_its_shares_and_its_temperature() -> None:
    policy = MixturePolicy("m", Mixture(shares={"worked": 0.9, "guessed": 0.1}), scripts)
    assert policy.chances(0.0)["worked"] == 1.0
    assert policy.chances(5.0)["guessed"] > 0.3
    picks = [policy.pick(f"t{n}", 0, Sampling(seed=1)) for n in range(2_000)]
    assert 0.07 < picks.count("guessed") / 2_000 < 0.13
    assert picks[:50] == [policy.pick(f"t{n}", 0, Sampling(seed=1)) for n in range(50)]


def test_a_step_moves_towards_what_earned_more_and_by_nothing_in_dead_groups() -> None:
    start, picked = Mixture(shares={"a": 0.5, "b": 0.5}), ["a", "a", "b", "b"]
    dead = moved(start, picked, advantages(np.ones(4), 4), 0.5, [])
    assert dead.shares == pytest.approx(start.shares)
    better = moved(start, picked, advantages(np.array([1.0, 1.0, 0.0, 0.0]), 4), 0.5, [])
    assert better.shares["a"] > 0.6


def test_a_mixture_remembers_what_was_valid() -> None:
    task = next(MathDomain().generate(MathDomain.space.defaults(), 1, 0, Split.TRAIN))
    script = scripts({task.id: "\\boxed{7}"})["recalled"]
    assert script(task, None, ()) == "\\boxed{7}"


def change(mean: float, low: float, high: float) -> Difference:
    return Difference(mean=mean, low=low, high=high, p=0.1, n=60)


ECHO = Alarm(
    diagnostic="echo", layer="behaviour", version=1, level="critical", value=0.9, threshold=0.5,
    direction="above", n=100, blocks=True,
)  # fmt: skip
FALL = change(-0.2, -0.3, -0.1)


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({"blocking": (ECHO,)}, "diagnostic echo"),
        ({"change": FALL}, "gate: worse"),
        ({"broken": {"size 3": FALL}}, "protected bucket"),
        ({"broken": {"optimal": FALL}, "protected": {"optimal": FALL}}, "protected metric"),
        ({"change": change(0.1, -0.1, 0.2)}, "gate: not beyond chance"),
        ({}, "criterion"),
    ],
)
def test_the_check_that_decided_is_named(facts: dict, wanted: str) -> None:
    better = judged("pruned", 0, change=change(0.2, 0.1, 0.3))
    assert check_of(better.model_copy(update=facts)) == wanted
    assert check_of(better.model_copy(update={**facts, "verdict": "kept"})) == ""
