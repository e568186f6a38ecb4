"""The sandbox holds: programs that try to get out or to bring it down end in their failure class,
and nothing of them is left."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import alive

from coevolve.core.errors import UserError
from coevolve.harness.plan import make_plan
from coevolve.sandbox import bubblewrap
from coevolve.sandbox.bubblewrap import PYTHON, Bind
from coevolve.sandbox.judge import DEAD, check, program
from coevolve.sandbox.limits import Limits, Ran
from coevolve.sandbox.pool import close_pools
from coevolve.sandbox.run import run
from coevolve.store.gauge import gauge_of

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

QUICK = Limits(cpu_s=1, wall_s=3, memory_mb=256, processes=16)
MARK = "a-secret-of-the-parent"


def children() -> set[int]:
    """Processes that this one has started, and theirs."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    found, before = {os.getpid()}, set()
    while found != before:
        before = set(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found - {os.getpid()}


@pytest.fixture(autouse=True)
def nothing_left():
    """After each test: no process, no mount, no open file more than before."""
    close_pools()
    mounts = Path("/proc/self/mounts").read_text()
    files, before = len(os.listdir("/proc/self/fd")), children()
    yield
    close_pools()
    assert children() <= before
    assert Path("/proc/self/mounts").read_text() == mounts
    assert len(os.listdir("/proc/self/fd")) <= files


def play(source: str, limits: Limits = QUICK, stdin: str = "") -> Ran:
    """Run a program the way answers are judged."""
    began = time.monotonic()
    with program(source, limits) as candidate:
        ran = candidate.run(stdin)
        assert candidate.problem == ""
    assert time.monotonic() - began < limits.wall_s + 30
    return ran


BOMBS = {
    "fork bomb": ("import os\nwhile True:\n    os.fork()", {"processes"}),
    "fork bomb that goes on": (
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
        {"time"},
    ),
    "thread bomb": (
        "import threading, time\n"
        "while True:\n    threading.Thread(target=time.sleep, args=(60,)).start()",
        {"processes"},
    ),
    "memory bomb": ("held = []\nwhile True:\n    held.append(bytearray(1 << 20))", {"memory"}),
    "one huge list": ("held = [0] * 10**10", {"memory"}),
    "memory mapped": ("import mmap\nmmap.mmap(-1, 1 << 40)", {"ok", "memory"}),
    "endless output": ("while True:\n    print('x' * 1000)", {"output"}),
    "endless errors": ("import sys\nwhile True:\n    sys.stderr.write('x' * 1000)", {"output"}),
    "endless file": (
        "with open('f', 'wb') as f:\n    while True:\n        f.write(b'x' * 1000000)",
        {"ok"},
    ),
    "many files": (
        "i = 0\nwhile True:\n    i += 1\n    open(f'f{i}', 'wb').write(b'x' * 500000)",
        {"ok"},
    ),
    "busy loop": ("while True:\n    pass", {"time"}),
    "sleep": ("import time\ntime.sleep(60)", {"time"}),
    "ignored signals": (
        "import signal, time\n"
        "for n in range(1, 32):\n"
        "    try:\n        signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n        pass\n"
        "time.sleep(60)",
        {"time"},
    ),
    "ignored signals, busy": (
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True:\n    pass",
        {"time"},
    ),
    "crash": ("import ctypes\nctypes.string_at(0)", {"killed"}),
    "kills everybody": ("import os\nos.kill(-1, 9)", {"ok", "killed"}),
    "kills its reaper": ("import os\nos.kill(1, 9)\nos.kill(os.getppid(), 9)", {"ok"}),
    "deep recursion": ("def f():\n    f()\nf()", {"ok"}),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_in_their_class(name):
    source, stops = BOMBS[name]
    ran = play(source)
    assert ran.stop in stops, (ran.stop, ran.code, ran.stderr[-200:])
    assert ran.stop != "ok" or ran.code != 0 or name in ("kills its reaper", "kills everybody")


def test_a_daemon_dies_with_its_run():
    source = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        for n in range(3):\n            os.close(n)\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "print('done')\n"
    )
    assert play(source).stop == "processes"
    before = children()
    ran = run([PYTHON, "-c", source], limits=QUICK)
    assert (ran.stop, ran.stdout) == ("ok", "done\n")
    assert ran.seconds < 3
    close_pools()
    assert children() <= before


def test_no_network():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        source = (
            "import socket\n"
            f"for place in (('127.0.0.1', {port}), ('8.8.8.8', 53)):\n"
            "    try:\n"
            "        socket.create_connection(place, 1)\n"
            "        print('open')\n"
            "    except OSError as error:\n"
            "        print(type(error).__name__)\n"
        )
        program, command = play(source), run([PYTHON, "-c", source], limits=QUICK)
    assert program.stdout.split() == ["OSError", "OSError"]
    assert len(command.stdout.split()) == 2
    assert "open" not in command.stdout


def test_no_environment_and_no_files_of_the_parent(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", MARK)
    secret = tmp_path / "secret.txt"
    secret.write_text(MARK)
    (Path.home() / ".coevolve-test").write_text(MARK)
    try:
        source = (
            "import glob, os\n"
            "print(sorted(os.environ))\n"
            f"for path in [{str(secret)!r}, {str(Path.home() / '.coevolve-test')!r}, "
            f"{str(Path(__file__))!r}, '/etc/shadow', '/etc/passwd', '/work', '/home', "
            "'/sys', '/run', '/var', '/boot', '/mnt']:\n"
            "    print(os.path.lexists(path), end=' ')\n"
            "print()\n"
            "print(os.listdir('/tmp'), os.path.expanduser('~'))\n"
            "for path in ('/', '/usr', '/etc', '/dev', '/dev/shm', '/proc/sys/kernel/hostname'):\n"
            "    try:\n"
            "        open(path + ('' if 'proc' in path else '/f'), 'w').write('x')\n"
            "        print('wrote', path)\n"
            "    except OSError as error:\n"
            "        print(error.strerror)\n"
        )
        ran = play(source)
    finally:
        (Path.home() / ".coevolve-test").unlink()
    lines = ran.stdout.splitlines()
    assert lines[0] == "['HOME', 'LANG', 'PATH', 'PWD', 'PYTHONHASHSEED']"
    assert set(lines[1].split()) == {"False"}
    assert lines[2] == "[] /tmp"
    assert not any(line.startswith("wrote") for line in lines)
    assert MARK not in ran.stdout + ran.stderr


def test_proc_shows_nothing_of_the_parent(monkeypatch):
    monkeypatch.setenv("SECRET", MARK)
    source = (
        "import os\n"
        "pids = sorted(int(name) for name in os.listdir('/proc') if name.isdigit())\n"
        "print(pids)\n"
        "for pid in pids:\n"
        "    for name in ('environ', 'cmdline', 'cwd', 'root'):\n"
        "        path = f'/proc/{pid}/{name}'\n"
        "        try:\n"
        "            link = name in ('cwd', 'root')\n"
        "            print(os.readlink(path) if link else open(path).read()[:9000])\n"
        "        except OSError as error:\n"
        "            print(error.strerror)\n"
        "print(open('/proc/self/status').read())\n"
    )
    ran = play(source)
    pids = eval(ran.stdout.splitlines()[0])
    assert len(pids) == 3
    assert max(pids) < 20
    assert MARK not in ran.stdout
    status = dict(line.split(":\t", 1) for line in ran.stdout.splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert os.getuid() != 0 or status["Uid"].split()[0] != "0"


def test_the_kernel_is_not_asked_for_more():
    """No mounting, no namespace, no memory outside of all address spaces, no new identity."""
    source = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))\n"
        "print(libc.umount2(b'/tmp', 2))\n"
        "print(libc.unshare(0x10000000))\n"
        "print(libc.shmget(0, 1 << 20, 0o1600))\n"
        "print(libc.ptrace(16, os.getppid(), 0, 0))\n"
        "for call in (os.setuid, os.setgid):\n"
        "    try:\n        call(0)\n        print('became root')\n"
        "    except OSError:\n        print(-1)\n"
        "try:\n    os.chroot('/tmp')\n    print('chroot')\n"
        "except OSError:\n    print(-1)\n"
    )
    assert play(source).stdout.split() == ["-1"] * 8


