"""The wall: the command line that starts a process with nothing but a system to read.

Invariant: what runs behind it sees no network, no file of this machine beyond the system and the
interpreter, no process but its own, and an environment of three variables. Where the wall cannot be
had, nothing runs unless the user has said that it may run without one.
"""

import os
import platform
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Literal

from coevolve.core.errors import SandboxError, UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Value
from coevolve.sandbox import seccomp

SETTING = "COEVOLVE_SANDBOX"
"""Environment variable: bubblewrap (the default) or none."""
PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
"""The interpreter that programs run in, without any installed package."""
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
LINKS = ("/bin", "/sbin", "/lib", "/lib64", "/lib32")
ETC = ("/etc/ld.so.cache", "/etc/alternatives")
KEPT = ("self", "thread-self", "mounts", "net", "cpuinfo", "meminfo", "stat", "uptime", "loadavg")
"""What a command sees in /proc beside its own processes."""
TELLING = ("kallsyms", "kcore", "sys")
"""What not even a short program sees."""
STRANGERS = 1 << 30
"""User ids from here on belong to nobody; a worker of root runs under one of its own."""


class Bind(Value):
    """A folder of this machine that a program is to see."""

    source: Path
    target: str
    """Where it sees it: an absolute path."""
    writable: bool = False


def kind() -> Literal["bubblewrap", "none"]:
    """Which wall the user has chosen."""
    kinds: dict[str, Literal["bubblewrap", "none"]] = {"bubblewrap": "bubblewrap", "none": "none"}
    return lookup("sandbox", os.environ.get(SETTING) or "bubblewrap", kinds)


def choose(wall: Literal["bubblewrap", "none"]) -> None:
    """Choose the wall for this process and all that it starts."""
    os.environ[SETTING] = wall


@cache
def program() -> str:
    """Where bubblewrap is; refuses to go on without it."""
    if platform.system() != "Linux":
        raise refusal("needs Linux")
    found = shutil.which("bwrap")
    if found is None:
        raise refusal(
            "needs bubblewrap, which is not installed: apt-get install bubblewrap (dnf, pacman, "
            "apk: the same name)"
        )
    if seccomp.program() is None:
        raise refusal(
            f"needs a filter of system calls, and those of a {platform.machine()} are not known"
        )
    return found


def refusal(problem: str) -> UserError:
    """Why no code of a model runs here, what a missing wall would mean, and how to do without."""
    return UserError(
        f"this runs code that a model wrote, in a sandbox that {problem}. To run such code on this "
        f"machine without any wall, say so: {SETTING}=none in the environment, or sandbox = "
        '"none" in the file of a run. It then has your files, your network and your processes; '
        "only limits on time, memory, files, output and system calls are left"
    )


def no_namespaces(said: str) -> UserError:
    """What to say where bubblewrap is there and cannot do its work."""
    return refusal(
        f"cannot be made here{said}. A container must allow user namespaces (docker run "
        "--security-opt seccomp=unconfined --security-opt apparmor=unconfined, or --privileged; "
        "on Ubuntu sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
    )


def stranger(slot: int) -> int:
    """A user id that no other worker on this machine has now: root's own knows no process limit."""
    return STRANGERS + (os.getpid() % (1 << 22)) * 128 + slot % 128


def command(
    slot: int, space_mb: int, binds: tuple[Bind, ...], info: int, calls: int | None
) -> list[str]:
    """What to put before a command so that it runs behind the wall.

    `info` is a file descriptor to which bubblewrap writes the process id, out here, of process 1 in
    there: its own, which no program can reach, and with which everything in there dies. `calls` is
    one from which it reads the filter of system calls.
    """
    as_root = os.getuid() == 0
    words = [program(), "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--die-with-parent", "--new-session"]
    words += ["--hostname", "sandbox", "--info-fd", str(info), "--cap-drop", "ALL"]
    words += [] if calls is None else ["--seccomp", str(calls)]
    if as_root:
        words += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        words += ["--unshare-user", "--disable-userns"]
    words += system()
    words += small_proc(bool(binds))
    words += ["--perms", "1777", "--size", str(space_mb << 20), "--tmpfs", "/tmp"]
    for bind in binds:
        words += [*parents(bind.target)]
        words += ["--bind" if bind.writable else "--ro-bind", str(bind.source), bind.target]
    words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]
    return words + (as_stranger(stranger(slot)) if as_root else [])


@cache
def system() -> list[str]:
    """The read-only system and the interpreter."""
    words = ["--ro-bind", "/usr", "/usr"]
    for path in LINKS:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    words += parents(ETC[0])
    for path in ETC:
        words += ["--ro-bind-try", path, path]
    prefix = os.path.realpath(sys.base_prefix)
    if not prefix.startswith("/usr"):
        words += [*parents(prefix), "--ro-bind", prefix, prefix]
    return [*words, "--dev", "/dev", "--ro-bind", "/dev/null", "/dev/zero"]
    # /dev/zero, mapped and shared, is memory that no limit knows


@cache
def small_proc(whole: bool) -> list[str]:
    """Processes, and little of what the kernel tells besides. All that can be covered is covered
    only for what takes long anyway (`whole`)."""
    words = ["--proc", "/proc"]
    for name in sorted(os.listdir("/proc")):
        path = f"/proc/{name}"
        if name.isdigit() or name in KEPT or os.path.islink(path):
            continue
        if not whole and name not in TELLING:
            continue
        covered = (
            ["--perms", "0555", "--tmpfs"] if os.path.isdir(path) else ["--ro-bind", "/dev/null"]
        )
        words += [*covered, path]
    return words


def parents(path: str) -> list[str]:
    """Make the folders above a path, open to all; bubblewrap's own would be root's alone."""
    above = reversed(Path(path).parents[:-1])
    return [word for folder in above for word in ("--perms", "0755", "--dir", str(folder))]


def as_stranger(user: int) -> list[str]:
    """Root gives up being root."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise SandboxError("the sandbox of root needs setpriv: apt-get install util-linux")
    return [setpriv, "--reuid", str(user), "--regid", str(user), "--clear-groups"]


def give(folder: Path, user: int) -> None:
    """Make a folder and all in it a user's own, so that a program of that user can change it."""
    os.lchown(folder, user, user)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.lchown(os.path.join(place, name), user, user)
