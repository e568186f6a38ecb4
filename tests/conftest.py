"""Shared by all tests: where the public data lies."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

SHARED = Path(__file__).parents[2] / "shared" / "data"

# What fails, fails for everybody, and on a busy machine, too, nothing else does. New examples:
# pytest --hypothesis-profile=default
hypothesis.settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("steady")


LONG = ("smoke", "invariant", "contract", "browser")
"""Folders of long files: they come first, so that no worker is left with one of them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        folder = item.path.parent.name
        return LONG.index(folder) if folder in LONG else len(LONG)

    items.sort(key=place)


@pytest.fixture(autouse=True)
def recursion_limit() -> Iterator[None]:
    """Programs that tests run in this process may raise the limit; later ones must not crash."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)


@pytest.fixture
def public_boards() -> Path:
    """The folder of public boards with known optimal costs."""
    folder = SHARED / "mapf"
    if not folder.is_dir():
        pytest.skip(f"the public boards are not at {folder}")
    return folder


@pytest.fixture
def gsm8k() -> list[dict[str, str]]:
    """GSM8K with its solutions, both parts of it."""
    folder = SHARED / "math"
    if not folder.is_dir():
        pytest.skip(f"GSM8K is not at {folder}")
    files = [folder / f"gsm8k_{part}.jsonl" for part in ("train", "test")]
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
