"""The report in a real browser: the curves are drawn, the films stand, nothing complains."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from pretended import HOSTILE, Saying, make_run

from coevolve.dashboard.report import write_report
from coevolve.loop.loop import run_loop

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                None)  # fmt: skip
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
BLUE = (0, 114, 178)
"""Of the curves, and of a few marks besides."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    run = make_run(folder, Saying(HOSTILE), ("prioritised", "random"), policy="hostile")
    run_loop(run)
    run.ledger.close()
    write_report(folder, folder / "report.html")
    return folder / "report.html"


def browse(page: Path, profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open the page; what its console says comes on standard error."""
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--user-data-dir={profile}", "--enable-logging=stderr", "--virtual-time-budget=4000",
        *options, page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def test_curves_are_drawn_and_the_console_is_quiet(page: Path, tmp_path: Path) -> None:
    done = browse(page, tmp_path, "--dump-dom")
    assert 'data-charts="5"' in done.stdout
    assert done.stdout.count("<canvas") == 5
    assert done.stdout.count('class="film"') >= 2
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []


def test_a_console_that_complains_would_be_heard(page: Path, tmp_path: Path) -> None:
    """A script that is not the page's own is stopped by its policy, which says so."""
    changed = page.with_name("changed.html")
    changed.write_text(page.read_text("utf-8").replace("</body>", "<script>alert(1)</script>"))
    done = browse(changed, tmp_path, "--dump-dom")
    heard = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert any("Content Security Policy" in line for line in heard)


@pytest.fixture
def plain(page: Path) -> Path:
    """The page as a browser without script sees it."""
    path = page.with_name("plain.html")
    path.write_text(re.sub(r"<script.*?</script>", "", page.read_text("utf-8"), flags=re.DOTALL))
    return path


@pytest.mark.parametrize("width", [1280, 520])
def test_lines_are_on_the_screen(page: Path, plain: Path, tmp_path: Path, width: int) -> None:
    image = pytest.importorskip("PIL.Image", reason="pictures are read with the extra `draw`")
    counts = []
    for number, shown in enumerate((plain, page)):
        shot = tmp_path / f"{number}.png"
        size = f"--window-size={width},9000"  # the curves stand after the boards
        browse(shown, tmp_path / f"profile-{number}", f"--screenshot={shot}", size)
        with image.open(shot) as picture:
            assert picture.width == width
            colours = picture.getcolors(1 << 24)
        counts.append(sum(n for n, colour in colours if colour[:3] == BLUE))
    assert counts[1] > counts[0] + 500


def test_without_script_the_numbers_are_still_there(plain: Path, tmp_path: Path) -> None:
    done = browse(plain, tmp_path, "--dump-dom")
    assert "The numbers behind the curves" in done.stdout
    assert "0.02" in done.stdout
