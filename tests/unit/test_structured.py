"""JSON answers: what is taken, what is repaired, and texts that try to break the reader."""

import json
import time
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from coevolve.core.errors import PolicyError
from coevolve.core.rollout import Message, StopReason
from coevolve.policies.base import Completion, Sampling
from coevolve.policies.form import Unusable, answer_json, only_object, read_answer

QUESTION = (Message(role="user", content="Which knob?"),)


class Choice(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    knob: str
    value: float = Field(ge=0)
    path: tuple[int, ...] = ()


class Loose(BaseModel):
    """Accepts nearly every object, so that nothing but the reader stands between."""

    model_config = ConfigDict(extra="allow")


class Touchy(BaseModel):
    number: Annotated[float, AfterValidator(lambda value: 1 / 0)]


GOOD = '{"knob": "holes", "value": 0.5, "path": [1, 2]}'
CHOICE = Choice(knob="holes", value=0.5, path=(1, 2))


class Script:
    """Answers with the given texts in order and remembers what it was asked."""

    name = "script"

    def __init__(self, *texts, stop=StopReason.END):
        self.texts, self.stop, self.asked = list(texts), stop, []

    def answer(self, prompts, sampling):
        self.asked += [(prompt, sampling) for prompt in prompts]
        return [Completion(self.texts.pop(0), self.stop) for _ in prompts]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"\n```json\n{GOOD}\n```\n",
        f"```\n{GOOD}```",
        f"Sure! I looked at {{x}} and {{ }}.\nHere: {GOOD} Hope it helps, {{reader}}.".replace(
            "{ }", "{ y { z } }"
        ),
        f"<think>maybe {{}} or {GOOD}?</think>{GOOD}",
        f"maybe {{}} or {GOOD}?</think>{GOOD}",
    ],
)
def test_one_object_is_found_whatever_is_around_it(text):
    policy = Script(text)
    answered = answer_json(policy, QUESTION, Choice, Sampling(seed=5), sample=3)
    assert answered == (CHOICE, "", (text,), (Completion(text),))
    ((prompt, sampling),) = policy.asked
    assert (prompt.messages, prompt.sample, sampling.seed) == (QUESTION, 3, 5)
    assert json.loads(sampling.json_schema) == Choice.model_json_schema()


def test_tags_that_an_answer_quotes_are_no_thought():
    assert only_object('{"a": "<think>"}') == {"a": "<think>"}
    with pytest.raises(Unusable, match="<think>"):
        only_object(f"<think>maybe {GOOD}")


def test_a_model_may_think_before_it_is_held_to_a_form():
    policy = Script("<think>holes</think> Fewer {holes}.", "no", GOOD)
    answered = answer_json(policy, QUESTION, Choice, Sampling(max_tokens=50), think=20)
    assert (answered.value, len(answered.completions)) == (CHOICE, 3)
    (first, free), (second, held), (third, _) = policy.asked
    assert (free.json_schema, free.max_tokens) == (None, 20)
    assert (json.loads(held.json_schema), held.max_tokens) == (Choice.model_json_schema(), 50)
    assert first.messages[-1].content.startswith(QUESTION[-1].content)
    assert [one.role for one in second.messages[len(first.messages) :]] == ["assistant", "user"]
    assert second.messages[len(first.messages)].content == "holes Fewer {holes}."
    assert len(third.messages) == len(second.messages) + 2


def test_a_wrong_answer_is_repaired_with_the_error():
    wrong = '{"knob": "holes", "value": -1}'
    policy = Script("no idea", wrong, GOOD)
    answered = answer_json(policy, QUESTION, Choice, Sampling())
    assert (answered.value, answered.failure) == (CHOICE, "")
    assert answered.texts == ("no idea", wrong, GOOD)
    messages = policy.asked[2][0].messages
    assert [message.role for message in messages] == ["user"] + ["assistant", "user"] * 2
    assert messages[1].content == "no idea"
    assert "holds 0 JSON objects" in messages[2].content
    assert "at value: Input should be greater than or equal to 0 (got -1" in messages[4].content
    assert '"knob"' in messages[4].content


def test_repairs_are_bounded():
    policy = Script(*["x"] * 9)
    answered = answer_json(policy, QUESTION, Choice, Sampling(), repairs=3)
    assert answered.value is None
    assert answered.failure == "the answer holds 0 JSON objects; write exactly one"
    assert len(answered.texts) == len(answered.completions) == len(policy.asked) == 4
    assert len(answer_json(Script("x"), QUESTION, Choice, Sampling(), repairs=0).texts) == 1


