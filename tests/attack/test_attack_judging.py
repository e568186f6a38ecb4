"""Answers, verifiers and verdicts that want to end a run: each becomes a failure class."""

import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coevolve.core.errors import DomainError, SandboxError, UserError
from coevolve.core.overtime import Overtime, Work, done, within
from coevolve.core.rollout import JUDGE_ERROR, Message, Outcome
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains import capture
from coevolve.domains.check import Failure
from coevolve.domains.knobs import KnobSpace
from coevolve.domains.registry import get_domain
from coevolve.domains.simple import SimpleDomain, verdict
from coevolve.domains.turns import begin
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.judge import judge, verdicts
from coevolve.evaluation.tally import tally
from coevolve.policies.base import Completion, Prompt, Sampling
from coevolve.store.rollouts import write
from coevolve.store.shards import read

NAMES = (
    "lake",
    "math",
    "code",
    "reasoning.basic_arithmetic",
    "reasoning.word_ladder",
    "reasoning.simple_integration",
    "reasoning.countdown",
    "engineering",
)
CPU_S = 20.0
"""No answer may take more of this process."""


def first(name: str) -> tuple[object, Task]:
    domain = get_domain(name)
    return domain, next(iter(domain.generate(domain.space.defaults(), 1, 3, Split.TRAIN)))


DEEP = 100_000
BODIES: dict[str, str] = {
    "empty": "",
    "nul": "\x00" * 9,
    "surrogate": "\ud800",
    "surrogates": "\udfff\ud800" * 500,
    "digits": "9" * 50_000,
    "huge power": "10**5000",
    "tower": "9**9**9**9",
    "nan": "NaN",
    "infinity": "-Infinity",
    "float": "1e999999999",
    "tiny": "1e-999999999",
    "hex": "0x" + "f" * 9_999,
    "lists": "[" * DEEP,
    "closed lists": "[" * 9_000 + "]" * 9_000,
    "objects": '{"a":' * 9_000,
    "braces": "{" * DEEP,
    "round": "(" * DEEP,
    "closed round": "(" * 2_000 + "1" + ")" * 2_000,
    "minus": "-" * DEEP,
    "not": "~" * 9_999 + "1",
    "spaces": " " * DEEP,
    "lines": "\n" * DEEP,
    "carriage": "\r" * DEEP,
    "tabs": "\t" * DEEP,
    "backslashes": "\\" * DEEP,
    "quotes": '"' * DEEP,
    "ticks": "`" * DEEP,
    "fence and spaces": "```" + " " * DEEP + "x",
    "fences": "```\n" * 20_000,
    "open fence": "```python\n" * 9_999,
    "tags": "<answer>" * 20_000,
    "closing": "</answer>" * 20_000,
    "think": "<think>" * 20_000,
    "thought": "</think>" * 20_000,
    "boxed": "\\boxed{" * 20_000,
    "boxed once": "\\boxed{" + "1" * DEEP,
    "marks": "####" * 20_000,
    "fractions": "\\frac" * 20_000,
    "text": "\\text{" * 20_000,
    "carets": "^" * DEEP,
    "caret and spaces": "^" + " " * DEEP + "^",
    "commas": "," * DEEP,
    "bars": "|" * DEEP,
    "moves": "U" * DEEP,
    "cells": "0,0 " * 25_000,
    "slashes": " / " * 30_000,
    "wide": "𝟗" * DEEP,
    "arabic": "٣" * 9_999,
    "combining": "a" + "\u0301" * DEEP,
    "right to left": "\u202e" * 9_999,
    "zero width": "\u200b" * DEEP,
    "megabyte": "x" * 999_000,
    "megabytes": "x" * 9_000_000,
    "megabytes of digits": "7" * 3_000_000,
    "json bomb": "[[1,2]," * 50_000,
    "null": "null",
    "true": "true",
    "json nan": "[NaN]",
    "json huge": "[[[1" + "0" * 4_000 + ",0]]]",
    "json float": "[[[1e400,0]]]",
    "json text": '["' + "R" * 19_000 + '"]',
    "html": "<b>" * 30_000,
    "template": "{{7*7}}" * 9_000,
    "format": "{0.__class__}%s%n" * 5_000,
    "sql": "'; DROP TABLE x;--" * 999,
    "exit": "exit()",
    "import": "__import__('os')._exit(1)",
    "lambda": "(lambda f: f(f))(lambda f: f(f))",
    "sums": "1+" * 9_999 + "1",
    "products": "9*" * 9_999 + "9",
    "names": "x" * 9_999,
    "nested sines": "sin(" * 400 + "x" + ")" * 400,
    "powers": "x**99**99",
    "factorials": "9" + "!" * 99,
    "unicode line": "\u2028" * DEEP,
    "bom": "\ufeff" * 999,
    "emoji": "👩‍👩‍👧‍👦" * 9_999,
}
FORMS = ("{}", "<answer>{}</answer>", "\\boxed{{{}}}", "#### {}", "```python\n{}\n```")
LONG = ("megabyte", "megabytes", "megabytes of digits")


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_has_a_verdict(name, held):
    domain, task = first(name)
    known = {None, JUDGE_ERROR, *domain.failures}
    capture.verify(domain, task, "")
    for title, body in BODIES.items():
        for form in FORMS[:1] if title in LONG else FORMS:
            if name == "code" and form == FORMS[4] and title not in ("empty", "exit", "lists"):
                continue  # programs have tests of their own
            text, began = form.replace("{}", body).replace("{{", "{").replace("}}", "}"), cpu()
            found = capture.verify(domain, task, text, 7)
            spent = cpu() - began
            fine = found.failure in known and found.reward <= domain.full_reward
            said = f"{form[:9]} {title}: {found.failure}, {found.details}, {spent:.1f} s"
            held(f"answers to {name.partition('.')[0]}", fine and spent < CPU_S, said[:500])


