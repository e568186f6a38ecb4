"""A small repository of our own, so that scenarios on software engineering need no download.

Its files are in shop.toml. Its tests see nearly everything that its code does.
"""

import subprocess
import tomllib
from importlib.resources import files
from pathlib import Path

SHOP: dict[str, dict[str, str]] = tomllib.loads(
    (files(__package__) / "shop.toml").read_text("utf-8")
)
CODE, TESTS = SHOP["code"], SHOP["tests"]
MORE = SHOP["more"]
"""One more module with its tests: functions enough for faults in every split."""


def committed(folder: Path, files: dict[str, str]) -> Path:
    """A git repository with one commit of some files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=dev", "-c", "user.email=dev@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    return folder
