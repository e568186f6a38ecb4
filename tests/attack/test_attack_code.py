"""Answers to programming tasks that want a verdict they have not earned."""

import shutil
from collections.abc import Callable

import pytest

from coevolve.core.task import Task
from coevolve.domains.code.answer import fenced
from coevolve.domains.code.domain import CodeDomain

Held = Callable[..., None]
pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

DOMAIN = CodeDomain()


def task_of(cpu_s: int = 20, memory_mb: int = 256) -> Task:
    tests = [{"input": f"{one}\n", "output": f"{one * one}\n"} for one in (3, 12, 40)]
    line = {"id": "squares", "statement": "Print the square.", "tests": tests}
    return DOMAIN.load({**line, "cpu_s": cpu_s, "memory_mb": memory_mb})


FORGED = {
    "nothing": "pass",
    "an early exit": "import os\nos._exit(0)",
    "a polite exit": "raise SystemExit(0)",
    "a pass line": "print('3 passed')",
    "all answers at once": "print(9, 144, 1600)",
    "all answers, a line each": "print('9\\n144\\n1600')",
    "a search of memory": (
        "import gc\nfor held in gc.get_objects():\n"
        "    if isinstance(held, dict) and 'output' in held:\n        print(held['output'])"
    ),
    "a search of frames": (
        "import sys\nframe = sys._getframe()\n"
        "while frame:\n    print(*frame.f_locals.get('wanted', ''))\n    frame = frame.f_back"
    ),
    "the source of the worker": "import sys\nprint(sys.modules['__main__'].__dict__.keys())",
    "files of an earlier run": (
        "import os\nprint(*[open(f'/tmp/{one}').read() for one in os.listdir('/tmp')])"
    ),
    "the job of the worker": "import os\nprint(os.read(60, 1000))",
    "the reply of the worker": (
        "import os\nos.write(61, b'\\0\\0\\0\\x20' + b'0 0 0 0 2 0 0\\n9\\n')"
    ),
    "the value of a call": "import os\nfor n in range(3, 20):\n    os.write(n, b'=9')",
    "the value, everywhere": (
        "import os\nfor n in range(3, 200):\n"
        "    try:\n        os.write(n, b'=9')\n    except OSError:\n        pass"
    ),
    "the worker dies": "import os\nos.kill(os.getppid(), 9)\nprint(9)",
    "everybody dies": "import os\nos.kill(-1, 9)\nprint(9)",
    "the worker sleeps": "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\nos._exit(1)",
    "the worker's signals": (
        "import os\nfor n in (1, 2, 10, 12, 15, 17):\n    os.kill(os.getppid(), n)"
    ),
    "printing is replaced": "import builtins\nbuiltins.print = lambda *a: None",
    "standard output is closed": "import os\nos.close(1)",
    "standard output is a file": "import os\nos.dup2(os.open('/tmp/o', 65), 1)\nprint(9)",
    "a huge number": "print(10 ** 4000)",
    "a huge line": "print('9' * 500000)",
    "half a character": "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe9')",
    "a null": "print('9\\0')",
    "an endless answer": "while True:\n    print(9)",
    "an exception that prints": (
        "class E(Exception):\n    def __str__(self):\n        print(9)\n        return '9'\nraise E"
    ),
    "an exception without words": (
        "class E(Exception):\n    def __str__(self):\n        raise SystemExit(0)\nraise E"
    ),
    "an exit code that is an object": (
        "class C(int):\n    def __and__(self, other):\n        return 0\nraise SystemExit(C(1))"
    ),
    "a hook for exceptions": "import sys, os\nsys.excepthook = lambda *a: os._exit(0)\n1 / 0",
    "a thread that exits": (
        "import threading, os\nthreading.Thread(target=os._exit, args=(0,)).start()"
    ),
    "a fork that answers": "import os\nif os.fork() == 0:\n    print(9)",
    "a program that answers": "import os\nos.execv('/bin/echo', ['echo', '9'])",
    "a child that answers": "import subprocess\nprint(subprocess.check_output(['echo', '9']))",
    "recursion": "def f():\n    return f()\nf()",
    "a crash": "import ctypes\nctypes.string_at(0)",
    "a module in its place": "import sys\nsys.modules['__main__'] = None\nsys.modules.clear()",
    "a trace": "import sys\nsys.settrace(lambda *a: 1 / 0)\nprint(9)",
    "an import hook": "import sys\nsys.meta_path.clear()\nimport math",
    "a source that does not end": "x = (" * 90,
    "a null in the source": "x = '\0'",
}


