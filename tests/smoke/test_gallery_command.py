"""`coevolve gallery` as people type it."""

from processes import coevolve


def test_a_scenario_is_named_or_the_nearest_is(tmp_path):
    done = coevolve("gallery", "--only", "bonus", "-o", tmp_path, timeout=120)
    assert done.returncode == 2
    assert "bonus_for_all" in done.stderr
