"""Diagnostics that a run grows: believed only where replay, novelty and both halves say so."""

import random
import shutil
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from populations import keep_training, mixed, patch
from scipy.stats import mannwhitneyu

from coevolve.diagnostics.grid import agreement, from_grid, grid
from coevolve.diagnostics.health import Diagnosis
from coevolve.diagnostics.need import needs_diagnostic
from coevolve.diagnostics.separation import (
    Readings,
    alike,
    best_cut,
    cut_p_value,
    labels_of,
    least_p_value,
    separations,
)
from coevolve.diagnostics.suite import as_toml, keep_trials, load_suite, read_file, refused_trials
from coevolve.diagnostics.trials import Occasion, replay, try_diagnostics, try_threshold
from coevolve.harness.diagnostic import Diagnostic, DiagnosticTrial
from coevolve.harness.harness import Harness
from coevolve.harness.rules import DiagnosticRule
from coevolve.harness.version import Verdict, Version

BAD = (2, 4, 5, 7)
VERSIONS = 9


def version(number: int, verdict: Verdict | None) -> Version:
    change = None if verdict == "root" else patch("reward", "tests")
    return Version(number=number, parent=None, patch=change, harness=Harness(), verdict=verdict)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine versions; in the bad ones a share of the answers speaks of shortcuts, and nothing
    else is different."""
    folder = tmp_path_factory.mktemp("run")
    for number in range(VERSIONS):
        rng = random.Random(number)
        groups = mixed(rng, 30)
        for group in groups:
            for one in group:
                share = 0.3 if number in BAD else 0.05
                one["failure"] = "shortcut" if rng.random() < share else "wrong"
        keep_training(folder, groups, number, per_step=10)
    return folder


def versions() -> list[Version]:
    return [
        version(number, "root" if not number else "reverted" if number in BAD else "kept")
        for number in range(VERSIONS)
    ]


def occasion(folder: Path, **fields: object) -> Occasion:
    rule = DiagnosticRule(splits=1)
    labels = labels_of(versions())
    return Occasion(folder=folder, labels=labels, since=VERSIONS, rule=rule, **fields)  # type: ignore[arg-type]


def diagnostic(name: str, value: str, **fields: object) -> Diagnostic:
    sql = (
        f"SELECT version, {value} AS value, count(*) AS n FROM rollouts WHERE source = 'train' "
        "GROUP BY version"
    )
    return Diagnostic(
        **{  # type: ignore[arg-type]
            "name": name,
            "question": "?",
            "layer": "behaviour",
            "sql": sql,
            "built_in": True,
            **fields,
        }
    )


# Tests of anything but the locked connection trust their SQL, which is faster.
SHORTCUTS = diagnostic("shortcuts", "avg((coalesce(failure, '') = 'shortcut')::INTEGER)")


def test_the_statistic_is_that_of_mann_and_whitney() -> None:
    rng = random.Random(0)
    for size in (6, 9, 12):
        labels = {number: number % 3 > 0 for number in range(size)}
        readings = {number: rng.random() for number in labels}
        good = [readings[number] for number in labels if labels[number]]
        bad = [readings[number] for number in labels if not labels[number]]
        for direction, other in (("above", "greater"), ("below", "less")):
            found = separations([(readings, direction)], labels, 0)[0]  # type: ignore[list-item]
            expected = mannwhitneyu(bad, good, alternative=other, method="exact")
            area = expected.statistic / (len(good) * len(bad))
            assert found.auc == pytest.approx(area if direction == "above" else 1 - area)
            assert found.p_value == pytest.approx(expected.pvalue)
            assert (found.good, found.bad) == (len(good), len(bad))


def test_what_is_unknown_of_a_version_does_not_count() -> None:
    labels = {number: number < 5 for number in range(10)}
    found = separations([({1: 0.0, 2: 0.1, 8: 0.5}, "above"), ({}, "above")], labels, 0)
    assert (found[0].auc, found[0].good, found[0].bad) == (1.0, 2, 1)
    assert (found[1].auc, found[1].p_value) == (0.5, 1.0)
    assert separations([({0: 1.0}, "above")], {0: True}, 0)[0].p_value == 1.0


@pytest.mark.parametrize(
    ("count", "bad", "family"), [(8, 4, 1), (10, 3, 1), (8, 4, 12), (18, 8, 3)]
)
def test_what_means_nothing_is_accepted_no_more_often_than_stated(
    count: int, bad: int, family: int
) -> None:
    """At least one of a family passes at the level of 5 % by chance alone."""
    rng = np.random.default_rng(count * family)
    labels = {number: number >= bad for number in range(count)}
    times = 120 if count > 16 else 600
    passed = 0
    for _ in range(times):
        tried: list[tuple[Readings, str]] = [
            (dict(enumerate(rng.normal(size=count).round(1))), "above") for _ in range(family)
        ]
        found = separations(tried, labels, 0)  # type: ignore[arg-type]
        passed += min(one.p_value for one in found) <= 0.05
    # Three standard errors over the level, for a level that is met exactly.
    assert passed / times <= 0.05 + 3 * (0.05 * 0.95 / times) ** 0.5
    if family == 1:
        assert passed > 0


def test_thresholds_lie_between_good_and_bad() -> None:
    labels = {number: number < 5 for number in range(10)}
    readings = {number: 0.1 * number for number in labels}
    cut = best_cut(readings, labels, "above")
    assert cut is not None
    assert cut.threshold == pytest.approx(0.45)
    assert cut.gap == 1
    assert cut_p_value(readings, labels, "above", 0) == pytest.approx(1 / 252)
    assert best_cut(readings, dict.fromkeys(labels, True), "above") is None
    rng = np.random.default_rng(3)
    found = [
        cut_p_value(dict(enumerate(rng.normal(size=10))), labels, "above", 0) for _ in range(600)
    ]
    assert np.mean(np.array(found) <= 0.05) <= 0.05 + 3 * (0.05 * 0.95 / 600) ** 0.5


def test_one_that_tells_versions_apart_is_accepted(run: Path) -> None:
    noise = diagnostic("noise", "avg(completion_tokens)")
    twin = SHORTCUTS.model_copy(update={"name": "twin", "sql": SHORTCUTS.sql + " ORDER BY 1"})
    broken = diagnostic("broken", "avg(nothing)")
    hostile = SHORTCUTS.model_copy(update={"name": "hostile", "sql": "SELECT * FROM 'x.parquet'"})
    untrusted = {"built_in": False}
    proposed = [
        one.model_copy(update=untrusted) for one in (noise, SHORTCUTS, twin, broken, hostile)
    ]
    trials = try_diagnostics(proposed, occasion(run))
    accepted = [trial.diagnostic.name for trial in trials if trial.accepted]
    assert accepted == ["shortcuts"]
    best = trials[1]
    assert best.value == 1.0
    assert best.p_value is not None
    assert 1 / 126 <= best.p_value <= 3 / 126
    assert best.stability is not None
    assert best.stability > 0.6
    assert best.diagnostic.since == VERSIONS
    assert best.diagnostic.warn == pytest.approx(0.1, abs=0.07)
    assert best.diagnostic.validation is not None
    assert best.diagnostic.validation.versions == VERSIONS
    assert "does not tell" in trials[0].reason
    assert "'shortcuts' says the same" in trials[2].reason
    assert "cannot be asked" in trials[3].reason
    assert "refused" in trials[4].reason


def test_halves_of_the_tasks_must_agree(run: Path) -> None:
    order = "+".join(f"(version = {number})::INTEGER * {100 - number}" for number in BAD)
    steady = diagnostic("steady", f"any_value({order})")
    # Of all 240 rollouts it says the same; of fewer, anything.
    noise = "hash(any_value(version) * 1000 + count(*)) % 1000"
    shaky = diagnostic("shaky", f"CASE count(*) WHEN 240 THEN any_value({order}) ELSE {noise} END")
    found = try_diagnostics([steady], occasion(run))[0]
    assert found.accepted, found.reason
    asked = try_diagnostics([shaky], occasion(run))[0]
    assert (asked.value, asked.p_value) == (found.value, found.p_value)
    assert not asked.accepted
    assert "two halves of the tasks do not agree" in asked.reason


def test_trying_again_and_again_costs(run: Path) -> None:
    trials = try_diagnostics([SHORTCUTS], occasion(run, earlier=20))
    assert not trials[0].accepted
    assert trials[0].p_value == pytest.approx(21 / 126)


def test_none_replaces_or_wrongly_imitates_one_that_blocks(run: Path) -> None:
    taken = SHORTCUTS.model_copy(update={"name": "invalid_pays"})
    harsh = SHORTCUTS.model_copy(update={"name": "harsh", "blocks": True, "critical": 0.0})
    fair = SHORTCUTS.model_copy(update={"name": "fair", "blocks": True, "critical": 0.1})
    trials = try_diagnostics([taken, harsh, fair], occasion(run))
    assert [trial.accepted for trial in trials] == [False, False, True]
    assert "stays as it is" in trials[0].reason
    assert "blocked good versions" in trials[1].reason
    refused = try_threshold("invalid_pays", occasion(run))
    assert refused is None or not refused.accepted


def test_trials_are_kept_and_speak_from_the_next_version_on(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    trials = try_diagnostics([SHORTCUTS, diagnostic("noise", "avg(turns)")], occasion(folder))
    written = keep_trials(folder, trials)
    assert keep_trials(folder, trials) == written
    suite = load_suite(folder)
    plain = {"built_in": False}
    assert suite.diagnostics["shortcuts"] == trials[0].diagnostic.model_copy(update=plain)
    assert "noise" not in suite.diagnostics
    refused = trials[1].diagnostic.model_copy(update=plain)
    assert refused_trials(folder) == [trials[1].model_copy(update={"diagnostic": refused})]
    keep_training(folder, mixed(random.Random(99), 10), VERSIONS)
    with Diagnosis(folder) as diagnosis:
        finding = diagnosis.health(["shortcuts"]).findings[0]
    assert [reading.version for reading in finding.readings] == [VERSIONS]


def test_a_diagnostic_is_read_as_it_was_written(tmp_path: Path) -> None:
    odd = SHORTCUTS.model_copy(
        update={
            "question": 'a "b"\n\\ \t\x7f\x01 é 😀 \u2028',
            "critical": 1e-7,
            "domains": ("a", "b"),
            "built_in": False,
        }
    )
    (tmp_path / "odd.toml").write_text(as_toml(odd), "utf-8")
    assert read_file(tmp_path / "odd.toml") == [odd]


def test_the_grid_finds_by_chance_no_more_often_than_stated(tmp_path: Path) -> None:
    for number in range(VERSIONS):
        keep_training(tmp_path, mixed(random.Random(number + 50), 12), number, per_step=12)
    chosen = from_grid(occasion(tmp_path))
    assert len(chosen) == 6
    with Diagnosis(tmp_path) as diagnosis:
        tried = [(replay(diagnosis, one).readings, one.direction) for one in chosen]
    found = 0
    for bad in combinations(range(VERSIONS), len(BAD)):  # all verdicts that there could have been
        labels = {number: number not in bad for number in range(VERSIONS)}
        found += min(one.p_value for one in separations(tried, labels, 0)) <= 0.05
    assert 0 < found / 126 <= 0.05


def test_thresholds_are_revised_by_the_same_test(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "diagnostics").mkdir()
    blind = SHORTCUTS.model_copy(update={"warn": 0.9})
    (folder / "diagnostics" / "own.toml").write_text(as_toml(blind), "utf-8")
    trial = try_threshold("shortcuts", occasion(folder))
    assert trial is not None
    assert trial.accepted, trial.reason
    assert trial.diagnostic.warn == pytest.approx(0.1, abs=0.07)
    assert (trial.diagnostic.since, trial.diagnostic.revised) == (0, VERSIONS)
    assert trial.p_value is not None
    later = try_threshold("shortcuts", occasion(folder).model_copy(update={"earlier": 2}), 5)
    assert later is not None
    assert later.p_value == pytest.approx(min(1.0, 15 * trial.p_value))
    keep = as_toml(trial.diagnostic)
    (folder / "diagnostics" / "own.toml").write_text(keep, "utf-8")
    again = try_threshold("shortcuts", occasion(folder))
    assert again is not None
    assert "tells as much" in again.reason
    other = try_threshold("answer_tokens", occasion(folder))
    assert other is not None
    assert not other.accepted


def test_one_is_wanted_when_none_explains_or_they_disagree(run: Path, tmp_path: Path) -> None:
    with Diagnosis(run) as diagnosis:
        health = diagnosis.health()
    reason = needs_diagnostic(health, versions())
    assert "no diagnostic tells the 5 good versions from the 4 bad ones" in reason
    assert needs_diagnostic(health, versions()[:1]) == ""
    few = [version(0, "root"), version(1, "kept"), version(2, "reverted")]
    alarmed = {alarm.version for alarm in health.alarms}
    expected = "" if 2 in alarmed else "version 2 turned out bad, and nothing but the score"
    assert expected in needs_diagnostic(health, few)
    explained = health._replace(
        findings=[diagnosis.finding(SHORTCUTS.model_copy(update={"warn": 0.12, "critical": 0.14}))]
    )
    assert needs_diagnostic(explained, versions()) == ""
    kept = [version(0, "root"), version(2, "kept")]
    assert "kept in spite of an alarm" in needs_diagnostic(explained, kept)
    diagnosis.close()


def test_a_diagnostic_is_grown_without_any_model(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    with Diagnosis(folder) as diagnosis:
        proposed = grid(diagnosis)
    assert len({one.name for one in proposed}) == len(proposed) > 60
    chosen = from_grid(occasion(folder))
    assert 0 < len(chosen) <= 0.05 * 126
    assert {one.name for one in chosen} < {one.name for one in proposed}
    trials = try_diagnostics(chosen, occasion(folder))
    assert trials == [
        DiagnosticTrial.model_validate_json(trial.model_dump_json()) for trial in trials
    ]
    accepted = [trial.diagnostic for trial in trials if trial.accepted]
    assert "mean_failed_shortcut_train_high" in [one.name for one in accepted]
    assert all("shortcut" in one.name or "wrong" in one.name for one in accepted)
    keep_trials(folder, trials)
    with Diagnosis(folder) as diagnosis:
        for one in accepted:  # kept, it runs in the locked connection
            kept = diagnosis.suite.diagnostics[one.name]
            assert kept.warn is not None
            assert not kept.built_in
            finding = diagnosis.finding(kept.model_copy(update={"since": 0}))
            assert len(finding.readings) == VERSIONS, finding.error
    again = try_diagnostics(from_grid(occasion(folder)), occasion(folder))
    assert not any(trial.accepted for trial in again), "what was accepted already is not new"


def test_halves_that_say_the_very_same_were_not_halved() -> None:
    assert agreement({0: 1.0, 1: 2.0, 2: 4.0}, {0: 1.1, 1: 2.2, 2: 3.9}) > 0.9
    assert agreement({0: 1.0, 1: 2.0, 2: 4.0}, {0: 1.0, 1: 2.0, 2: 4.0}) == 0


def test_small_things() -> None:
    assert alike({1: 1.0, 2: 2.0, 3: 3.0}, {1: 3.0, 2: 2.0, 3: 1.0, 4: 9.0}) == (-1.0, 3)
    assert alike({1: 1.0, 2: 1.0}, {1: 3.0, 2: 2.0}) == (0.0, 2)
    assert least_p_value({1: True, 2: True, 3: False}) == pytest.approx(1 / 3)
    chosen = [version(0, "root"), version(1, "kept"), version(2, None), version(3, "pruned")]
    assert labels_of(chosen) == {0: True, 1: True, 3: False}
