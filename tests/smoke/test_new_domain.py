"""`coevolve new-domain` writes a package that passes the conformance suite as it stands."""

import json
import os
import tomllib
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from processes import anew

from coevolve.domains import template


def run_in(place: Path, *words: str, path: Path | None = None) -> CompletedProcess[str]:
    old = os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{old}" if path else old}
    return anew(*words, cwd=place, env=environment)


def installed(package: Path) -> None:
    """What `pip install -e` would leave: the metadata that entry points are found by."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    folder = package / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = project["entry-points"]["coevolve.domains"]
    lines = ["[coevolve.domains]", *(f"{name} = {where}" for name, where in points.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")


def test_a_new_domain_is_checked_and_evaluated_unchanged(tmp_path: Path) -> None:
    made = run_in(tmp_path, "new-domain", "my_words")
    assert made.returncode == 0, made.stderr
    package = tmp_path / "my_words"
    source = (package / "my_words_domain.py").read_text()
    assert len(source.splitlines()) <= 80
    assert "emplate" not in source
    installed(package)
    checked = run_in(tmp_path, "check", "my_words", "--json", path=package)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert len(json.loads(checked.stdout)["checks"]) == 12
    words = [
        "evaluate",
        "-d",
        "my_words",
        "-p",
        "oracle",
        "--split",
        "dev",
        "--count",
        "20",
        "--json",
    ]
    done = run_in(tmp_path, *words, path=package)
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["valid"], json.loads(done.stdout)["n"]) == (1.0, 20)
    again = run_in(tmp_path, "new-domain", "my_words")
    assert again.returncode == 2
    assert "my_words exists" in again.stderr
    none = run_in(tmp_path, "evaluate", "-d", "my_words", path=package)
    assert (none.returncode, "has no suite" in none.stderr) == (2, True)


@pytest.mark.parametrize("name", ["Mine", "a-b", "1a", "class", "lake", "reasoning", "../x"])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    refused = run_in(tmp_path, "new-domain", name)
    assert refused.returncode == 2
    assert f"'{name}'" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_template_is_short() -> None:
    assert len(Path(template.__file__).read_text().splitlines()) <= 80


def test_a_new_domain_of_several_turns(tmp_path: Path) -> None:
    made = run_in(tmp_path, "new-domain", "cards", "--turns")
    assert made.returncode == 0, made.stderr
    package = tmp_path / "cards"
    assert {one.name for one in package.iterdir()} == {
        "cards_domain.py", "test_cards.py", "plan.toml", "pyproject.toml",
    }  # fmt: skip
    assert "emplate" not in (package / "cards_domain.py").read_text()
    installed(package)
    checked = run_in(tmp_path, "check", "cards", "--json", path=package)
    findings = {one["name"]: one for one in json.loads(checked.stdout)["checks"]}
    assert checked.returncode == 0, checked.stdout
    assert "turns" in findings["episodes come to a verdict"]["message"]
    words = ["evaluate", "-d", "cards", "-p", "oracle", "--split", "dev", "--count", "20", "--json"]
    played = run_in(tmp_path, *words, path=package)
    assert json.loads(played.stdout)["valid"] == 1.0
    plan = run_in(tmp_path, "run", "cards/plan.toml", "--explain", "--json", path=package)
    assert plan.returncode == 0, plan.stderr


def test_a_judge_for_a_data_set(tmp_path: Path) -> None:
    rows = [{"question": f"What is {n} plus {n}?", "answer": str(2 * n)} for n in range(80)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = run_in(tmp_path, "new-domain", "letters", "--data", "rows.jsonl")
    assert made.returncode == 0, made.stderr
    domain = tomllib.loads((tmp_path / "letters" / "plan.toml").read_text())["domain"]
    done = run_in(
        tmp_path,
        "evaluate",
        "-d",
        domain,
        "-p",
        "oracle",
        "--split",
        "dev",
        "--count",
        "5",
        "--json",
    )
    assert json.loads(done.stdout)["valid"] == 1.0, done.stderr
    both = run_in(tmp_path, "new-domain", "both", "--data", "rows.jsonl", "--turns")
    assert (both.returncode, "give one of them" in both.stderr) == (2, True)
    named = "data:rows.jsonl?question=question&answer=answer"
    columns = run_in(tmp_path, "new-domain", "columns", "--data", named)
    assert f"coevolve check '{named}&judge=columns/judge.py'" in columns.stdout
    none = run_in(tmp_path, "new-domain", "none", "--data", "absent.jsonl")
    assert (none.returncode, (tmp_path / "none").exists()) == (2, False)
