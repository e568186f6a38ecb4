"""Whether two formulas are equal, by math-verify, in a process that can be ended.

math-verify's own time limit is a signal, which works in the main thread alone and cannot interrupt
everything. Invariant: whatever the formulas, `equal` returns within seconds and never raises for
them. What sympy should not even see is refused before.
"""

import atexit
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
from functools import lru_cache
from importlib.util import find_spec

from coevolve.core.errors import DomainError, UserError

LIMIT_S = 5.0
"""For one comparison."""
START_S = 120.0
"""For the process to load sympy."""
MOST_DIGITS = 20
"""In one number."""
MOST_POWER = 1_000
MOST_POWERS = 6
LATEX = """
frac dfrac tfrac sqrt pi cdot times div left right text mathrm mathbf infty cup cap in notin le leq
ge geq lt gt ne neq pm mp circ degree log ln exp sin cos tan cot sec csc arcsin arccos arctan sinh
cosh tanh theta alpha beta gamma delta lambda mu omega phi rho sigma tau varphi pmatrix bmatrix
matrix begin end mathbb emptyset varnothing setminus binom lfloor rfloor lceil rceil langle rangle
to ldots cdots dots quad mid operatorname overline hat vec displaystyle
"""
COMMANDS = frozenset(LATEX.split())
NUMBERS = re.compile(r"[0-9][0-9,._]*")
POWERS = re.compile(r"\^\s*\{?\s*[-+]?\s*([0-9.]+)")

TOWER = re.compile(r"\^\s*(?:\{[^{}]*|\{?[^{}]*\}|\\?[A-Za-z0-9]+)\s*\^")


def refused(latex: str) -> str:
    """Why a formula is not looked at; empty if it is."""
    if not latex.isascii() or not latex.isprintable():
        return "characters beyond ASCII"
    unknown = set(re.findall(r"\\([A-Za-z]+)", latex)) - COMMANDS
    if unknown:
        return f"LaTeX that is not known here: \\{min(unknown)}"
    if any(len(number) > MOST_DIGITS for number in NUMBERS.findall(latex)):
        return f"a number of more than {MOST_DIGITS} digits"
    powers = POWERS.findall(latex)
    if latex.count("^") > MOST_POWERS or TOWER.search(latex):
        return "a tower of powers"
    if any(len(power.partition(".")[0]) > 3 for power in powers):
        return f"a power above {MOST_POWER}"
    if "!" in latex:
        return "a factorial"
    depth = max(latex.count(mark) for mark in "({[")
    return "too many brackets" if depth > 24 else ""


def available() -> bool:
    return find_spec("math_verify") is not None


def require() -> None:
    if not available():
        raise UserError("answers that are formulas need math-verify: pip install 'coevolve[math]'")


class Comparer:
    """One process that compares, started when it is needed and again after it was ended."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.owner = 0
        self.lock = threading.Lock()
        self.buffer = b""

    def compare(self, gold: str, answer: str) -> bool:
        """Whether two formulas are equal; one that takes too long is not."""
        with self.lock:
            for _ in range(2):
                self.start()
                try:
                    self.send([gold, answer])
                    reply = self.receive(LIMIT_S)
                except (BrokenPipeError, EOFError):  # it ran out of memory, now or before
                    self.end()
                    continue
                if reply is None:
                    self.end()
                return reply is True
            return False

    def start(self) -> None:
        alive = self.process is not None and self.process.poll() is None
        if alive and self.owner == os.getpid():  # a forked process must not share the pipes
            return
        require()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coevolve.domains.math.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.owner, self.buffer = os.getpid(), b""
        try:
            ready = self.receive(START_S)
        except EOFError:
            ready = None
        if ready != "ready":
            self.end()
            raise DomainError("math-verify did not start; try: python -c 'import math_verify'")

    def send(self, value: object) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self, limit_s: float) -> object:
        """The next reply, None if it does not come in time."""
        assert self.process is not None
        assert self.process.stdout is not None
        number = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            if not select.select([number], [], [], limit_s)[0]:
                return None
            found = os.read(number, 4096)
            if not found:
                raise EOFError
            self.buffer += found
        line, _, self.buffer = self.buffer.partition(b"\n")
        reply: object = json.loads(line)
        return reply

    def end(self) -> None:
        """End the process and all that it started."""
        process, self.process = self.process, None
        if process is None or self.owner != os.getpid():
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()


COMPARER = Comparer()
atexit.register(COMPARER.end)


@lru_cache(maxsize=4_096)
def equal(gold: str, answer: str) -> bool:
    """Whether an answer equals the right one; the same every time it is asked."""
    return COMPARER.compare(gold, answer)