def cpu() -> float:
    return time.thread_time()


PROGRAMS = {
    "huge int": "return 10**5000",
    "huge negative": "return -(10**5000)",
    "list of huge": "return [10**5000]",
    "deep list": "x = []\n    for _ in range(900): x = [x]\n    return x",
    "deeper list": "x = []\n    for _ in range(90000): x = [x]\n    return x",
    "alike set": "return {k * (2**61 - 1) for k in range(60000)}",
    "alike keys": "return {k * (2**61 - 1): 0 for k in range(30000)}",
    "alike few": "return {k * (2**61 - 1) for k in range(2000)}",
    "large set": "return set(range(100000))",
    "nan": "return float('nan')",
    "inf": "return float('inf')",
    "surrogate": "return '\\ud800'",
    "megabytes": "return 'x' * 9_000_000",
    "nul": "return '\\0'",
    "complex": "return complex('nan')",
    "bytes": "return bytes(99)",
    "lambda": "return lambda: 1",
    "self": "x = []\n    x.append(x)\n    return x",
    "class": "return type('int', (int,), {})(3)",
    "liar": "return type('int', (int,), {'__eq__': lambda *_: True, '__repr__': lambda _: 1/0})(3)",
    "raises huge": "raise ValueError(10**5000)",
    "raises odd": "raise type('E', (Exception,), {'__str__': lambda _: 1 / 0})",
    "exit": "raise SystemExit(3)",
    "keyboard": "raise KeyboardInterrupt",
    "base": "raise BaseException",
    "hash liar": "return {type('K', (int,), {'__hash__': lambda _: 1})(k) for k in range(999)}",
    "tuple tower": "x = ()\n    for _ in range(600): x = (x,)\n    return {x: x}",
    "frozen": "x = frozenset()\n    for _ in range(600): x = frozenset([x])\n    return {x}",
    "huge float": "return 1.7976931348623157e308 * 10",
    "ellipsis": "return ...",
}


@pytest.mark.parametrize("form", ["function", pytest.param("humaneval", marks=pytest.mark.slow)])
def test_whatever_a_program_returns_is_judged(form, held):
    domain = get_domain("code")
    if form == "humaneval":
        task, entry = humaneval("assert candidate(2) == 3\n    assert candidate(3) == {4}"), "f(x)"
    else:
        knobs = domain.space.parse({"stdin.share": 0.0, "function.share": 1.0})
        task, entry = next(iter(domain.generate(knobs, 1, 3, Split.TRAIN))), "solve(*_)"
    for title, body in PROGRAMS.items():
        began = cpu()
        found = capture.verify(domain, task, f"```python\ndef {entry}:\n    {body}\n```")
        spent, known = cpu() - began, {JUDGE_ERROR, *domain.failures}
        fine = not found.valid and found.failure in known and spent < 5
        held("values of programs", fine, f"{form}, {title}: {found.failure}, {spent:.1f} s")
        held("values of programs", found.reward <= 0 or found.details["passed"], title)


def humaneval(body: str) -> Task:
    return get_domain("code").load(
        {
            "task_id": "HumanEval/900",
            "prompt": 'def f(x):\n    """x + 1"""\n',
            "entry_point": "f",
            "canonical_solution": "    return x + 1 if x < 3 else {x + 1}\n",
            "test": f"def check(candidate):\n    {body}\n",
        }
    )


