"""The sandbox of a repository: its tree in memory goes in, and what came of a command or of tests
comes out. No file of a repository is ever written on this machine.

Invariant: the only packages that can be read in there are the repository, what it needs and pytest,
so no other version of a package gives its faults away. What runs tests is read-only there.
"""

import base64
import binascii
import json
import os
import re
import secrets
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, files, requires
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from coevolve.core.errors import UserError
from coevolve.core.files import cache_root, storable
from coevolve.domains.swe.places import is_made
from coevolve.domains.swe.source import Tree
from coevolve.sandbox import bubblewrap
from coevolve.sandbox.bubblewrap import PYTHON, Bind
from coevolve.sandbox.limits import Limits, Ran, Stop
from coevolve.sandbox.run import run

ROOT = "/tmp/repository"
PREFIX = os.path.realpath(sys.base_prefix)
TOOLS = "/opt/tools"
PATHS = (ROOT, f"{ROOT}/src", f"{ROOT}/lib")
"""Where packages of a repository lie."""
NEEDS = "/opt/needs"
"""Where the packages lie that a repository needs."""
INSIDE = "/opt/inside"
"""Where the programs of `inside` lie, out of reach of whatever runs."""
PACKAGES = (
    "site-packages",
    "dist-packages",
    "python-wheels",
    "_bundled",
    "_vendor",
    "pkgs",
    "envs",
)
"""Folders of a system that hold packages, also copies for pip's or setuptools' own use."""
ARCHIVES = (".whl", ".egg", ".pyz")
TEXTS = ("doc", "man", "locale", "icons", "fonts", "zoneinfo", "include", "src", "modules")
"""Folders of a system that hold none."""
WALL = 8
"""Time on the clock for each second of processor time, since others use the machine too."""
MOST_CHANGED = 2_000
LARGEST = 8 << 20


@cache
def binds() -> tuple[Bind, ...]:
    """pytest with what it needs, and nothing in place of all that is installed."""
    if bubblewrap.kind() == "none":
        raise UserError(
            f"repositories are only worked on in the sandbox: unset {bubblewrap.SETTING}"
        )
    nothing = cache_root() / "swe" / "nothing"
    nothing.mkdir(parents=True, exist_ok=True)
    found = [
        Bind(source=nothing if os.path.isdir(path) else Path("/dev/null"), target=path)
        for root in ("/usr", *([] if PREFIX.startswith("/usr/") else [PREFIX]))
        for path in packages(root)
    ]
    found.append(Bind(source=Path(__file__).parent / "inside", target=INSIDE))
    for name in ("pytest", *needed_by("pytest")):
        for file in files(name) or ():
            top = file.parts[0]
            if top.endswith((".dist-info", ".egg-info")) or top in ("..", "__pycache__"):
                continue
            place = Path(str(file.locate())).parents[len(file.parts) - 1] / top
            bind = Bind(source=place, target=f"{TOOLS}/{top}")
            if bind not in found:
                found.append(bind)
    return tuple(found)


def packages(root: str) -> Iterator[str]:
    """All places below a folder where other versions of a package could be read."""
    for place, folders, names in os.walk(root):
        yield from (f"{place}/{name}" for name in folders if name in PACKAGES)
        yield from (f"{place}/{name}" for name in names if name.endswith(ARCHIVES))
        folders[:] = [name for name in folders if name not in (*PACKAGES, *TEXTS)]


def needed_by(name: str) -> list[str]:
    """What a package needs on any system, by name."""
    try:
        wanted = requires(name) or []
    except PackageNotFoundError:
        raise UserError(
            f"working on repositories needs {name}: pip install 'coevolve[swe]'"
        ) from None
    return [re.split(r"[^\w.-]", line)[0] for line in wanted if ";" not in line]


def perform(
    name: str, tree: Tree, needs: Path | None, request: dict[str, Any], limits: Limits
) -> Ran:
    """Run one of the programs of `inside` on a tree."""
    folder = PurePosixPath(ROOT).name
    beside = () if needs is None else (Bind(source=needs, target=NEEDS),)
    return run(
        [PYTHON, "-s", "-S", "-P", "-B", f"{INSIDE}/{name}.py"],
        stdin=json.dumps(request),
        files={f"{folder}/{path}": data for path, data in tree.items()},
        binds=(*binds(), *beside),
        environment={
            "PATH": f"{os.path.dirname(PYTHON)}:/usr/bin:/bin",
            "PYTHONPATH": ":".join((TOOLS, *PATHS, NEEDS)) if name == "shell" else TOOLS,
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "GIT_PAGER": "cat",
        },
        limits=limits,
    )


def limits_of(cpu_s: int, wall_s: float) -> Limits:
    return Limits(
        cpu_s=cpu_s,
        wall_s=wall_s,
        memory_mb=2_048,
        processes=64,
        output_kb=32_768,
        file_mb=32,
        open_files=256,
        space_mb=256,
        files=20_000,
    )


