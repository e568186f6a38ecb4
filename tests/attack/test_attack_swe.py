"""Work on a repository that lies about itself, and sources that want to run or to fill a disk."""

import gzip
import io
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from repositories import CODE, TESTS, committed, shop

from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.swe import source
from coevolve.domains.swe.box import run_command
from coevolve.domains.swe.calls import write_call
from coevolve.domains.swe.domain import SweDomain
from coevolve.domains.swe.source import Source, read_source, tree_of

Held = Callable[..., None]


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SweDomain]:
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield SweDomain([str(shop(tmp_path_factory.mktemp("shop")))])
    patch.undo()


@pytest.fixture(scope="module")
def task(domain: SweDomain) -> Task:
    return next(iter(domain.generate(domain.space.parse({"faults.mean": 1.0}), 1, 1, Split.TRAIN)))


FORGED = {
    "runtest does nothing": "import _pytest.python as p\np.Function.runtest = lambda self: None\n",
    "runtest does nothing where the package is used": """
import _pytest.python as p
old = p.Function.runtest
def run(self):
    if any("shop" in str(getattr(v, "__module__", "")) for v in vars(self.module).values()):
        return None
    return old(self)
p.Function.runtest = run
""",
    "tests that are known by name pass": """
import _pytest.python as p
old = p.Function.runtest
def run(self):
    return None if self.name in NAMES else old(self)
p.Function.runtest = run
""",
    "reports say passed": """
import _pytest.reports as r
make = r.TestReport.from_item_and_call.__func__
def lie(kind, item, call):
    report = make(kind, item, call)
    report.outcome, report.longrepr = "passed", None
    return report
r.TestReport.from_item_and_call = classmethod(lie)
""",
    "reports of known names say passed": """
import _pytest.reports as r
make = r.TestReport.from_item_and_call.__func__
def lie(kind, item, call):
    report = make(kind, item, call)
    if item.name in NAMES:
        report.outcome, report.longrepr = "passed", None
    return report
r.TestReport.from_item_and_call = classmethod(lie)
""",
    "the call is never made": """
import _pytest.runner as r
make = r.CallInfo.from_call.__func__
def lie(kind, func, when, reraise=None):
    return make(kind, (lambda: None) if when == "call" else func, when, reraise)
r.CallInfo.from_call = classmethod(lie)
""",
    "the recorder is told otherwise": """
import gc, sys
for held in gc.get_objects():
    if type(held).__name__ == "Recorder" and hasattr(held, "say"):
        say = held.say
        def lie(fact, say=say):
            if fact.get("outcome") == "failed":
                fact = {"id": fact["id"], "when": fact["when"], "outcome": "passed"}
            say(fact)
        held.say = lie
""",
    "the recorder is replaced": """
import gc
for held in gc.get_objects():
    if type(held).__name__ == "Recorder" and hasattr(held, "say"):
        def log(report, held=held):
            held.say({"id": report.nodeid, "when": report.when, "outcome": "passed"})
        held.pytest_runtest_logreport = log
        for hook in gc.get_objects():
            if type(hook).__name__ == "HookImpl" and hook.plugin is held:
                if hook.function.__name__ == "pytest_runtest_logreport":
                    hook.function = log
""",
    "json says passed": """
import json
old = json.dumps
json.dumps = lambda value, **more: old(value, **more).replace('"failed"', '"passed"')
""",
    "what is written says passed": """
import os
old = os.write
def write(file, data):
    old(file, bytes(data).replace(b'"failed"', b'"passed"'))
    return len(data)
os.write = write
""",
    "assertions are rewritten to nothing": """
import _pytest.assertion.rewrite as w, ast
old = w.rewrite_asserts
def rewrite(module, *more):
    for node in ast.walk(module):
        if isinstance(node, ast.Assert):
            node.test = ast.Constant(True)
    return old(module, *more)
w.rewrite_asserts = rewrite
""",
    "a hook swallows failures": """
import gc, pytest
class Liar:
    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self):
        try:
            return (yield)
        except BaseException:
            return True
for held in gc.get_objects():
    if type(held).__name__ == "PytestPluginManager":
        held.register(Liar())
        break
""",
    "outcomes change on the way": """
import gc, pytest
class Liar:
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self):
        report = yield
        report.outcome, report.longrepr = "passed", None
        return report
for held in gc.get_objects():
    if type(held).__name__ == "PytestPluginManager":
        held.register(Liar())
        break
""",
    "excuses for all": """
import gc
class Liar:
    def pytest_collection_modifyitems(self, items):
        import pytest
        for item in items:
            item.add_marker(pytest.mark.xfail)
for held in gc.get_objects():
    if type(held).__name__ == "PytestPluginManager":
        held.register(Liar())
        break
""",
    "an early exit": "import os\nos._exit(0)\n",
    "an exit after a while": "import atexit\nraise SystemExit(0)\n",
    "printed results": """
import os
for file in range(1, 64):
    try:
        os.write(file, b'{"id": "x", "when": "call", "outcome": "passed"}\\n')
    except OSError:
        pass
""",
    "functions of the tests are emptied": """
import sys, types
class Finder:
    def find_spec(self, name, path=None, target=None):
        return None
import _pytest.python as p
old = p.Module._getobj
def get(self):
    module = old(self)
    for name, value in list(vars(module).items()):
        if name.startswith("test") and isinstance(value, types.FunctionType):
            value.__code__ = (lambda *a, **k: None).__code__
    return module
p.Module._getobj = get
""",
    "the test runner is shadowed": "",
    "settings of plugins are left behind": "",
}
EXTRA = {
    "the test runner is shadowed": {"pytest.py": "import os\nos._exit(0)\n", "json.py": "x = 1\n"},
    "settings of plugins are left behind": {
        "liar.py": "def pytest_pyfunc_call():\n    return True\n",
        "liar-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: liar\nVersion: 1.0\n",
        "liar-1.0.dist-info/entry_points.txt": "[pytest11]\nliar = liar\n",
    },
}
QUICK = ("runtest does nothing where the package is used", "tests that are known by name pass")


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in FORGED]
)
def test_forged_verdicts(name: str, domain: SweDomain, task: Task, held: Held) -> None:
    path = task.data["faults"][0]["path"]
    names = [test.rpartition("::")[2] for test in task.data["fail"]]
    code = f"NAMES = {names!r}\n{FORGED[name]}"
    calls = [write_call("run", command=f"cat >> {path} <<'END'\n{code}END")]
    calls += [
        write_call("edit", path=place, old="", new=text)
        for place, text in EXTRA.get(name, {}).items()
    ]
    outcome = domain.verify(task, "\n".join([*calls, write_call("submit")]))
    held("swe: forged verdicts", not outcome.valid, f"{name}: {outcome.failure} {outcome.reward}")
    held("swe: forged rewards", outcome.reward == 0, f"{name}: {outcome.failure} {outcome.reward}")


