"""Programs that try to leave the sandbox, to use more than they may, or to bring its owner down."""

import os
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coevolve.sandbox import seccomp
from coevolve.sandbox.bubblewrap import PYTHON, Bind
from coevolve.sandbox.judge import program
from coevolve.sandbox.limits import Limits
from coevolve.sandbox.run import run

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

Held = Callable[..., None]
LIMITS = Limits(cpu_s=20, wall_s=120, memory_mb=256, processes=16)
FRAME = """
try:
{body}
    print("through")
except Exception as error:
    print(type(error).__name__)
"""
REFUSED = {
    "BlockingIOError", "FileNotFoundError", "NotADirectoryError", "OSError", "OverflowError",
    "PermissionError", "ProcessLookupError", "MemoryError", "ConnectionRefusedError",
    "FileExistsError", "error", "ValueError", "RuntimeError", "ConnectionError", "TimeoutError",
    "InterruptedError", "IsADirectoryError",
}  # fmt: skip
FORKS = {
    "fork": "import os; os.fork()",
    "vfork by subprocess": "import subprocess; subprocess.run(['true'])",
    "spawn": "import os; os.posix_spawn('/bin/true', ['true'], {})",
    "system": "import os; assert os.system('true') == 0 or (_ for _ in ()).throw(OSError)",
    "popen": "import os; os.popen('true').read()",
    "pty": "import pty; pty.fork()",
    "forkpty": "import os; os.forkpty()",
    "multiprocessing fork": (
        "import multiprocessing as m; p = m.get_context('fork').Process(target=print); p.start()"
    ),
    "multiprocessing spawn": (
        "import multiprocessing as m; p = m.get_context('spawn').Process(target=print); p.start()"
    ),
    "process pool": (
        "import concurrent.futures as c; list(c.ProcessPoolExecutor(2).map(abs, [1]))"
    ),
    "exec": "import os; os.execv('/bin/true', ['true'])",
    "exec of a script": (
        "import os; open('s', 'w').write('#!/bin/true'); os.chmod('s', 0o755); "
        "os.execv('./s', ['s'])"
    ),
    "fexec": "import os; os.execve(os.open('/bin/true', os.O_RDONLY), ['true'], {})",
    "asyncio": (
        "import asyncio\n"
        "    async def go():\n        return await asyncio.create_subprocess_exec('true')\n"
        "    asyncio.run(go())"
    ),
}
FILES = {
    f"read {path}": f"open({path!r}).read()"
    for path in (
        "/etc/passwd", "/etc/shadow", "/etc/hosts", "/root/.bashrc", "/home", "/var/log/dpkg.log",
        "/proc/self/environ", "/proc/1/environ", "/proc/self/mem", "/proc/kcore", "/proc/kallsyms",
        "/proc/sys/kernel/random/boot_id", "/sys/kernel/notes", "/run/utmp", "/dev/mem",
        "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vsock",
        "/dev/loop0", "/sys/fs/cgroup/cgroup.procs", "/boot/config", "/mnt/x", "/opt/x",
        "/srv/x", "/work/x",
    )
}  # fmt: skip
WRITES = {
    f"write {path}": f"open({path!r}, 'w').write('x')"
    for path in (
        "/x", "/usr/x", "/usr/bin/python3", "/etc/x", "/etc/ld.so.preload", "/dev/x", "/dev/shm/x",
        "/bin/x", "/lib/x", "/proc/sys/kernel/core_pattern", "/proc/self/oom_score_adj",
        "/dev/pts/ptmx2", PYTHON, os.__file__,
    )
}  # fmt: skip
SOCKETS = {
    f"socket of family {family}": f"import socket; socket.socket({family}, {kind})"
    for family, kind in (
        (2, 1), (2, 2), (2, 3), (10, 1), (16, 3), (17, 3), (15, 3), (29, 3), (30, 1), (31, 3),
        (38, 5), (40, 1), (43, 1), (44, 3), (21, 5), (26, 1), (39, 3), (9, 5), (3, 2), (5, 2),
    )
}  # fmt: skip
MEMORY = {
    "memfd": "import os; os.memfd_create('x')",
    "shared memory without a file": "import mmap; mmap.mmap(-1, 4096)",
    "shared memory, many pages": "import mmap; mmap.mmap(-1, 64 << 20, mmap.MAP_SHARED)",
    "the device that maps to memory": (
        "import mmap; mmap.mmap(open('/dev/zero', 'r+b').fileno(), 4096)"
    ),
    "shared memory under a name": (
        "from multiprocessing.shared_memory import SharedMemory as S; S('x', True, 4096)"
    ),
    "more address space": "bytearray(300 << 20)",
    "limit lifted": "import resource as r; r.setrlimit(r.RLIMIT_AS, (-1, -1))",
    "clock lifted": "import resource as r; r.setrlimit(r.RLIMIT_CPU, (1000, 1000))",
    "files lifted": "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (9999, 9999))",
    "processes lifted": "import resource as r; r.setrlimit(r.RLIMIT_NPROC, (9999, 9999))",
    "file size lifted": "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (-1, -1))",
    "limits of the worker": (
        "import resource as r, os; r.prlimit(os.getppid(), r.RLIMIT_AS, (-1, -1))"
    ),
    "a file that is too large": "open('f', 'wb').truncate(1 << 30)",
    "more open files": "held = [open('/dev/null') for _ in range(200)]",
    "a higher priority": "import os; os.setpriority(os.PRIO_PROCESS, 0, -10)",
    "real time": "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
}
IDENTITY = {
    "root": "import os; os.setuid(0)",
    "group of root": "import os; os.setgid(0)",
    "groups": "import os; os.setgroups([0])",
    "chroot": "import os; os.chroot('/tmp')",
    "a node of the disk": "import os, stat; os.mknod('d', stat.S_IFBLK | 0o666, os.makedev(8, 0))",
    "a namespace": (
        "import ctypes, os; ctypes.CDLL(None).unshare(0x10000000) == 0 or os.stat('/none')"
    ),
    "a mount": (
        "import ctypes, os; ctypes.CDLL(None).mount(b'x', b'/tmp', b'tmpfs', 0, 0) == 0 "
        "or os.stat('/none')"
    ),
    "the name of the machine": "import socket; socket.sethostname('x')",
    "the clock": "import time; time.clock_settime(time.CLOCK_REALTIME, 0)",
    "a hard link out": "import os; os.link('/usr/bin/env', 'env')",
    "a signal to all processes outside": "import os; os.kill(4000000, 0)",
    "the worker traced": (
        "import ctypes, os; ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0 "
        "or os.stat('/none')"
    ),
    "the worker's files": (
        "import os, ctypes; f = os.pidfd_open(os.getppid()); "
        "ctypes.CDLL(None).syscall(438, f, 60, 0) >= 0 or os.stat('/none')"
    ),
    "the worker's memory": "import os; open(f'/proc/{os.getppid()}/mem', 'r+b')",
    "its own memory, from outside": "open('/proc/self/mem', 'r+b')",
    "the worker's folder of files": "import os; os.listdir(f'/proc/{os.getppid()}/fd')",
    "the worker's root": "import os; os.listdir(f'/proc/{os.getppid()}/root')",
    "bubblewrap's root": "import os; os.listdir('/proc/1/root')",
    "bubblewrap's folder": "import os; os.listdir('/proc/1/cwd')",
    "the worker's map": "import os; os.readlink(f'/proc/{os.getppid()}/exe')",
    "the worker killed by the kernel": (
        "import os; open(f'/proc/{os.getppid()}/oom_score_adj', 'w').write('1000')"
    ),
    "the pipes of the worker": (
        "import os\n"
        "    good = 0\n"
        "    for number in range(3, 64):\n"
        "        try:\n            os.write(number, b'x'); good += 1\n"
        "        except OSError:\n            pass\n"
        "    good > 1 or os.stat('/none')"
    ),
}
TRIES = {
    "sandbox: processes": FORKS,
    "sandbox: files read": FILES,
    "sandbox: files written": WRITES,
    "sandbox: sockets": SOCKETS,
    "sandbox: memory and limits": MEMORY,
    "sandbox: rights": IDENTITY,
}


