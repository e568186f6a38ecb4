"""What a file of a repository is for, by its path alone: code, tests, or how tests are run."""

from collections.abc import Mapping
from pathlib import PurePosixPath

FOLDERS = ("test", "tests", "testing")
SETTINGS = (
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "sitecustomize.py",
    "usercustomize.py",
)
"""Files that decide how tests run."""
MADE = ("__pycache__", ".pytest_cache", ".git")
"""Folders that tools make; nothing in them is anybody's work."""


def is_test(path: str) -> bool:
    """Whether pytest would look for tests in a file."""
    name = PurePosixPath(path).name
    return name.endswith(".py") and (
        name.startswith("test_") or name.endswith("_test.py") or name == "tests.py"
    )


def is_protected(path: str) -> bool:
    """Whether a file is part of the tests, or of how they run: judging takes the original."""
    place = PurePosixPath(path)
    return (
        is_test(path)
        or place.name in SETTINGS
        or place.suffix in (".pth", ".pyc", ".so")
        or any(part in FOLDERS for part in place.parts[:-1])
    )


def is_made(path: str) -> bool:
    return any(part in MADE for part in PurePosixPath(path).parts)


def is_code(path: str) -> bool:
    """Whether a fault may go into a file."""
    return path.endswith(".py") and not is_protected(path) and not is_made(path)


def touched(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """Files of a repository that are not as they were."""
    return sorted(
        name
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name) and not is_made(name)
    )


def with_tests(code: Mapping[str, bytes], tests: Mapping[str, bytes]) -> dict[str, bytes]:
    """The code of one tree with the tests of another."""
    kept = {name: data for name, data in code.items() if not is_protected(name)}
    own = {name: data for name, data in tests.items() if is_protected(name)}
    return {**{name: data for name, data in kept.items() if not is_made(name)}, **own}
