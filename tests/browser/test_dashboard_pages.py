"""The dashboard in a real browser, over runs that are really there, one of them going on.

Screenshots of every page are left in `screenshots/`.
"""

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image
from pretended import make_run
from served import SKILL, failed_run, hostile_folder, rounds_run, tree_run

from coevolve.loop.loop import run_loop
from coevolve.store.ledger import Ledger

playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                None)  # fmt: skip
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
SHOTS = Path(__file__).parents[2] / "screenshots"
PATIENCE_MS = 20_000


class Watched(NamedTuple):
    """A page, and whatever went wrong in it."""

    page: Any
    address: str
    wrong: list[str]

    def open(self, path: str) -> Any:
        self.page.goto(self.address + path, wait_until="load")
        return self.page


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    rounds_run(folder / "first")
    tree_run(folder / "tree")
    failed_run(folder / "failed")
    (folder / "skills").mkdir()
    (folder / "skills" / "cool.toml").write_text(SKILL)
    return folder


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "coevolve", "serve", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        assert found
        yield found.group()
        server.terminate()
        try:
            server.wait(60)
        finally:
            server.kill()


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        yield started


@pytest.fixture
def browser(driver: Any) -> Iterator[Any]:
    """One for each test: closing a context alone sometimes never ends, closing a browser does."""
    opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    yield opened
    opened.close()


def watch(browser: Any, address: str, **options: Any) -> Watched:
    """A page that notes every complaint, dialog and request to elsewhere."""
    wrong: list[str] = []
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(address) else wrong.append(asked.url),
    )
    return Watched(page, address, wrong)


@pytest.fixture
def wide(browser: Any, address: str) -> Iterator[Watched]:
    watched = watch(browser, address, viewport={"width": 1280, "height": 900})
    yield watched
    assert watched.wrong == []