@pytest.mark.parametrize("area", TRIES)
def test_programs_get_nothing(area: str, held: Held) -> None:
    for name, body in TRIES[area].items():
        with program(FRAME.format(body=f"    {body}"), LIMITS) as candidate:
            ran = candidate.run("")
        said = set(ran.stdout.split())
        held(area, said and said <= REFUSED, f"{name}: {ran.stop} {ran.stdout} {ran.stderr[-200:]}")


def test_what_is_meant_to_work_works() -> None:
    """Else the tries above would show nothing."""
    for body in (
        "import threading; t = threading.Thread(target=abs, args=(1,)); t.start(); t.join()",
        "import asyncio; asyncio.run(asyncio.sleep(0))",
        "import mmap; mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)",
        "open('f', 'wb').write(bytes(1 << 19))",
        "bytearray(100 << 20)",
        "import tempfile; tempfile.TemporaryFile().write(b'x')",
    ):
        with program(FRAME.format(body=f"    {body}"), LIMITS) as candidate:
            assert candidate.run("").stdout == "through\n", body


def test_calls_that_nobody_needs(held: Held) -> None:
    """Every number on the list, called as it is."""
    known = seccomp.machine()
    assert known is not None
    source = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"for number in {known.refused!r}:\n"
        "    ctypes.set_errno(0)\n"
        "    print(libc.syscall(number, 0, 0, 0, 0, 0, 0), ctypes.get_errno())\n"
    )
    with program(source, LIMITS) as candidate:
        lines = candidate.run("").stdout.splitlines()
    assert len(lines) == len(known.refused)
    for number, line in zip(known.refused, lines, strict=True):
        held("sandbox: system calls", line == "-1 1", f"call {number}: {line}")