def test_links_lead_nowhere(tmp_path):
    """A bound folder is all there is: links out of it find nothing, hard links cannot be made."""
    work, outside = tmp_path / "work", tmp_path / "outside.txt"
    work.mkdir()
    (work / "own.txt").write_text("own")
    outside.write_text(MARK)
    source = (
        "import os\n"
        f"os.symlink({str(outside)!r}, 'link')\n"
        "os.symlink('../outside.txt', 'relative')\n"
        "for name in ('link', 'relative', '../outside.txt'):\n"
        "    try:\n        print(open(name).read())\n"
        "    except OSError as error:\n        print(error.strerror)\n"
        f"for path in ({str(outside)!r}, '/usr/bin/env'):\n"
        "    try:\n        os.link(path, 'hard')\n        print('linked')\n"
        "    except OSError as error:\n        print(error.strerror)\n"
        "open('own.txt', 'w').write('changed')\n"
    )
    bind = Bind(source=work, target="/project", writable=True)
    ran = run([PYTHON, "-c", source], binds=(bind,), folder="/project", limits=QUICK)
    assert ran.stop == "ok", ran
    assert ran.code == 0, ran
    assert MARK not in ran.stdout
    assert "linked" not in ran.stdout
    assert (work / "own.txt").read_text() == "changed"
    assert outside.read_text() == MARK


