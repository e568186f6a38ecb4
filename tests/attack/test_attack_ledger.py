"""Corruptions of a finished run's folder: each is found, or changes nothing for any reader."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from pretended import make_run

from coevolve.core.errors import CoevolveError, LedgerError
from coevolve.dashboard.record import read_record, read_rollouts, read_steps
from coevolve.diagnostics.views import gather
from coevolve.loop.loop import run_loop
from coevolve.loop.train import retrain
from coevolve.store.fsck import fsck
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import lineage_of
from coevolve.store.rollouts import read_file

QUICK, ALL, PAGE = 25, 500, 4096
WAYS = ("a bit", "a byte", "zeros", "noise", "cut", "longer", "gone", "other page")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    run = make_run(folder, scripts=("prioritised", "random"))
    run_loop(run)
    run.ledger.close()
    checked = fsck(folder)
    assert not checked.faults
    assert checked.files > 10
    return folder


def corrupt(folder: Path, rng: random.Random) -> str:
    """Change one file, weighted by neither size nor kind: every file has its turn."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "lock")
    file, way = rng.choice(files), rng.choice(WAYS)
    data = bytearray(file.read_bytes())
    at = rng.randrange(len(data))
    page = slice(at - at % PAGE, at - at % PAGE + PAGE)
    if way == "gone":
        file.unlink()
        return f"{file.relative_to(folder)} gone"
    if way == "a bit":
        data[at] ^= 1 << rng.randrange(8)
    elif way == "a byte":
        data[at] = (data[at] + rng.randrange(1, 256)) % 256
    elif way == "zeros":
        data[page] = bytes(len(data[page]))
    elif way == "noise":
        data[page] = rng.randbytes(len(data[page]))
    elif way == "cut":
        del data[at:]
    elif way == "longer":
        data += rng.randbytes(8)
    else:
        other = rng.randrange(0, len(data), PAGE)
        data[page] = data[other : other + len(data[page])]
    file.write_bytes(data)
    return f"{file.relative_to(folder)}: {way} at {at}"


def told(folder: Path) -> dict[str, Any]:
    """All that readers make of a run, and what they say is wrong."""
    record = read_record(folder)
    places = [folder / "base" / "gate", *sorted(folder.glob("versions/*/*"))]
    rollouts = [read_rollouts(record, place) for place in places if place.is_dir()]
    steps = [read_steps(record, node.number) for node in record.lineage.nodes]
    facts = {"lineage": record.lineage, "rollouts": rollouts, "steps": steps, "plan": record.plan}
    try:
        evidence = gather(folder)
        facts["parts"] = [(one.version, one.source, [f.name for f in one.files])
                          for one in evidence.parts]  # fmt: skip
        facts["rows"] = (evidence.versions, evidence.steps)
        broken = [*evidence.broken, *record.problems]
    except CoevolveError as error:
        broken = [error]
    facts["lineage"].file = ""
    return {**facts, "said": broken}


def goes_on(folder: Path) -> str:
    """What a writer says before it goes on with a run; empty if it would."""
    try:
        with Ledger.open(folder) as ledger, ledger.writing():
            lineage_of(ledger)
    except CoevolveError as error:
        return str(error)
    return ""


def seen(whole: Path, tmp_path: Path, count: int, seed: int, held) -> None:
    right = told(whole)
    assert not right["said"]
    with Ledger.open(whole) as ledger:
        right["lineage"] = lineage_of(ledger)
        right["lineage"].file = ""
    rng = random.Random(seed)
    for number in range(count):
        folder = Path(shutil.copytree(whole, tmp_path / f"{number}"))
        what = corrupt(folder, rng)
        found = fsck(folder).faults
        facts = told(folder)
        same = all(facts.get(name) == value for name, value in right.items() if name != "said")
        # Without a fault nothing may read otherwise; with one, every reader that differs says so.
        safe = (same or bool(found)) and (same or bool(facts["said"]))
        held("corruptions of a run", safe, f"{what}: fsck {found}, {facts['said']}")
        again = goes_on(folder)
        checked = "\n" not in again and (not found or again or mended(folder, what))
        held("going on from corruptions", checked, f"{what}: {found}, {again}")
        shutil.rmtree(folder)


def mended(folder: Path, what: str) -> bool:
    """Whether going on has made it whole, or only what is measured again or not needed is gone."""
    return not fsck(folder).faults or what.endswith(" gone")


def test_no_corruption_is_silently_different(whole, tmp_path, held):
    seen(whole, tmp_path, QUICK, 1, held)


@pytest.mark.slow
def test_none_of_five_hundred_corruptions_is_silently_different(whole, tmp_path, held):
    seen(whole, tmp_path, ALL, 2, held)


@pytest.mark.parametrize(
    "path",
    [
        "versions/01/stage/rollouts/step-000001-0.parquet",
        "versions/01/stage/steps.jsonl",
        "versions/01/stage/policy/script",
        "versions/01/dev/part-00000.parquet",
        "versions/01/gate/part-00000.parquet",
        "versions/01/result.json",
    ],
)
def test_what_fsck_says_makes_a_version_whole_again(whole, tmp_path, held, path):
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    data = bytearray((folder / path).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / path).write_bytes(data)
    (fault,) = fsck(folder).faults
    assert fault.command == f"coevolve resume {folder} --retrain"
    assert str(folder / path) in goes_on(folder)
    run = make_run(folder, scripts=("prioritised", "random"))
    assert retrain(run) == [1]
    before = lineage_of(run.ledger)
    assert run_loop(run).versions == before.versions
    run.ledger.close()
    held("made again", not fsck(folder).faults, fsck(folder).faults)


@pytest.mark.parametrize("path", ["versions/01/job.json", "versions/00/dev/evaluation.json"])
def test_what_cannot_be_made_again_says_so(whole, tmp_path, held, path):
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    text = (folder / path).read_text()
    (folder / path).write_text(text.replace("1", "2", 1))
    (fault,) = fsck(folder).faults
    held("made again", str(folder / path) in fault.problem and goes_on(folder), fault)
    if "job" in path:
        with Ledger.open(folder) as ledger, pytest.raises(LedgerError, match="put back"):
            ledger.clear(folder / "versions/01")


def test_a_page_of_rollouts_that_no_record_seals_is_checked_too(whole, tmp_path, held):
    file = tmp_path / "part.parquet"
    rng = random.Random(5)
    source = next(whole.glob("versions/00/dev/*.parquet"))
    right = read_file(source)
    for _ in range(15):
        data = bytearray(source.read_bytes())
        data[rng.randrange(4, len(data) // 3)] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
        try:
            safe = read_file(file).equals(right)
        except (OSError, ValueError):
            safe = True
        held("pages of rollouts", safe)


def test_the_command_says_it_in_lines_and_in_json(whole, tmp_path, held, capsys):
    import json

    import typer

    from coevolve.cli.fsck import fsck as command

    command(whole)
    assert capsys.readouterr().out.endswith(" 0 faults\n")
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    (folder / "versions/00/dev/part-00000.parquet").write_bytes(b"")
    with pytest.raises(typer.Exit) as end:
        command(folder, as_json=True)
    facts = json.loads(capsys.readouterr().out)
    held("made again", end.value.exit_code == 1 and len(facts["faults"]) == 1, facts)