class Broken(SimpleDomain):
    """Its verifier does what the answer says."""

    name, summary, space = "broken", "a verifier that breaks", KnobSpace(())
    components = {"accuracy": "1 if right", "format": "-1 without an answer"}
    judge_cpu_s = 1.0
    also_right = True
    """Whether it breaks on the right answer too."""

    def make(self, knobs, rng):
        return {"n": rng.randrange(10**6)}

    def question(self, data):
        return f"Say {data['n']}."

    def answer(self, data):
        return str(data["n"])

    def verify(self, task, text, tokens=None):
        if text in BREAKS:
            return BREAKS[text]()
        if text == self.oracle(task) and not self.also_right:
            raise DomainError("the machine is gone")
        if not text:
            return verdict("format", "nothing", {"accuracy": 0.0, "format": -1.0})
        return super().verify(task, text, tokens)


class Odd(BaseException):
    pass


class CancelledError(BaseException):
    """Named like asyncio's."""


class PanicException(BaseException):
    """Named like that of libraries in Rust."""


class Mute(Exception):
    def __str__(self):
        raise RuntimeError


def raises(error: BaseException) -> Callable[[], Outcome]:
    def work() -> Outcome:
        raise error

    return work


def spin() -> Outcome:
    while True:
        pass


def stubborn() -> Outcome:
    for _ in range(10**9):
        try:
            spin()
        except Exception:
            continue
    raise AssertionError


def rewarded(reward: float, **components: float) -> Callable[[], Outcome]:
    return lambda: verdict(None, "", {"accuracy": 1.0, **components}, reward)


def recursive() -> Outcome:
    return recursive()


BREAKS: dict[str, Callable[[], Outcome]] = {
    **{
        type(error).__name__: raises(error)
        for error in (
            ValueError("x" * 9_999),
            KeyError(10**5000),
            TypeError(),
            ZeroDivisionError(),
            MemoryError(),
            RecursionError(),
            OverflowError(),
            AssertionError("\ud800"),
            StopIteration(3),
            OSError(28, "full"),
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
            EOFError(),
            BrokenPipeError(),
            TimeoutError(),
            NotImplementedError(),
            ExceptionGroup("several", [ValueError()]),
            SandboxError("gone"),
            DomainError("broke its word"),
            UserError("not so"),
            Failure("a check"),
            Mute(),
            CancelledError(),
            PanicException("rust"),
            Overtime(),
            SyntaxError("x"),
            ImportError("no"),
            StopAsyncIteration(),
        )
    },
    "endless": spin,
    "stubborn": stubborn,
    "recursion": recursive,
    "none": lambda: None,
    "dict": lambda: {"valid": True},
    "text": lambda: "right",  # type: ignore[dict-item,return-value]
    "nan": rewarded(math.nan),
    "inf": rewarded(math.inf),
    "minus inf": rewarded(-math.inf),
    "nan part": rewarded(1.0, format=math.nan),
    "inf part": rewarded(1.0, format=math.inf),
    "cancelling": rewarded(1.0, format=math.inf, other=-math.inf),
    "huge": rewarded(1e308, a=1e308, b=1e308),
}
BREAKS["sleep"] = lambda: time.sleep(10**6)  # type: ignore[assignment,return-value]


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(capture, "WALL_S", 2.0)


def test_whatever_a_verifier_raises_is_a_failure_class(held, impatient, tmp_path):
    domain = Broken()
    task = domain.as_task({"n": 5})
    for title in BREAKS:
        found = capture.verify(domain, task, title)
        fine = (found.failure, found.valid) == (JUDGE_ERROR, False) and found.details["reason"]
        held("verifiers that raise", fine, f"{title}: {found}")
        held("pay for breaking", found.reward == -1.0 == found.components["format"], title)
    texts = [*BREAKS, "<answer>5</answer>"]
    prompts = [Prompt(domain.prompt(task), task, place) for place in range(len(texts))]
    rollouts = judge(domain, prompts, [Completion(text) for text in texts], "policy")
    counted = tally(rollouts).by([])[0]
    held("counted", counted.failures == {JUDGE_ERROR: len(BREAKS)}, counted.failures)
    held("others go on", rollouts[-1].outcome.valid)
    write(rollouts, tmp_path / "a.parquet")
    kept = read(tmp_path)["failure"].to_pylist()
    held("recorded", kept.count(JUDGE_ERROR) == len(BREAKS))


