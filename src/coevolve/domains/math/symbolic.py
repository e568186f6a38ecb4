"""Whether two formulas are equal, by math-verify, in a process that can be ended.

math-verify's own time limit is a signal, which works in the main thread alone and cannot interrupt
everything. Invariant: whatever the formulas, `equal` returns within seconds and never raises for
them. What sympy should not even see is refused before.
"""

import atexit
import contextlib
import marshal
import os
import re
import signal
import subprocess
import sys
import threading
import time
from functools import lru_cache
from importlib.util import find_spec

from coevolve.core.errors import DomainError, UserError
from coevolve.sandbox.process import SIZE, Channel, Gone, Late

MEMORY = 4 << 30
READY, YES, NO = b"ready", b"1", b"0"
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
POWERS = re.compile(r"\^\s*+\{?+\s*+[-+]?+\s*+([0-9.]++)")
RAISED = re.compile(r"\{[^{}]*+\}?+|[^{}]*+\}|\\?[A-Za-z0-9]++")
"""What stands between two signs `^` if the second raises what the first has raised."""


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
    between = latex.split("^")[1:-1]
    if len(between) >= MOST_POWERS or any(RAISED.fullmatch(one.strip()) for one in between):
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

    channel: Channel

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.owner = 0
        self.lock = threading.Lock()

    def compare(self, gold: str, answer: str) -> bool:
        """Whether two formulas are equal; one that takes too long is not."""
        with self.lock:
            for _ in range(2):
                channel, deadline = self.start(), time.monotonic() + LIMIT_S
                try:
                    channel.send({"gold": gold, "answer": answer}, deadline)
                    return channel.receive(len(YES), deadline) == YES
                except Late:
                    self.end()
                    return False
                except Gone:  # it ran out of memory, now or before
                    self.end()
            return False

    def start(self) -> Channel:
        """The way to a process that is ready."""
        alive = self.process is not None and self.process.poll() is None
        if alive and self.owner == os.getpid():  # a forked process must not share the pipes
            return self.channel
        require()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coevolve.domains.math.symbolic"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.owner = os.getpid()
        self.channel = Channel(self.process.stdin.fileno(), self.process.stdout.fileno())
        try:
            self.channel.receive(len(READY), time.monotonic() + START_S)
        except (Gone, Late):
            self.end()
            raise DomainError(
                "math-verify did not start; try: python -c 'import math_verify'"
            ) from None
        return self.channel

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


def serve() -> None:
    """The process that asks math-verify: pairs of LaTeX in, verdicts out.

    Only the LaTeX parser is used: the one for plain expressions evaluates Python. Memory is
    limited, since a short formula can fill any machine.
    """
    import resource  # which Windows lacks, as it lacks what follows

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries that print must not be read as verdicts
    import logging

    from math_verify import LatexExtractionConfig, parse, verify

    logging.disable(logging.CRITICAL)

    def read(latex: str) -> list[object]:
        found: list[object] = parse(
            f"${latex}$", [LatexExtractionConfig()], fallback_mode="no_fallback",
            parsing_timeout=0,
        )  # fmt: skip
        return found

    def say(word: bytes) -> None:
        replies.write(SIZE.pack(len(word)) + word)
        replies.flush()

    say(READY)
    asked = sys.stdin.buffer
    while head := asked.read(SIZE.size):
        pair = marshal.loads(asked.read(*SIZE.unpack(head)))
        try:
            known = read(pair["gold"])
            say(YES if known and verify(known, read(pair["answer"]), timeout_seconds=0) else NO)
        except (Exception, RecursionError, MemoryError):  # any formula may break the library
            say(NO)


if __name__ == "__main__":
    serve()