def test_a_cut_answer_says_so():
    policy = Script('{"knob": "ho', stop=StopReason.LENGTH)
    answered = answer_json(policy, QUESTION, Choice, Sampling(max_tokens=7), repairs=0)
    assert answered.failure.startswith("the answer was cut off at 7 tokens; not JSON")


def test_errors_of_the_policy_pass_through():
    class Broken(Script):
        def answer(self, prompts, sampling):
            raise PolicyError("no server")

    with pytest.raises(PolicyError, match="no server"):
        answer_json(Broken(), QUESTION, Choice, Sampling())


HOSTILE = {
    "empty": ("", "0 JSON objects"),
    "huge": ("x" * 100_000_000, "100000000 characters; at most 200000"),
    "deep lists": ('{"a":' + "[" * 90_000, "nested too deeply"),
    "deep objects": ('{"a":' * 30_000, "nested too deeply"),
    "deep and closed": ('{"a":' * 30_000 + "1" + "}" * 30_000, "nested too deeply"),
    "deeper than can be kept": ('{"a":' + "[" * 60 + "]" * 60 + "}", "nested too deeply"),
    "deep within limits": ('{"a":' * 30 + "1" + "}" * 30, ""),
    "braces": ("{" * 190_000, "not JSON"),
    "pairs of braces": ("{x}" * 60_000, "0 JSON objects"),
    "empty objects": ("{}" * 60_000, "holds 60000 JSON objects"),
    "spaced braces": ("{ " * 90_000, "never closed"),
    "two objects": ('{"a": 1} or {"a": 2}', "holds 2 JSON objects"),
    "part of a broken object": ('{"a": {"b": 1}, oops}', "not JSON"),
    "part of an unquoted object": ("{a: {}}", "0 JSON objects"),
    "single quotes": ("{'a': {}}", "not JSON"),
    "cut": ('{"a": {}', "not JSON"),
    "nan": ('{"a": NaN}', "NaN is no JSON value"),
    "infinity": ('{"a": -Infinity}', "-Infinity is no JSON value"),
    "too large": ('{"a": 1e999}', "1e999 is too large a number"),
    "too many digits": ('{"a": ' + "9" * 5_000 + "}", "not JSON"),
    "duplicate keys": ('{"a": 1, "a": 2}', "the key 'a' appears twice"),
    "many duplicate keys": ("{" + '"a":1,' * 30_000 + '"a":1}', "the key 'a' appears twice"),
    "a list": ("[1, 2]", "0 JSON objects"),
    "half a pair, escaped": ('{"a": "\\ud800"}', "at the top: Invalid JSON"),
    "half a pair, raw": ('{"a": "\ud800"}', "at the top: Invalid JSON"),
    "half a pair in prose": ("\udfff", "0 JSON objects"),
    "a control character": ('{"a": "\x00"}', "not JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_breaks_the_reader(name):
    text, message = HOSTILE[name]
    began = time.process_time()
    answered = answer_json(Script(text, text), QUESTION, Loose, Sampling(), repairs=1)
    assert time.process_time() - began < 3
    assert message in answered.failure
    assert (answered.value is None) == bool(answered.failure) == bool(message)
    assert len(answered.failure) < 3_000
    answered.failure.encode()


def test_large_numbers_are_numbers():
    value, failure = read_answer('{"knob": "é漢🙂", "value": 1e308}', Choice)
    assert (value, failure) == (Choice(knob="é漢🙂", value=1e308), "")


def test_many_errors_are_listed_in_bounds():
    text = '{"knob": "a", "value": 1, "path": [' + '"x", ' * 30_000 + "1]}"
    value, failure = read_answer(text, Choice)
    assert value is None
    assert failure.endswith("and 29990 more")
    assert len(failure) < 2_001


def test_validators_may_raise_anything():
    value, failure = read_answer('{"number": 1}', Touchy)
    assert (value, failure) == (None, "ZeroDivisionError: division by zero")


def test_a_repair_shows_a_bounded_part_of_the_answer():
    policy = Script("\ud800" * 150_000, GOOD)
    assert answer_json(policy, QUESTION, Choice, Sampling()).value == CHOICE
    shown = policy.asked[1][0].messages[1].content
    assert shown == "�" * 4_000


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Surrogates are tried above: no model takes them.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
prose = st.text(st.characters(exclude_characters="{}"), max_size=30)


@given(st.dictionaries(st.text(), json_values), prose, prose)
def test_any_object_is_found_in_any_prose(value, before, after):
    assert only_object(before + json.dumps(value) + after) == value


@given(st.text(st.sampled_from('{}[]":,\\ \n\ud800é1eNa'), max_size=60))
def test_random_texts_never_raise(text):
    value, failure = read_answer(text, Loose)
    assert (value is None) == bool(failure)