def test_episodes_and_threads_are_captured_alike(held):
    domain = Broken()
    task = domain.as_task({"n": 5})
    for title in (
        "ValueError",
        "endless",
        "stubborn",
        "nan",
        "none",
        "CancelledError",
        "recursion",
    ):
        episode, _ = begin(domain, task)
        episode.reply(title)
        held("episodes", episode.outcome(title).failure == JUDGE_ERROR, title)
        found = list[Outcome]()
        thread = threading.Thread(
            target=lambda t=title, f=found: f.append(capture.verify(domain, task, t))
        )
        thread.start()
        thread.join(60)
        held("threads", found and found[0].failure == JUDGE_ERROR, title)


class Talk:
    """An episode that breaks in a reply."""

    def reply(self, text):
        return None if BREAKS[text]() else ""

    def outcome(self, text, tokens=None):
        return verdict(None)


def test_an_episode_that_breaks_in_a_reply_is_over(held):
    domain = Broken()
    task = domain.as_task({"n": 5})
    for title in ("ValueError", "endless", "Mute", "PanicException", "KeyError"):
        episode = capture.Captured(domain, task, Talk())
        held("replies", episode.reply(title) is None and episode.reply("more") is None, title)
        held("replies", episode.outcome("x").failure == JUDGE_ERROR, title)


class Together(Broken):
    """Judges many at once; one bad answer spoils them all."""

    def verify_all(self, tasks, texts, tokens):
        return [self.verify(*one) for one in zip(tasks, texts, tokens, strict=True)]

    def verify(self, task, text, tokens=None):
        return super().verify(task, text, tokens)


class Short(Together):
    def verify_all(self, tasks, texts, tokens):
        return super().verify_all(tasks, texts, tokens)[1:]


@pytest.mark.parametrize("kind", [Together, Short])
def test_one_bad_answer_spoils_no_other(kind, held):
    domain = kind()
    task = domain.as_task({"n": 5})
    texts = ["<answer>5</answer>", "ValueError", "<answer>6</answer>", "nan", "x" * 2_000_000]
    prompts = [Prompt(domain.prompt(task), task) for _ in texts]
    found = verdicts(domain, prompts, [Completion(text) for text in texts])
    wanted = [None, JUDGE_ERROR, "wrong", JUDGE_ERROR, JUDGE_ERROR]
    for one, failure in zip(found, wanted, strict=True):
        held("answers judged together", one.failure == failure, one)


def test_a_machine_that_failed_is_an_error_and_no_failure_class(held):
    domain = Broken()
    domain.also_right = False
    task = domain.as_task({"n": 5})
    for title in ("SandboxError", "DomainError", "UserError"):
        with pytest.raises((SandboxError, DomainError, UserError)):
            capture.verify(domain, task, title)
        held("machines", True)
    held("machines", capture.verify(domain, task, "ValueError").failure == JUDGE_ERROR)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), Odd()])
def test_who_wants_to_end_a_run_can(error, held, monkeypatch):
    monkeypatch.setitem(BREAKS, "end", raises(error))
    domain = Broken()
    task = domain.as_task({"n": 5})
    with pytest.raises(type(error)):
        capture.verify(domain, task, "end")
    with pytest.raises(type(error)):
        begin(domain, task)[0].outcome("end")
    with pytest.raises(type(error)):
        verdicts(Together(), [Prompt((), task)], [Completion("end")])
    held("ends of runs", True)


def test_a_signal_of_the_user_ends_a_verdict_that_takes_long(held):
    domain = Broken()
    domain.judge_cpu_s = 600.0
    task = domain.as_task({"n": 5})
    # What was started in the background by a shell takes no notice of it otherwise.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            capture.verify(domain, task, "endless")
    finally:
        signal.signal(signal.SIGINT, before)
    held("ends of runs", True)


def test_an_evaluation_goes_on(held):
    class Hostile:
        name = "hostile"

        def answer(self, prompts, sampling):
            return [Completion(list(BREAKS)[prompt.sample]) for prompt in prompts]

    domain = Broken()
    tasks = [domain.as_task({"n": n}) for n in range(2)]
    found = list(attempts(domain, Hostile(), tasks, Sampling(), samples=9))
    held("evaluations", [one.outcome.failure for one in found] == [JUDGE_ERROR] * 18)