def test_read_only_binds_cannot_be_written_over(tmp_path):
    (tmp_path / "tests.py").write_text("assert False")
    source = (
        "import os\n"
        "for act in (lambda: open('/tests/tests.py', 'w'), lambda: os.remove('/tests/tests.py'),\n"
        "            lambda: os.rename('/tests', '/tmp/t'),\n"
        "            lambda: os.chmod('/tests/tests.py', 0)):\n"
        "    try:\n        act()\n        print('did it')\n"
        "    except OSError as error:\n        print(error.strerror)\n"
    )
    bind = Bind(source=tmp_path, target="/tests")
    ran = run([PYTHON, "-c", source], binds=(bind,), limits=QUICK)
    assert "did it" not in ran.stdout
    assert len(ran.stdout.splitlines()) == 4
    assert (tmp_path / "tests.py").read_text() == "assert False"


def test_the_same_program_says_the_same_every_time():
    source = "def solve(text):\n    return list(set(text))"
    found = []
    for _ in range(3):
        with program(source, Limits(cpu_s=2)) as candidate:
            found.append(candidate.call("solve", ["abcdefgh"]).value)
        close_pools()
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("number", range(56, 66))
def test_whatever_number_a_pipe_gets_a_program_runs(number):
    """Open files up to a number, so that the next worker's pipes begin there."""
    close_pools()
    opened = []
    while not opened or opened[-1] < number:
        opened.append(os.open("/dev/null", os.O_RDONLY))
    try:
        with program("print(6 * 7)", Limits(cpu_s=2)) as candidate:
            assert candidate.run("").stdout == "42\n"
    finally:
        for file in opened:
            os.close(file)
        close_pools()


def test_what_a_command_was_told_is_not_found_again(tmp_path):
    code = """
import os
folder = f"/proc/{os.getppid()}/fd"
try:
    print(os.listdir(folder))
except PermissionError:
    print("hidden")
"""
    binds = (Bind(source=tmp_path, target="/opt/x"),)
    assert run([PYTHON, "-c", code], stdin="a secret", binds=binds).stdout == "hidden\n"


def test_runs_of_one_program_and_programs_do_not_meet():
    with program("import os\nprint(os.listdir('.'))\nopen('left', 'w').write('x')", QUICK) as one:
        first = one.run("")
    with program("import os\nprint(os.listdir('.'))", QUICK) as two:
        assert (first.stdout, two.run("").stdout) == ("[]\n", "[]\n")


TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n"
CHEATS = {
    "leaves early": "import os\nos._exit(0)",
    "leaves politely": "import sys\nsys.exit(0)",
    "leaves when called": "import os\ndef f(x):\n    os._exit(0)",
    "says it passed": "print('2 passed')\ndef f(x):\n    print('=4')\n    return 'ok'",
    "is equal to all": (
        "class E(int):\n    def __eq__(self, other):\n        return True\n"
        "    __hash__ = int.__hash__\ndef f(x):\n    return E(-1)"
    ),
    "patches the builtins": (
        "import builtins\nbuiltins.AssertionError = SystemExit\nbuiltins.bool = lambda x: True\n"
        "builtins.isinstance = lambda *x: True\ndef f(x):\n    return None"
    ),
    "patches the runner": (
        "import sys, os\nframe = sys._getframe()\n"
        "while frame.f_back:\n    frame = frame.f_back\n"
        "for name in list(frame.f_globals):\n"
        "    if callable(frame.f_globals[name]):\n"
        "        frame.f_globals[name] = lambda *x, **y: b'=4'\n"
        "def f(x):\n    return None"
    ),
    "writes the verdict": (
        "import os\nfor n in range(3, 80):\n"
        "    try:\n        os.write(n, b'=true')\n    except OSError:\n        pass\n"
        "def f(x):\n    os._exit(0)"
    ),
    "writes to its parent": (
        "import os, glob\nfor path in glob.glob('/proc/1/fd/*'):\n"
        "    try:\n        open(path, 'wb').write(b'\\0\\0\\0\\x05=true')\n"
        "    except OSError:\n        pass\n"
        "def f(x):\n    return None"
    ),
    "at exit": (
        "import atexit, os\natexit.register(lambda: os._exit(0))\n"
        "def f(x):\n    raise SystemExit(0)"
    ),
    "in a thread": (
        "import threading, os\nthreading.Thread(target=os._exit, args=(0,)).start()\n"
        "def f(x):\n    import time\n    time.sleep(1)\n    return None"
    ),
    "looks for what is wanted": (
        "import gc\ndef f(x):\n"
        "    for held in gc.get_objects():\n"
        "        if isinstance(held, dict) and 'wanted' in held:\n"
        "            return held['wanted']\n"
        "    return open('/proc/self/environ').read() + open('/proc/1/environ').read()"
    ),
    "overwrites the tests": (
        "import os\nfor folder, _, names in os.walk('/tmp'):\n"
        "    for name in names:\n        os.remove(os.path.join(folder, name))\n"
        "open('/tmp/test.py', 'w').write('def check(c): pass')\ndef f(x):\n    return None"
    ),
}


