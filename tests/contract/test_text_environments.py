"""Every domain is a Gymnasium environment of text that Gymnasium's own checker accepts."""

import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from coevolve.core.errors import UserError
from coevolve.core.rollout import Message, Outcome
from coevolve.domains.environments import TextEnv, register
from coevolve.domains.math.domain import MathDomain
from coevolve.domains.registry import names

NAMES = [
    *sorted(names().keys() - {"swe"}),
    "reasoning.leg_counting",
    pytest.param("swe", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_checker_has_no_complaint(name):
    if name.startswith("reasoning."):
        pytest.importorskip("reasoning_gym")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(register(name), render_mode="ansi")
        check_env(env.unwrapped)
    inner = env.unwrapped
    prompt, info = env.reset(seed=3)
    assert prompt == "\n\n".join(message["content"] for message in info["messages"])
    right = inner.domain.oracle(inner.task)
    _, reward, over, cut, outcome = env.step(right)
    assert (reward, over, cut) == (pytest.approx(inner.domain.full_reward), True, False)
    assert (outcome["valid"], outcome["failure"]) == (True, None)
    again, _ = env.reset(seed=3)
    assert again == prompt
    assert env.reset()[0] != prompt
    _, reward, over, _, outcome = env.step("no idea")
    assert (reward <= 0, over, outcome["valid"]) == (True, True, False)


class Again:
    """An episode that asks until the answer is right."""

    def __init__(self, domain, task):
        self.domain, self.task = domain, task

    def reply(self, text):
        return None if self.domain.verify(self.task, text).valid else "No. Again?"

    def outcome(self, text, tokens=None) -> Outcome:
        return self.domain.verify(self.task, text, tokens)


class Patient(MathDomain):
    turns = 3
    tools = ()

    def begin(self, task):
        return Again(self, task)


class Handy(Patient):
    tools = ("look",)


def test_several_turns():
    env = TextEnv(Patient())
    env.reset(seed=0)
    right = env.domain.oracle(env.task)
    assert env.step("?") == ("No. Again?", 0.0, False, False, {})
    assert env.step(right)[1:4] == (1.0, True, False)
    with pytest.raises(UserError, match="reset"):
        env.step("?")
    env.reset()
    found = [env.step("?")[1:4] for _ in range(3)]
    assert found == [(0.0, False, False), (0.0, False, False), (0.0, False, True)]


def test_a_task_can_be_chosen_and_knobs_are_used():
    env = TextEnv("math", knobs={"bare.share": 1}, style="plain")
    prompt, _ = env.reset(seed=1)
    assert "####" in prompt
    task = env.task
    assert task.bucket["text"] == "bare"
    env.reset(seed=2)
    assert env.reset(options={"task": task})[0] == prompt
    assert isinstance(env.domain.prompt(task)[0], Message)


def test_mistakes_are_named():
    with pytest.raises(UserError, match="did you mean 'math'"):
        TextEnv("maths")
    with pytest.raises(UserError, match="'human'"):
        TextEnv("math", render_mode="human")
    with pytest.raises(UserError, match="test split"):
        TextEnv("math", split="test")
    with pytest.raises(UserError, match="tools"):
        TextEnv(Handy())
    env = TextEnv("math")
    env.reset()
    with pytest.raises(UserError, match="not 5"):
        env.step(5)
