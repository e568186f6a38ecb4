"""`python without_posix.py COMMAND...`: a coevolve command without what Windows lacks.

Libraries are imported first, since they have ways of their own for each system.
"""

import asyncio  # noqa: F401
import concurrent.futures.process  # noqa: F401
import multiprocessing.popen_fork
import multiprocessing.spawn  # noqa: F401
import os
import signal
import subprocess  # noqa: F401
import sys
import time

import numba  # noqa: F401
import numpy  # noqa: F401
import scipy.stats  # noqa: F401
import typer  # noqa: F401

MODULES = ("fcntl", "grp", "posix", "pwd", "resource", "termios", "tty", "pty")
NAMES = {
    os: "fork register_at_fork killpg getpgid getpgrp setsid getuid geteuid getgid pread pwrite "
    "sched_getaffinity O_NONBLOCK O_DIRECTORY O_NOFOLLOW O_CLOEXEC statvfs mkfifo memfd_create "
    "pidfd_open nice getloadavg sysconf wait4 pipe2 uname chown",
    signal: "SIGKILL SIGHUP SIGVTALRM SIGALRM SIGXCPU SIGUSR1 SIGCHLD setitimer pthread_kill "
    "pthread_sigmask ITIMER_VIRTUAL ITIMER_REAL",
    time: "clock_gettime pthread_getcpuclockid CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID",
}


def remove() -> None:
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for owner, names in NAMES.items():
        for name in names.split():
            if hasattr(owner, name):
                delattr(owner, name)


if __name__ == "__main__":
    remove()
    from coevolve.cli.main import main

    main()