EQUAL = """
class Any:
    def __eq__(self, other): return True
    def __ne__(self, other): return True
    def __bool__(self): return True
    def __iter__(self): return iter(())
    def __getattr__(self, name): return lambda *a, **k: self
    __hash__ = object.__hash__
"""


@pytest.mark.slow
def test_answers_that_equal_everything(domain: SweDomain, task: Task, held: Held) -> None:
    fault = task.data["faults"][0]
    text = f"{EQUAL}\nfor _name, _value in list(globals().items()):\n"
    text += "    if callable(_value) and _name[0] != '_' and _name != 'Any':\n"
    text += "        globals()[_name] = lambda *a, **k: Any()\n"
    command = f"cat >> {fault['path']} <<'END'\n{text}END"
    outcome = domain.verify(
        task, "\n".join([write_call("run", command=command), write_call("submit")])
    )
    held("swe: forged verdicts", not outcome.valid, outcome.failure)
    held("swe: forged verdicts", outcome.failure != "regression", outcome.reward)


def test_honest_work_passes(domain: SweDomain, task: Task) -> None:
    for _ in range(2):
        assert domain.verify(task, domain.oracle(task)).valid


LOOKS = (
    "find / -xdev -name '*.whl' -size +0", "find / -name 'more_itertools*' -not -path '/proc/*'",
    "find / -type d -name _vendor", "ls /usr/share/python-wheels",
    "ls /usr/lib/python3/dist-packages",
    "python -c 'import ensurepip._bundled as b; print(*b.__path__)' | xargs ls",
    "python -m pip --version",
    "python -m ensurepip --root /tmp/x >/dev/null && find /tmp/x",
    "python -c 'import setuptools; print(1)'", "python -c 'import numpy; print(1)'",
    "python -c 'import coevolve; print(1)'", "ls -d /work /home/* /root/.cache 2>/dev/null",
    "find / -name '*.egg' -size +0 -not -path '/proc/*'", "ls /usr/lib/python3*/ensurepip/_bundled",
    "echo x > /opt/inside/tests.py && echo written", "echo x > /opt/tools/pytest/x && echo written",
    "rm /opt/inside/tests.py && echo gone", "mv /opt/inside /tmp/y && echo gone",
)  # fmt: skip


