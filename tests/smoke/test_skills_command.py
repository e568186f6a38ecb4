"""`coevolve skills` as people type it."""

import json

import pytest
from processes import coevolve
from typer.testing import CliRunner

from coevolve.cli.main import app

LEARNED = """
[warmer_when_sure]
summary = "a higher temperature"
trigger = "entropy < 0.1"
factor = "recipe.temperature"
hypothesis = "If it is warmer, then answers differ"
learned = true
domains = ["lake"]
template = {kind = "scale", by = 1.2, high = 1.5}

[[warmer_when_sure.evidence]]
run = "one"
domain = "lake"
version = 3
verdict = "kept"
gain = 0.05
low = 0.01
high = 0.09
n = 300
date = "2026-01-01"
"""


def skills(*words, folder):
    return coevolve("skills", *words, "--folder", folder, timeout=120)


def said(*words, folder):
    """The same in this process, where several commands follow each other."""
    return CliRunner().invoke(app, ["skills", *map(str, words), "--folder", str(folder)])


def test_skills_are_listed_shown_handed_on_and_taken_in(tmp_path):
    (tmp_path / "learned.toml").write_text(LEARNED)
    (tmp_path / "slip.toml").write_text(LEARNED.replace("entropy", "entropie").replace("sure", "x"))
    here, there = tmp_path / "here", tmp_path / "there"
    first = said("import", tmp_path / "learned.toml", tmp_path / "slip.toml", folder=here)
    assert "warmer_when_x: no built-in diagnostic is called 'entropie'; did you" in first.stderr
    again = json.loads(said("import", tmp_path / "learned.toml", "--json", folder=here).stdout)
    name = "warmer_when_sure"
    assert again == [{"skill": name, "new": False, "trials": 0, "quarantined": True}]
    done = said("export", "-o", tmp_path / "out.toml", folder=here)
    assert done.exit_code == 0, done.output
    taken = said("import", tmp_path / "out.toml", folder=there)
    assert "warmer_when_sure: new, 1 trials more" in taken.stdout
    shown = said("show", "warmer_when_sure", folder=there)
    assert 'trigger = "entropy < 0.1"' in shown.stdout
    assert "gain = 0.05" in shown.stdout
    waiting = said("list", "--factor", "recipe.temperature", folder=there)
    assert "1 / 0" not in waiting.stdout
    assert said("accept", "warmer_when_sure", folder=there).exit_code == 0
    best = said("list", "--factor", "recipe.temperature", folder=there)
    assert "1 / 0" in best.stdout
    listed = said("list", "--domain", "math", "--json", folder=there)
    names = [one["name"] for one in json.loads(listed.stdout)]
    assert "warmer_when_sure" not in names, "it held in one other domain only"
    assert "finer_reward" in names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "finer_rewrad"], "did you mean 'finer_reward'"),
        (["list", "--domain", "lak"], "did you mean 'lake'"),
        (["export"], "no skill"),
        (["import", "gone.toml"], "cannot read gone.toml"),
    ],
)
def test_mistakes_are_named(tmp_path, words, said):
    done = skills(*words, folder=tmp_path / "none")
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_bad_file_and_a_name_that_is_taken_change_nothing(tmp_path):
    (tmp_path / "bad.toml").write_text(LEARNED.replace("entropy < 0.1", "entropy"))
    bad = skills("import", tmp_path / "bad.toml", folder=tmp_path / "here")
    assert bad.returncode == 2
    assert "is not a comparison" in bad.stderr
    (tmp_path / "bad.toml").write_text(
        LEARNED + LEARNED.replace("warmer_when_sure", "finer_reward")
    )
    taken = skills("import", tmp_path / "bad.toml", folder=tmp_path / "here")
    assert taken.returncode == 2
    assert "another skill here" in taken.stderr
    assert not (tmp_path / "here").exists()
