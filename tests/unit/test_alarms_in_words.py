"""Alarms and lists as people read them."""

import pytest

from coevolve.dashboard.numbers import measure, reading, slope
from coevolve.dashboard.text import alarm_words, brief
from coevolve.dashboard.web.pages.compare import better
from coevolve.dashboard.web.pages.diagnostics import raised
from coevolve.evaluation.arms import unequal


def alarm(name: str, version: int, level: str) -> dict[str, object]:
    return {"diagnostic": name, "version": version, "level": level}


def test_an_alarm_is_a_sentence() -> None:
    told = alarm_words(
        "critical: dead_groups is 0.75, above 0.5 (version 3, n 1,024, blocks promotion)"
    )
    assert told == (
        "critical",
        "dead groups 75.0 %, above 50.0 % (version 3, n 1,024, blocks promotion)",
    )
    assert alarm_words("warn: reward_spread is 0, below 0.05 (version 0, n 8)")[1].startswith(
        "reward spread 0, below 0.05"
    )
    for text in ("another text", "warn: dead_groups is many, above 0.5 (version 0, n 8)"):
        assert alarm_words(text) == ("warn", text)


def test_shares_are_told_in_percent_and_all_else_as_it_is() -> None:
    assert (reading(0.5, "dead_groups"), reading(0.5, "valid")) == ("50.0 %", "50.0 %")
    assert reading(0.5, "coarse_reward") == "50.0 %"
    assert (reading(0.5, "entropy"), reading(None, "dead_groups")) == ("0.5", "–")
    assert (slope(-0.02, "dead_groups"), slope(-0.02, "entropy")) == ("-2.0 points", "-0.02")
    assert (measure(0.5, "dead_after"), measure(0.5, "worth_after")) == ("50.0 %", "0.5")


def test_alarms_of_one_diagnostic_stand_together_critical_ones_first() -> None:
    found = raised([
        alarm("often", 2, "warn"), alarm("bad", 1, "warn"), alarm("often", 0, "warn"),
        alarm("bad", 0, "critical"), alarm("often", 1, "warn"),
    ])  # fmt: skip
    assert [(one["name"], one["level"]) for one in found] == [
        ("bad", "critical"),
        ("often", "warn"),
    ]
    assert [each["version"] for each in found[1]["each"]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "words"), [(["a", "b"], "a, b"), ([], "none"), (0.5, "0.5"), ([1, 2], "[1, 2]")]
)
def test_values_are_brief(value: object, words: str) -> None:
    assert brief(value) == words


def test_nobody_is_better_where_nothing_was_compared() -> None:
    assert better([], "fixed") == ""
    assert unequal([], "rollouts") == []