def follow(calls: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What a filter says to a call: the kernel's interpreter, as far as filters here need it."""
    words = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *words)
    at = value = 0
    while True:
        code, yes, no, operand = struct.unpack_from("<HBBI", calls, at * 8)
        at += 1
        if code == seccomp.RETURN:
            return operand
        if code == seccomp.LOAD:
            value = struct.unpack_from("<I", data, operand)[0]
        elif code == seccomp.AND:
            value &= operand
        else:
            taken = {
                seccomp.JUMP_EQUAL: value == operand,
                seccomp.JUMP_ABOVE: value >= operand,
                seccomp.JUMP_BITS: bool(value & operand),
            }[code]
            at += yes if taken else no


@pytest.mark.parametrize("name", seccomp.MACHINES)
def test_filters_of_all_machines(name: str, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    known = seccomp.MACHINES[name]
    monkeypatch.setattr(platform, "machine", lambda: name)
    for one in (seccomp.machine, seccomp.program, seccomp.narrower):
        one.cache_clear()
    try:
        whole, alone, command = seccomp.program(), seccomp.narrower(True), seccomp.narrower(False)
    finally:
        monkeypatch.undo()
        for one in (seccomp.machine, seccomp.program, seccomp.narrower):
            one.cache_clear()
    assert whole is not None
    refuse, arch = seccomp.REFUSE, known.architecture
    area = "sandbox: filters"
    for number in known.refused:
        held(area, follow(whole, arch, number) == refuse | seccomp.EPERM, number)
    held(area, follow(whole, 0x40000003, 1) == seccomp.KILL, "another table")
    held(area, follow(whole, arch, 0x40000001) == refuse | seccomp.ENOSYS, "x32")
    for family in (0, 3, 9, 16, 17, 29, 38, 40, 44):
        said = follow(whole, arch, known.socket, family)
        held(area, said == refuse | seccomp.EAFNOSUPPORT, f"family {family}")
    for family in (1, 2, 10):
        assert follow(whole, arch, known.socket, family) == seccomp.ALLOW
    assert follow(whole, arch, known.socketpair, 1) == seccomp.ALLOW
    held(area, follow(whole, arch, known.socketpair, 30) != seccomp.ALLOW, "socketpair")
    held(area, follow(whole, arch, known.mmap, 0, 0, 3, 0x21) != seccomp.ALLOW, "shared")
    held(area, follow(whole, arch, known.mmap, 0, 0, 3, 0x23) != seccomp.ALLOW, "shared, checked")
    assert follow(whole, arch, known.mmap, 0, 0, 3, 0x22) == seccomp.ALLOW
    assert follow(whole, arch, known.mmap, 0, 0, 3, 0x01) == seccomp.ALLOW
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x10000000, 0x20000000, 0x40000000):
        held(area, follow(whole, arch, known.clone, flag | 17) != seccomp.ALLOW, hex(flag))
    thread = 0x3D0F00
    assert follow(whole, arch, known.clone, thread) == seccomp.ALLOW
    assert follow(alone, arch, known.clone, thread) == seccomp.ALLOW
    for flags in (17, 0x4111, 0, 0x1200011):
        held(area, follow(alone, arch, known.clone, flags) == refuse | seccomp.EAGAIN, hex(flags))
        assert follow(command, arch, known.clone, flags) == seccomp.ALLOW
    for number in (*known.forks, *known.executes, known.memfd_create):
        held(area, follow(alone, arch, number) != seccomp.ALLOW, number)
    held(area, follow(command, arch, known.memfd_create) != seccomp.ALLOW, "memfd")
    held(area, follow(alone, arch, known.socket, 2) != seccomp.ALLOW, "internet")
    assert follow(command, arch, known.executes[0]) == seccomp.ALLOW


