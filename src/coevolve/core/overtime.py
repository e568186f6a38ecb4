"""Work that may take only so long, in whichever thread of this process it is done.

One thread looks at all work that is under way, and raises Overtime where some took too long. The
main thread is told by a signal, and by a timer of the kernel's as well: these also end sleep, and
regular expressions, which let no other thread run. Other threads end at their next line of Python.
Invariant: Overtime is raised inside the work and nowhere else: not while it is begun or ended.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")
LOOK_S = 0.1
"""Between two looks at what is under way."""
SIGNAL: Any = getattr(signal, "SIGVTALRM", None)
"""Windows has none: there the main thread is told like every other."""


class Overtime(BaseException):
    """Work took too long. Not an Exception: code that catches all of those must not catch it."""


class Work:
    """What one thread is doing."""

    def __init__(self, cpu_s: float, wall_s: float) -> None:
        self.thread = threading.get_ident()
        self.main = SIGNAL is not None and threading.current_thread() is threading.main_thread()
        clock = getattr(time, "pthread_getcpuclockid", None)
        self.clock: int | None = clock(self.thread) if clock else None
        self.cpu_s, self.wall_s = cpu_s, wall_s
        self.cpu_end = self.used + cpu_s
        self.wall_end = time.monotonic() + wall_s
        self.told = False
        self.before: Any = None

    @property
    def used(self) -> float:
        """Processor time of its thread; where the system does not tell, the clock's."""
        return time.monotonic() if self.clock is None else time.clock_gettime(self.clock)

    @property
    def late(self) -> bool:
        return self.used > self.cpu_end or time.monotonic() > self.wall_end

    def begin(self) -> None:
        if self.main:
            self.before = signal.signal(SIGNAL, self.hear)
            signal.setitimer(signal.ITIMER_VIRTUAL, self.cpu_s + LOOK_S, 1.0)
        WATCH.add(self)

    def hear(self, _signal: int, frame: FrameType | None) -> None:
        if self.late and self.is_done_by(frame):
            raise Overtime

    def is_done_by(self, frame: FrameType | None) -> bool:
        """Whether a thread that is here does the work, and does not begin or end it."""
        while frame:
            if frame.f_code is done.__code__ and frame.f_locals["work"] is self:
                return True
            frame = frame.f_back
        return False

    def tell(self) -> None:
        """Called by the watch, which holds its lock; nothing else runs meanwhile."""
        if self.main:
            signal.pthread_kill(self.thread, SIGNAL)
        elif self.is_done_by(sys._current_frames().get(self.thread)):
            self.told = True
            interrupt(self.thread, Overtime)

    def end(self) -> None:
        with WATCH.lock:
            WATCH.works.pop(self.thread, None)
            if self.told:
                interrupt(self.thread, None)  # what was not raised yet never will be
        if self.main:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            signal.signal(SIGNAL, self.before)


def interrupt(thread: int, kind: type[BaseException] | None) -> None:
    """Have another thread raise an exception; None takes back what it has not raised yet."""
    import ctypes

    told = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), told)


class Watch:
    """All work that is under way in this process, by thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.works: dict[int, Work] = {}
        self.busy = threading.Event()
        self.thread: threading.Thread | None = None

    def add(self, work: Work) -> None:
        with self.lock:
            self.works[work.thread] = work
            if self.thread is None:
                self.thread = threading.Thread(target=self.look, name="overtime", daemon=True)
                self.thread.start()
        if not self.busy.is_set():
            self.busy.set()

    def look(self) -> None:
        while self.busy.wait():
            time.sleep(LOOK_S)
            with self.lock:
                for work in self.works.values():
                    if work.late:  # also what was told before: it may have caught it
                        work.tell()
                if not self.works:
                    self.busy.clear()


WATCH = Watch()


def forget() -> None:
    """In a forked child, whose parent's threads are not there."""
    global WATCH
    WATCH = Watch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)


def within(cpu_s: float, wall_s: float, do: Callable[[], Result]) -> Result:
    """What some work gives; Overtime after so many seconds of its thread's processor time, or on
    the clock. Work within work has the limits of the outer one."""
    if threading.get_ident() in WATCH.works:
        return do()
    work = Work(cpu_s, wall_s)
    try:
        work.begin()
        return done(work, do)
    finally:
        work.end()


def done(work: Work, do: Callable[[], Result]) -> Result:
    """A frame of its own, by which the work is known from what is around it."""
    return do()