@pytest.mark.parametrize("name", CHEATS)
def test_nothing_passes_but_what_is_right(name):
    with program(CHEATS[name], QUICK) as candidate:
        found = check(candidate, "f", TEST, "", QUICK)
        assert found.passed == 0, found
        assert found.failed == 2 or found.broken, found
        assert candidate.call("f", (2,)).value != 4
    with program("def f(x):\n    return x * x", QUICK) as candidate:
        assert check(candidate, "f", TEST, "", QUICK)[:2] == (2, 0)


def test_without_bubblewrap_it_refuses(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    bubblewrap.program.cache_clear()
    try:
        with pytest.raises(UserError, match=r"apt-get install bubblewrap.*COEVOLVE_SANDBOX=none"):
            run([PYTHON, "-c", "print(1)"])
    finally:
        bubblewrap.program.cache_clear()


def test_no_wall_only_if_it_is_said(monkeypatch):
    monkeypatch.setenv("COEVOLVE_SANDBOX", "none")
    ran = play("import os\nprint(os.path.exists('/work') or os.path.exists('/etc/passwd'))")
    assert ran.stdout == "True\n"
    assert play("while True:\n    pass").stop == "time"
    monkeypatch.setenv("COEVOLVE_SANDBOX", "bubblewarp")
    with pytest.raises(UserError, match="did you mean 'bubblewrap'"):
        run(["true"])


def test_the_file_of_a_run_may_say_it_too(monkeypatch):
    monkeypatch.setenv("COEVOLVE_SANDBOX", "bubblewrap")
    silent = make_plan({"domain": "code"}, "run.toml")
    gauge_of(silent)
    assert bubblewrap.kind() == "bubblewrap"
    assert "sandbox" not in silent.model_dump(mode="json")
    gauge_of(make_plan({"domain": "code", "sandbox": "none"}, "run.toml"))
    assert bubblewrap.kind() == "none"
    with pytest.raises(UserError, match=r"run\.toml: sandbox = 'docker': .*'none'"):
        make_plan({"domain": "code", "sandbox": "docker"}, "run.toml")


@pytest.mark.parametrize(
    "said",
    [
        b"", b"0 0 1", b"one", b"99 0 0 0 0 0 0\n", b"-99 0 0 0 0 0 0\n", b"0 0 0 0 5 0 0\n",
        b"0 0 0 0 -1 1 0\n", b"0 0 " + b"9" * 400 + b" 0 0 0 0\n", b"9" * 9_999,
    ],
    ids=lambda said: said[:12],
)  # fmt: skip
def test_a_worker_that_talks_nonsense_counts_as_killed(said, monkeypatch):
    with program("print(1)", QUICK) as candidate:
        monkeypatch.setattr(candidate, "hear", lambda deadline: said)
        assert candidate.run("") == DEAD
        assert not candidate.alive


def test_workers_die_with_this_process():
    """Killed outright, it leaves nobody behind."""
    source = (
        "import time\n"
        "from coevolve.sandbox.judge import program\n"
        "with program('import time\\ntime.sleep(600)') as candidate:\n"
        "    print('ready', flush=True)\n"
        "    candidate.run('')\n"
    )
    others = children()
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    deadline = time.monotonic() + 60
    while len(family := children() - others) <= 2:
        assert time.monotonic() < deadline, "no worker was started"
        time.sleep(0.05)
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in family):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)