def test_time_limits_come_alone(held):
    """Overtime is raised inside the work, or not at all."""
    for place in range(40):
        with suppress(Overtime):
            within(0.05, 60.0, lambda n=place: sum(range(n * 40_000)))
        for _ in range(1_000):
            pass
        held("time limits", signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0))
    time.sleep(0.3)
    held("time limits", signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL)
    held("time limits", within(1.0, 60.0, lambda: within(60.0, 60.0, lambda: 3)) == 3)
    child = (
        "from coevolve.core.overtime import within\nimport os\nwithin(1, 1, int)\n"
        "if not os.fork():\n  try:\n    within(0.2, 9, lambda: [0 for _ in iter(int, 1)])\n"
        "  except BaseException: os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    said = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, timeout=60)
    held("time limits", said.stdout.strip() == "7", said)


def test_no_time_limit_comes_while_work_is_begun_or_ended(held):
    """A signal that comes late finds the frame that it interrupts: the work's own, or another."""
    work = Work(0.0, 0.0)
    work.hear(signal.SIGVTALRM, sys._getframe())
    with pytest.raises(Overtime):
        done(work, lambda: work.hear(signal.SIGVTALRM, sys._getframe()))
    other = Work(60.0, 60.0)
    held("time limits", done(other, lambda: work.is_done_by(sys._getframe())) is False)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**400, 10**4200)
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=["Cs"]))
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "code"])
def test_any_value_as_an_answer(name, held):
    domain, task = first(name)
    known = {None, JUDGE_ERROR, *domain.failures}
    solution = domain.oracle(task)

    @settings(
        max_examples=60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
    )
    @given(ANYTHING, st.sampled_from(FORMS), st.integers(0, 99))
    def tried(value, form, cut):
        text = form.replace("{}", repr(value).replace("\\\\", "\\"))
        for one in (text, text + solution, solution[:cut] + text):
            found = capture.verify(domain, task, one)
            assert found.failure in known
            assert found.failure != JUDGE_ERROR, found.details

    tried()
    held("made-up values", True)
    rng = random.Random(4)
    for _ in range(9):
        junk = "".join(chr(rng.randrange(0x110000)) for _ in range(2_000))
        found = capture.verify(domain, task, solution + junk)
        held("made-up values", found.failure in known and found.failure != JUDGE_ERROR, found)


@pytest.mark.parametrize("name", ["math", "lake"])
def test_our_server_has_a_verdict_on_everything(name, held):
    pytest.importorskip("openenv")
    from coevolve.domains.openenv.environment import DomainEnvironment, Serving, TextAction

    serving = Serving(get_domain(name))
    for title in (
        "huge power",
        "lists",
        "surrogate",
        "spaces",
        "megabytes",
        "boxed",
        "think",
        "nan",
    ):
        session = DomainEnvironment(serving)
        session.reset(seed=4)
        seen = session.step(TextAction(message=BODIES[title]))
        held("our servers", seen.done and seen.outcome["failure"], title)


def test_our_server_survives_a_verifier_that_breaks(held):
    pytest.importorskip("openenv")
    from coevolve.domains.openenv.environment import DomainEnvironment, Serving, TextAction

    serving = Serving(Broken())
    for title in ("ValueError", "endless", "nan", "Mute", "CancelledError", "none", "KeyError"):
        session = DomainEnvironment(serving)
        session.reset(seed=4)
        seen = session.step(TextAction(message=title))
        held("our servers", seen.outcome["failure"] == JUDGE_ERROR, seen)
        held("our servers", math.isfinite(seen.reward), seen)


@pytest.mark.slow
def test_a_tester_that_is_kept_busy_ends_no_evaluation(held):
    domain = get_domain("code")
    waits = "found = candidate(2)\n    while found != 3: pass\n    assert found == 3"
    plain = "assert candidate(2) == 3"
    alike = "return {(2**61 - 1) * k * 2 + x: 0 for k in range(16)}"
    many = "return [tuple(range(20)) for _ in range(20000)]"
    for test, body in ((plain, alike), (plain, many), (waits, "return 4")):
        task = humaneval(f"{test}\n    assert candidate(3) == {{4}}")
        found = capture.verify(domain, task, f"```python\ndef f(x):\n    {body}\n```")
        held("busy testers", not found.valid and found.failure, (test, found))
    held("busy testers", found.failure == JUDGE_ERROR, found)


def test_half_characters_can_be_written_down(held, tmp_path):
    domain = Broken()
    task = domain.as_task({"n": 5})
    details = [{"reason": "\ud800"}, {"x": object()}, {"n": 10**5000}, {"n": math.nan}, {(1, 2): 3}]
    for place, told in enumerate(details):
        completion = Completion("half \ud800")
        made = judge(
            domain, [Prompt((Message(role="user", content="?"),), task)], [completion], "p"
        )
        odd = made[0].model_copy(
            update={"outcome": made[0].outcome.model_copy(update={"details": told})}
        )
        write([odd], tmp_path / f"{place}.parquet")
        held("half characters", len(read(tmp_path)) == place + 1, told)