class Tested(NamedTuple):
    """What came of running tests."""

    passed: frozenset[str]
    failed: dict[str, str]
    """Tests that ran and did not pass, with the line that says why."""
    broken: dict[str, str]
    """Files that could not be read as tests, with the line that says why."""
    stop: Stop
    ended: int | None
    """How pytest ended; None if it never came to its end."""
    cpu_s: float
    calls: dict[str, list[tuple[str, int]]]
    """Functions that each test called: file and first line. Only where traced."""
    lines: dict[str, list[int]]
    """All lines that ran, by file. Only where traced."""


def run_tests(
    tree: Tree,
    test_files: list[str],
    ids: list[str] | None = None,
    *,
    needs: Path | None = None,
    cpu_s: int = 60,
    trace: bool = False,
    brief: bool = False,
) -> Tested:
    """Run all tests of some files, or only those named; `brief`, without the reasons.

    `needs` is a folder of packages that tests may import, too.
    """
    secret = secrets.token_hex(16)
    request = {
        "secret": secret,
        "root": ROOT,
        "paths": [*PATHS, NEEDS],
        "files": test_files,
        "ids": ids,
        "trace": trace,
        "brief": brief,
    }
    ran = perform("tests", tree, needs, request, limits_of(cpu_s, WALL * cpu_s))
    try:
        return heard(ran, secret)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # Code that found the reporter and spoke in its place.
        return Tested(frozenset(), {}, {}, ran.stop, None, ran.cpu_s, {}, {})


def heard(ran: Ran, secret: str) -> Tested:
    """The facts among what a run printed."""
    phases: dict[str, list[str]] = {}
    failed: dict[str, str] = {}
    broken: dict[str, str] = {}
    calls: dict[str, list[tuple[str, int]]] = {}
    lines: dict[str, list[int]] = {}
    ended = None
    for line in ran.stdout.splitlines():
        if not line.startswith(secret):
            continue
        fact = json.loads(line.removeprefix(secret))
        if "id" in fact:
            phases.setdefault(storable(str(fact["id"])), []).append(
                f"{fact['when']} {fact['outcome']}"
            )
            if "message" in fact:
                failed.setdefault(storable(str(fact["id"])), storable(str(fact["message"])))
        elif "broken" in fact:
            broken[storable(str(fact["broken"]))] = storable(str(fact["message"]))
        elif "calls" in fact:
            calls[fact["calls"]] = [(name, first) for name, first in fact["functions"]]
        elif "lines" in fact:
            lines = fact["lines"]
        else:
            ended = fact["end"]
    whole = ["setup passed", "call passed", "teardown passed"]
    passed = frozenset(name for name, seen in phases.items() if seen == whole)
    return Tested(passed, failed, broken, ran.stop, ended, ran.cpu_s, calls, lines)


class Shown(NamedTuple):
    """What came of a command."""

    code: int | None
    """None if it took too long or used too much."""
    output: str
    tree: Tree
    """The repository after it."""
    changed: list[str]


def run_command(
    tree: Tree,
    command: str,
    *,
    needs: Path | None = None,
    wall_s: float = 60,
    output_kb: int = 64,
) -> Shown:
    """Run a command in a repository; `needs` as for tests."""
    request = {
        "command": command,
        "root": ROOT,
        "wall_s": wall_s,
        "output_bytes": output_kb << 10,
    }
    ran = perform("shell", tree, needs, request, limits_of(max(1, int(wall_s)), wall_s + 30))
    try:
        report = json.loads(ran.stdout)
        code, output = report["code"], storable(str(report["output"]))
        changed = {str(name): decoded(data) for name, data in report["changed"].items()}
        gone = {str(name) for name in report["gone"]}
        if not isinstance(code, int | None):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error):
        return Shown(None, "the command broke its shell; what it changed is lost", tree, [])
    changed = {name: data for name, data in changed.items() if allowed(name)}
    if len(changed) > MOST_CHANGED or sum(map(len, changed.values())) > LARGEST:
        return Shown(code, output + "\n(it wrote too much; what it changed is lost)", tree, [])
    after = {name: data for name, data in tree.items() if name not in gone} | changed
    touched = sorted(name for name in (*changed, *(gone & set(tree))) if not is_made(name))
    return Shown(code, output, after, touched)


def decoded(data: object) -> bytes:
    return base64.b64decode(str(data), validate=True)


def allowed(name: str) -> bool:
    """Whether a name that came out of the sandbox is one of a file below a root."""
    parts = PurePosixPath(name).parts
    sound = bool(parts) and not name.startswith("/") and ".." not in parts and len(name) < 400
    return (
        sound
        and name.isprintable()
        and not any(part in ("__pycache__", ".pytest_cache") for part in parts)
    )