@pytest.mark.parametrize("half", [0, 1])
def test_forged_answers(half: int, held: Held) -> None:
    task = task_of()
    assert DOMAIN.verify(task, fenced("print(int(input()) ** 2)")).valid
    for name, source in list(FORGED.items())[half::2]:
        outcome = DOMAIN.verify(task, fenced(source))
        # an answer that is the same for all tests may hit one of them
        safe = not outcome.valid and outcome.components["tests"] <= 1 / 3
        held("code: forged answers", safe, f"{name}: {outcome.failure} {outcome.reward}")


BURN = "while time.process_time() < {limit}:\n    pass\n"
LATE = {
    "a handler that forks": (
        "import os, signal, time\n"
        "signal.signal(signal.SIGXCPU, lambda *a: os.fork() and os._exit(0))\n"
    ),
    "a handler that goes on": (
        "import signal, time\nsignal.signal(signal.SIGXCPU, lambda *a: None)\n"
    ),
    "a signal ignored": "import signal, time\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n",
    "a signal blocked": (
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
    ),
    "a limit lifted": (
        "import resource, time\n"
        "try:\n    resource.setrlimit(resource.RLIMIT_CPU, (3, 3))\n"
        "except (OSError, ValueError):\n    pass\n"
    ),
}
THREADS = (
    "import threading, time\n"
    "def burn():\n    while time.process_time() < 1.9:\n        pass\n"
    "threads = [threading.Thread(target=burn) for _ in range(4)]\n"
    "[one.start() for one in threads]\n[one.join() for one in threads]\n"
)
ANSWER = "print(int(input()) ** 2)\n"


@pytest.mark.slow
def test_more_time_than_there_is(held: Held) -> None:
    """Each uses nearly twice its second, whatever the machine does beside it, and then is right."""
    task = task_of(cpu_s=1)
    tries = {name: head + BURN.format(limit=1.9) for name, head in LATE.items()}
    tries["threads"] = THREADS
    for name, source in tries.items():
        outcome = DOMAIN.verify(task, fenced(source + ANSWER))
        held("code: time", not outcome.valid, f"{name}: {outcome.failure}")
        held("code: time", outcome.components["tests"] == 0, f"{name}: {outcome.reward}")


MEMORY = {
    "memfds": (
        "import os\nheld = []\nfor n in range(20):\n"
        "    file = os.memfd_create(str(n))\n    os.write(file, bytes(900000))\n"
    ),
    "shared maps, unmapped but for a page": (
        "import mmap\nheld = mmap.mmap(-1, 64 << 20)\nheld.write(bytes(64 << 20))\n"
    ),
    "the zero device": (
        "import mmap\nheld = mmap.mmap(open('/dev/zero', 'r+b').fileno(), 64 << 20)\n"
    ),
    "one list": "held = [0] * (1 << 28)\n",
    "text": "held = 'x' * (1 << 29)\n",
    "forks": "import os\nfor _ in range(7):\n    os.fork()\nheld = bytes(60 << 20)\n",
    "threads' stacks": (
        "import threading, time\nthreading.stack_size(64 << 20)\n"
        "for _ in range(8):\n    threading.Thread(target=time.sleep, args=(1,)).start()\n"
    ),
}


def test_more_memory_than_there_is(held: Held) -> None:
    task = task_of(memory_mb=128)
    for name, source in MEMORY.items():
        outcome = DOMAIN.verify(task, fenced(source + ANSWER))
        held("code: memory", not outcome.valid, f"{name}: {outcome.failure}")
