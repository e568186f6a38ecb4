"""The screenshots of the docs: `python docs/pictures.py RUNS_FOLDER OUTPUT_FOLDER`.

Serves the folder, opens pages of its first finished run in headless Chromium, and keeps what they
look like with few colours, since the files are in the repository.
"""

import json
import re
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from urllib.request import urlopen

from PIL import Image
from playwright.sync_api import Page, sync_playwright

WIDTH, HEIGHT, COLOURS = 1280, 860, 96


def main() -> None:
    runs, output = Path(sys.argv[1]), Path(sys.argv[2])
    command = [sys.executable, "-m", "coevolve", "serve", str(runs), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        assert found
        try:
            take(found.group(), output)
        finally:
            server.terminate()


def take(address: str, output: Path) -> None:
    """All pictures, of the first run that is done."""
    listed = json.load(urlopen(f"{address}/?format=json"))["runs"]
    run = next(f"/runs/{one['name']}" for one in listed if one["state"] == "done")
    failed = f"{run}/rollouts?source=gate&failure=failed"
    rows = json.load(urlopen(f"{address}{failed}&format=json"))["found"]["rows"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        light = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        dark = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="dark")
        picture(light, address + run, "canvas", output / "dashboard.png")
        rollout = f"{address}{run}/rollouts/{rows[0]['id']}"
        picture(light, rollout, ".film svg", output / "dashboard-rollout.png")
        table = f"{address}{run}/diagnostics"
        picture(dark, table, "table.matrix", output / "dashboard-diagnostics.png")
        browser.close()


def picture(page: Page, address: str, ready: str, file: Path) -> None:
    page.goto(address)
    page.wait_for_selector(ready, timeout=120_000)
    page.wait_for_timeout(2_500)  # a film has begun
    with Image.open(BytesIO(page.screenshot())) as shot:
        shot.convert("RGB").quantize(COLOURS).save(file, optimize=True)
    print(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