PAGES = {
    "runs": "/", "skills": "/skills", "compare": "/compare",
    "beside": "/compare?run=first&run=tree", "run": "/runs/first",
    "tree": "/runs/tree", "failed": "/runs/failed", "changes": "/runs/tree/changes",
    "change": "/runs/tree/changes/3", "knobs": "/runs/first/changes/1",
    "diagnostics": "/runs/tree/diagnostics", "rollouts": "/runs/tree/rollouts",
    "ledger": "/runs/first/ledger",
}  # fmt: skip


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), pytest.param(400, "dark", marks=pytest.mark.slow)]
)
def test_pages_fit_and_nothing_complains(
    browser: Any, address: str, width: int, scheme: str
) -> None:
    SHOTS.mkdir(exist_ok=True)
    watched = watch(browser, address, viewport={"width": width, "height": 900}, color_scheme=scheme)
    for name, path in PAGES.items():
        page = watched.open(path)
        page.wait_for_selector("#main h1")
        if name in ("run", "tree"):
            page.wait_for_selector("html[data-charts='5']")
        if name == "diagnostics":
            page.wait_for_selector("table.matrix")
        page.screenshot(path=SHOTS / f"{name}-{width}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    assert watched.wrong == []


def test_filters_change_the_rows_and_the_address(wide: Watched) -> None:
    page = wide.open("/runs/tree/rollouts")
    page.select_option("#filter-failure", "hole")
    page.wait_for_url("**/rollouts?failure=hole")
    verdicts = page.locator("table.list tbody td:nth-child(6)").all_inner_texts()
    assert verdicts
    assert {words.strip() for words in verdicts} == {"✗ hole"}
    page.locator(".preview summary").first.click()
    page.wait_for_selector(".preview[open] .turn-answer pre")
    page.select_option("#filter-version", "3")
    page.wait_for_url("**version=3*failure=hole")
    page.reload()
    assert page.locator("#filter-version").input_value() == "3"
    page.go_back()
    page.wait_for_url("**/rollouts?failure=hole")
    assert "format=json" in page.locator("[data-json]").get_attribute("href")


@pytest.mark.slow
def test_from_an_alarm_to_the_rollouts_behind_it(wide: Watched) -> None:
    page = wide.open("/runs/tree/diagnostics")
    page.locator(".alarms a").first.click()
    page.wait_for_selector("h1#diag-title")
    assert page.locator("tr.chosen").count() == 1
    page.goto(f"{wide.address}/runs/tree/diagnostics/truncation?version=3")
    page.locator("table.stack tbody th a").first.click()
    page.wait_for_selector("#turns-title")


def test_a_plan_is_animated_and_marks_the_failing_step(wide: Watched) -> None:
    page = wide.open("/runs/first/rollouts?source=gate&failure=failed")
    page.locator("table.list tbody th a").first.click()
    page.wait_for_selector(".film svg animate, .film svg animateTransform", state="attached")
    assert "time step" in page.locator(".film svg title").first.text_content()
    page.click("#pause")
    assert page.locator("#pause").inner_text() == "Play the animations"
    page.screenshot(path=SHOTS / "rollout-1280-light.png", full_page=True)
    page.locator("text=beside this").first.click()
    page.wait_for_selector(".films figure:nth-child(2) .film svg")
    page.locator(".scrub").focus()
    page.keyboard.press("End")
    times = page.evaluate("""() => [...document.querySelectorAll('.films .film svg')].map(
        film => [film.getCurrentTime(), parseFloat(film.querySelector('[dur]').getAttribute('dur'))]
    )""")
    assert len(times) == 2
    assert all(0 < length - at < 0.1 for at, length in times)  # both at their ends


def test_a_curve_is_kept_as_a_picture(wide: Watched) -> None:
    page = wide.open("/runs/first")
    page.wait_for_selector(".chart canvas")
    with page.expect_download() as kept:
        page.locator(".keep").first.click()
    assert kept.value.suggested_filename.endswith(".png")
    with Image.open(kept.value.path()) as picture:
        assert picture.format == "PNG"
        assert picture.width > 200
        assert len(picture.convert("RGB").getcolors(1 << 24) or ()) > 2  # something is drawn


def test_curves_are_looked_at_closely_by_keys(wide: Watched) -> None:
    page = wide.open("/runs/first")
    page.wait_for_selector("html[data-charts='5']")
    page.locator(".chart[data-key=reward]").focus()
    canvas = page.locator(".chart[data-key=reward] canvas")
    seen = []
    for key in ("0", "+", "ArrowRight", "-", "0"):
        page.keyboard.press(key)
        page.evaluate("() => new Promise(requestAnimationFrame)")  # it is drawn a moment later
        seen.append(canvas.evaluate("canvas => canvas.toDataURL()"))
    assert seen[4] == seen[0]
    assert len({*seen[:3]}) == 3


def test_what_is_ticked_is_laid_on_top_of_each_other(wide: Watched) -> None:
    page = wide.open("/runs/tree/changes")
    for number in (0, 2):
        page.check(f".pick[value='tree@{number}']")
    page.click("#picked button")
    page.wait_for_selector("#beside-title")
    assert "run=tree%400&run=tree%402" in page.url
    assert page.text_content("#beside-title") == "tree@0, tree@2"
    page.select_option("#run-0", "first")
    page.click("text=Add")
    page.wait_for_selector("text=Without")
    assert page.locator(".key[class*=line-]").count() == 3


def test_keys_lead_everywhere(wide: Watched) -> None:
    page = wide.open("/runs/tree")
    page.keyboard.press("2")
    page.wait_for_url("**/changes")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/changes/1")
    page.keyboard.press("?")
    assert page.locator("dialog#keys").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("5")
    page.wait_for_url("**/ledger")
    page.keyboard.press("/")
    page.keyboard.type("backtest")
    page.wait_for_url("**search=backtest")
    assert page.locator("table.log tbody tr").count() == 7


def stays_as_it_is(page: Any, folder: Path) -> None:
    """What changes elsewhere leaves focus, scroll, films and folds alone."""
    page.locator("#training details.more summary").click()
    page.locator("#knobs").scroll_into_view_if_needed()
    height, settled = -1, "document.documentElement.scrollHeight"
    while height != (height := page.evaluate(settled)):  # films and charts are laid out late
        page.wait_for_timeout(500)
    page.evaluate("""() => {
        window.before = [document.activeElement, document.querySelector('.film svg'),
                         document.querySelector('.chart canvas'), window.scrollY];
    }""")
    count = "Number(document.documentElement.dataset.refreshed || 0)"
    before = page.evaluate(count)
    with Ledger.open(folder) as ledger:
        ledger.note("warning", words="somebody looked in")
        events = len(ledger.events())
    page.wait_for_selector(f"footer:has-text('{events} events')")
    page.wait_for_function(f"{count} > {before}")
    assert page.evaluate("""() => {
        const [focus, film, canvas, y] = window.before;
        return [document.activeElement === focus, focus.tagName, film.isConnected,
                canvas.isConnected, window.scrollY - y, focus.parentNode.open];
    }""") == [True, "SUMMARY", True, True, 0, True]


def test_a_run_is_followed_and_steered(wide: Watched, root: Path) -> None:
    """Begun before the page is opened, it waits; approved on the page, it ends; all of it live."""
    run = make_run(root / "steered", scripts=("prioritised", "greedy"), approval=["design"])
    thread = threading.Thread(target=run_loop, args=(run,), daemon=True)
    page = wide.open("/")
    thread.start()
    page.wait_for_timeout(600)
    page.goto(f"{wide.address}/runs/steered")
    page.wait_for_selector(".listening:not([hidden])")
    page.wait_for_selector("#steer")  # by itself
    page.wait_for_selector("#main .chart canvas")  # drawn again
    page.screenshot(path=SHOTS / "waiting-1280-light.png", full_page=True)
    stays_as_it_is(page, run.ledger.folder)
    page.click("#steer a")
    page.wait_for_selector(".samples svg")
    page.screenshot(path=SHOTS / "decision-1280-light.png", full_page=True)
    asked = page.input_value("[name=question]")
    page.click("text=Revise with this note")  # which needs a note
    assert page.url.endswith("/decision")
    page.fill("#note", "fewer of them")
    page.click("text=Revise with this note")
    page.wait_for_selector(f"[name=question]:not([value='{asked}'])", state="attached")
    page.click("button:text-is('Approve')")
    page.wait_for_selector(".run-name .state-done")  # by itself
    thread.join(30)
    answers = [event.payload["decision"] for event in run.ledger.events("answered")]
    assert answers == ["revise", "approve"]
    assert run.ledger.events("answered")[0].payload["note"] == "fewer of them"
    run.ledger.close()


@pytest.mark.slow
def test_hostile_runs_do_nothing(wide: Watched, root: Path) -> None:
    (root / "hostile").mkdir()
    hostile_folder(root / "hostile")
    page = wide.open("/?search=img")
    page.locator("table.list tbody th a").first.click()
    page.wait_for_selector("#headline-title")
    for tab in range(1, 5):
        page.locator(".tabs a").nth(tab).click()
        page.wait_for_selector("#main h1")
        assert page.evaluate("document.querySelectorAll('main img, main iframe').length") == 0
    page.goto(f"{wide.address}/skills")
    page.goto(f"{wide.address}/runs/hostile/tree/changes/4")
    assert "alert(1)" in page.inner_text("main")
