"""A run folder is like any folder: it can be read where nothing can be written, and copied."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pretended import LAKE, load, make_run

from coevolve.core.errors import UserError
from coevolve.loop.final import final
from coevolve.loop.loop import run_loop
from coevolve.store.gauge import Gauge
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import plan_of
from coevolve.store.paths import Paths


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs") / "small"
    run = make_run(place, scripts=("prioritised", "random"))
    run_loop(run)
    run.ledger.close()
    return place


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap makes a folder read-only")
@pytest.mark.parametrize("words", [("status",), ("diagnose",), ("report", "-o", "PAGE")])
def test_a_read_only_run_can_be_looked_at(
    folder: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    command, *options = (str(tmp_path / "page.html") if word == "PAGE" else word for word in words)
    around = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--ro-bind", folder, folder]
    done = subprocess.run(
        [*around, sys.executable, "-m", "coevolve", command, folder, *options],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_copies_do_not_share_checkpoints(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    shutil.rmtree(copy / "versions" / "00" / "stage" / "policy")
    assert (folder / "versions" / "00" / "stage" / "policy").is_dir()
    with Ledger.open(copy) as ledger, pytest.raises(UserError, match=r"resume .* --retrain"):
        final(ledger, Gauge(plan_of(ledger), LAKE, load, Paths(copy)), 16)
    with Ledger.open(folder) as ledger:
        found = final(ledger, Gauge(plan_of(ledger), LAKE, load, Paths(folder)), 16)
    assert found.last.rates["valid"].n == 16