GREEDY = {
    "seven processes": (
        "import os, time\n"
        "for _ in range(7):\n"
        "    if os.fork() == 0:\n        held = b'x' * (100 << 20)\n        time.sleep(100)\n"
        "time.sleep(100)",
        {"memory"},
    ),
    "in orphans of orphans": (
        "import os, time\n"
        "for _ in range(9):\n"
        "    if os.fork() == 0:\n"
        "        if os.fork() == 0:\n"
        "            os.setsid()\n            held = b'x' * (80 << 20)\n"
        "            time.sleep(100)\n"
        "        os._exit(0)\n"
        "time.sleep(100)",
        {"memory"},
    ),
    "many empty files": (
        "n = 0\nwhile True:\n    n += 1\n    open(f'/tmp/{n}', 'w').close()",
        {"output"},
    ),
    "many folders": (
        "import os\nn = 0\nwhile True:\n    n += 1\n    os.mkdir(f'/tmp/{n}')",
        {"output"},
    ),
    "many links": (
        "import os\nn = 0\nwhile True:\n    n += 1\n    os.symlink('x', f'/tmp/{n}')",
        {"output"},
    ),
    "processor time of many": (
        "import os\nfor _ in range(3):\n    os.fork()\nwhile True:\n    pass",
        {"time"},
    ),
    "processor time of those that nobody waits for": (
        "import os, signal, time\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "while True:\n"
        "    if os.fork() == 0:\n"
        "        while time.process_time() < 0.3:\n            pass\n"
        "        os._exit(0)\n"
        "    try:\n        os.wait()\n    except OSError:\n        pass",
        {"time"},
    ),
    "a fresh clock for each": (
        "import os, time\n"
        "while True:\n"
        "    if os.fork():\n        os._exit(0) if os.getppid() == 1 else os.wait()\n"
        "    while time.process_time() < 0.3:\n        pass",
        {"time"},
    ),
    "output": ("import os\nwhile True:\n    os.write(1, b'x' * 65536)", {"output"}),
    "errors": ("import os\nwhile True:\n    os.write(2, b'x' * 65536)", {"output"}),
    "processes": (
        "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(100)",
        {"processes"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GREEDY)
def test_limits_add_up(name: str, held: Held) -> None:
    source, stops = GREEDY[name]
    limits = LIMITS.model_copy(update={"cpu_s": 3})
    ran = run([PYTHON, "-c", source], limits=limits)
    held("sandbox: limits of a whole", ran.stop in stops, f"{name}: {ran.stop} {ran.stderr[-300:]}")


PEEKS = (
    "ls /proc/sys/* 2>/dev/null", "cat /proc/kallsyms", "cat /proc/keys", "cat /proc/modules",
    "cat /proc/cmdline", "cat /proc/iomem", "cat /proc/config.gz", "cat /proc/partitions",
    "cat /proc/version", "cat /proc/interrupts", "ls /proc/fs/*", "cat /proc/timer_list",
    "cat /proc/1/environ", "cat /proc/1/mem", "ls /proc/1/fd", "cat /proc/2/mem", "ls /proc/2/fd",
    "cat /proc/2/environ", "ls /sys/*",
)  # fmt: skip


def test_proc_tells_little(held: Held, tmp_path: Path) -> None:
    binds = (Bind(source=tmp_path, target="/opt/x"),)
    script = "; echo ====; ".join(f"{{ {one}; }} 2>/dev/null" for one in PEEKS)
    ran = run(["sh", "-c", script], binds=binds, limits=LIMITS)
    found = ran.stdout.split("====\n")
    assert len(found) == len(PEEKS)
    for one, said in zip(PEEKS, found, strict=True):
        told = "\n".join(line for line in said.splitlines() if not line.endswith(":")).strip()
        held("sandbox: /proc of commands", not told, f"{one}: {told[:80]}")


AS_OTHERS = """
import os
from coevolve.core.errors import UserError
from coevolve.sandbox.judge import program
from coevolve.sandbox.limits import Limits
from coevolve.sandbox.run import run
assert os.getuid() != 0
try:
    with program("import os\\nprint(6 * 7)\\nos.fork()", Limits(cpu_s=20, wall_s=120)) as one:
        print(one.run("").stdout.strip(), one.run("").stop)
    many = "n = 0\\nwhile True:\\n    n += 1\\n    open(f'/tmp/{n}', 'w').close()"
    print(run(["python3", "-c", many], limits=Limits(cpu_s=20, wall_s=120)).stop)
except UserError as error:
    print("refused", "COEVOLVE_SANDBOX=none" in str(error), "your network" in str(error))
"""


@pytest.mark.parametrize("namespaces", [True, False])
def test_as_an_ordinary_user(namespaces: bool, held: Held) -> None:
    """With namespaces all is as for root; without them nothing runs, and it is said why."""
    words = ["bwrap", "--unshare-user", "--uid", "1000", "--gid", "1000", "--bind", "/", "/"]
    words += ["--dev-bind", "/dev", "/dev", *([] if namespaces else ["--disable-userns"])]
    asked = [*words, sys.executable, "-c", AS_OTHERS]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=600)
    wanted = ["42", "processes", "output"] if namespaces else ["refused", "True", "True"]
    held("sandbox: other users", done.stdout.split() == wanted, done.stdout + done.stderr[-400:])
