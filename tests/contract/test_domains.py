"""Every domain passes the conformance suite, and the suite catches domains that do not."""

import random
from itertools import cycle

import pytest
from guessing import Guess, GuessingDomain

from coevolve.core.rollout import Message
from coevolve.domains.base import Statistic
from coevolve.domains.check import Counts, conformance
from coevolve.domains.lake.domain import LakeDomain
from coevolve.domains.registry import get_domain, names
from coevolve.domains.simple import verdict

SLOW = dict.fromkeys(("swe", "engineering", "code"), pytest.mark.slow)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW.get(name, ())) for name in sorted(names())]
)
def test_conformance(name):
    findings = list(conformance(get_domain(name)))
    assert len(findings) == 12
    assert [finding for finding in findings if not finding.passed] == []


class FewTasks(LakeDomain):
    """What is wrong with a domain shows in a few tasks."""

    counts = Counts(sample=20, many=20, split=40, pushed=20)


class Forgetful(FewTasks):
    def generate(self, knobs, count, seed, split, workers=1):
        return super().generate(knobs, count, random.randrange(2**32), split, workers)


class Unsplit(FewTasks):
    def generate(self, knobs, count, seed, split, workers=1):
        from coevolve.core.splits import Split

        for task in super().generate(knobs, count, seed, Split.TRAIN, workers):
            yield task.model_copy(update={"split": split})


class Generous(FewTasks):
    def verify(self, task, text, tokens=None):
        outcome = super().verify(task, text, tokens)
        return outcome.model_copy(update={"reward": 0.1 + outcome.reward})


class Moody(FewTasks):
    moods = cycle((0.0, 1e-6, 2e-6))

    def verify(self, task, text, tokens=None):
        outcome = super().verify(task, text, tokens)
        return outcome.model_copy(update={"details": {"mood": next(self.moods)}})


class Leaky(FewTasks):
    def prompt(self, task, style=""):
        hint = Message(role="user", content="Hint: " + self.oracle(task, "compact"))
        return (*super().prompt(task, style), hint)


class Gullible(FewTasks):
    def verify(self, task, text, tokens=None):
        return super().verify(task, self.oracle(task) if text else text, tokens)


class Numb(FewTasks):
    def statistics(self, tasks):
        return dict.fromkeys(self.space.knobs, Statistic(0.5, len(tasks)))


class Barren(FewTasks):
    def generate(self, knobs, count, seed, split, workers=1):
        raise ValueError("boom")


class Broken(FewTasks):
    def oracle(self, task, style=""):
        raise RuntimeError("no idea")


class Won(GuessingDomain):
    """Every task has the same solution on paper, which wins no episode."""

    def answer(self, data):
        return "won"

    def begin(self, task):
        return Played(self, task)


class Played(Guess):
    def outcome(self, text, tokens=None):
        return verdict("wrong", "not won")


@pytest.mark.parametrize(
    ("domain", "check"),
    [
        (Won, "the oracle earns full reward"),
        (Won, "episodes come to a verdict"),
        (Forgetful, "same seed, same tasks"),
        (Unsplit, "splits are disjoint"),
        (Generous, "empty, constant and garbage answers earn nothing"),
        (Generous, "the oracle earns full reward"),
        (Gullible, "answers to other tasks earn little"),
        (Moody, "verifying twice agrees"),
        (Leaky, "the prompt does not leak the solution"),
        (Numb, "every knob moves its statistic"),
        (Broken, "the oracle earns full reward"),
        (Barren, "declarations"),
        (Barren, "the oracle earns full reward"),
        (Barren, "the prompt does not leak the solution"),
    ],
)
def test_the_suite_catches(domain, check):
    for finding in conformance(domain()):
        if finding.name == check:
            assert not finding.passed
            assert finding.message
            return
    pytest.fail(f"no check called {check}")


def test_a_scripted_player_may_be_the_oracle_of_episodes():
    class Player(Won):
        players = {"oracle": lambda task, rng, messages: f"<answer>{task.data['secret']}</answer>"}

        def begin(self, task):
            return ByNumber(self, task)

    class ByNumber(Guess):
        def outcome(self, text, tokens=None):
            return verdict(None if f">{self.task.data['secret']}<" in text else "wrong", "")

    found = {one.name: one for one in conformance(Player())}
    assert found["episodes come to a verdict"].passed, found["episodes come to a verdict"].message