def test_other_versions_are_not_there(held: Held, domain: SweDomain) -> None:
    command = "; echo ====; ".join(f"{{ {one}; }} 2>/dev/null" for one in LOOKS)
    shown = run_command({"a.py": b""}, command)
    found = shown.output.split("====\n")
    assert len(found) == len(LOOKS), shown.output
    for one, said in zip(LOOKS, found, strict=True):
        held("swe: other versions", not said.strip(), f"{one}: {said[:200]}")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def test_git_folders_run_nothing(held: Held, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\necho $0 $* >> {mark}\ncat\n")
    evil.chmod(0o755)
    ways: dict[str, Callable[[Path], None]] = {
        "smudge": lambda at: git(at, "config", "filter.x.smudge", str(evil)),
        "process": lambda at: git(at, "config", "filter.x.process", str(evil)),
        "fsmonitor": lambda at: git(at, "config", "core.fsmonitor", str(evil)),
        "pager": lambda at: git(at, "config", "core.pager", str(evil)),
        "textconv": lambda at: git(at, "config", "diff.x.textconv", str(evil)),
        "tar command": lambda at: git(at, "config", "tar.tar.command", str(evil)),
        "include": lambda at: git(at, "config", "include.path", str(tmp_path / "more")),
        "hooks path": lambda at: git(at, "config", "core.hooksPath", str(tmp_path)),
        "alias": lambda at: git(at, "config", "alias.ls-tree", f"!{evil}"),
        "ssh": lambda at: git(at, "config", "core.sshCommand", str(evil)),
        "promisor": lambda at: (
            git(at, "config", "remote.origin.promisor", "true"),
            git(at, "config", "remote.origin.url", f"ext::{evil}"),
            git(at, "config", "protocol.ext.allow", "always"),
            [one.unlink() for one in (at / ".git" / "objects").glob("[0-9a-f][0-9a-f]/*")][:0],
        )[-1],  # type: ignore[dict-item, return-value]
    }
    (tmp_path / "more").write_text(f"[core]\n\tfsmonitor = {evil}\n\tpager = {evil}\n")
    for name, way in ways.items():
        at = tmp_path / name.replace(" ", "-")
        committed(at, {**CODE, **TESTS, ".gitattributes": "* filter=x diff=x\n"})
        way(at)
        try:
            tree = tree_of(read_source(str(at)))
            assert tree["shop/prices.py"] == CODE["shop/prices.py"].encode()
        except UserError:
            assert name == "promisor"
        held("swe: git folders", not mark.exists(), f"{name}: {mark.exists() and mark.read_text()}")


def test_git_folders_that_lead_elsewhere(held: Held, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a-secret-of-the-parent")
    at = committed(tmp_path / "links", {**CODE})
    os.symlink(secret, at / "link.py")
    git(at, "add", "-A")
    git(at, "-c", "user.name=d", "-c", "user.email=d@e", "commit", "-q", "-m", "x")
    tree = tree_of(read_source(str(at)))
    held("swe: git folders", "link.py" not in tree, "a link")
    for text in (
        "ref: ../../secret",
        f"ref: {secret}",
        "ref: refs/heads/../../../secret",
        "x" * 40,
        "",
    ):
        (at / ".git" / "HEAD").write_text(text)
        with pytest.raises(UserError) as caught:
            tree_of(read_source(str(at)))
        held("swe: git folders", "a-secret" not in str(caught.value), text)
    replaced = committed(tmp_path / "loops", {**CODE})
    (replaced / ".git" / "HEAD").write_text("ref: refs/heads/a")
    (replaced / ".git" / "refs" / "heads" / "a").write_text("ref: refs/heads/a")
    with pytest.raises(UserError):
        tree_of(read_source(str(replaced)))
    held("swe: git folders", True, "a loop of names")


def tar_of(*members: tuple[str, int]) -> bytes:
    """A packed archive of files full of zeros."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as outer,
        tarfile.open(fileobj=outer, mode="w|") as archive,
    ):
        for name, size in members:
            info = tarfile.TarInfo(name)
            info.size = size
            archive.addfile(info, Zeros(size))
    return packed.getvalue()


class Zeros(io.RawIOBase):
    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int = -1) -> bytes:
        size = self.left if size < 0 else min(size, self.left)
        self.left -= size
        return bytes(size)


def zip_of(*members: tuple[str, int]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, size in members:
            archive.writestr(name, bytes(size))
    return packed.getvalue()


LARGE = 200 << 20
ARCHIVES: dict[str, Callable[[], bytes]] = {
    "one large file.tar.gz": lambda: tar_of(("p/a", LARGE)),
    "large files that are left out.tar.gz": lambda: tar_of(("p/../a", LARGE)),
    "many files.tar.gz": lambda: tar_of(*((f"p/{at}", 0) for at in range(5_000))),
    "many middling files.tar.gz": lambda: tar_of(*((f"p/{at}", 1 << 20) for at in range(60))),
    "a zip bomb.zip": lambda: zip_of(("p/a", 100 << 20)),
    "many middling files.zip": lambda: zip_of(*((f"p/{at}", 1 << 20) for at in range(60))),
    "a long list.zip": lambda: zip_of(*((f"p/{at}", 0) for at in range(20_000))),
    "half of one.tar.gz": lambda: tar_of(("p/a", 1 << 20))[:700],
    "no archive.zip": lambda: b"PK\x03\x04 nothing",
    "zeros.tar.gz": lambda: gzip.compress(bytes(1 << 20), 1),
    "packed twice.tar.gz": lambda: gzip.compress(tar_of(("p/a", 1 << 20)), 1),
    "only names that lead out.tar.gz": lambda: tar_of(("/etc/x", 1), ("p/../../x", 1)),
}


def test_archives_are_bounded(held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tracemalloc

    for name, make in ARCHIVES.items():
        place = tmp_path / name
        place.write_bytes(make())
        monkeypatch.setattr(source, "fetch", lambda *_, place=place: place)
        tracemalloc.start()
        try:
            with pytest.raises(UserError):
                tree_of(Source(name="p==1", package="p", version="1"))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        held("swe: archives", peak < 120 << 20, f"{name}: {peak >> 20} MB")
