"""The endpoint policy against a server that misbehaves on purpose, and the cache behind it."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from answering import chat, serving

from coevolve.core.errors import PolicyError, UserError
from coevolve.core.rollout import Message, StopReason
from coevolve.policies.base import Completion, Prompt, Sampling, worth
from coevolve.policies.cache import AnswerCache, key_of
from coevolve.policies.endpoint import EndpointPolicy, retry_after_s

KEY = "sk-secret-0123456789"
SCHEMA = '{"type": "object"}'


@contextmanager
def policy_at(url, **options):
    options = {"api_key": KEY, "backoff_s": 0.01, "backoff_cap_s": 0.3, "timeout_s": 10, **options}
    policy = EndpointPolicy(url, "tiny", **options)
    try:
        yield policy
    finally:
        policy.close()


def prompts(count, sample=0):
    return [
        Prompt((Message(role="user", content=f"question {n} é漢🙂"),), None, sample)
        for n in range(count)
    ]


def ok(number, body):
    return 200, {}, chat(body["messages"][-1]["content"].replace("question", "answer"))


def first(*replies):
    """The given replies in order, then `ok`."""
    return lambda number, body: replies[number] if number < len(replies) else ok(number, body)


def test_answers_come_in_order_and_are_accounted():
    with serving(ok) as server, policy_at(server.url, price_in=2.0, price_out=6.0) as policy:
        found = policy.answer(prompts(20), Sampling())
        assert [completion.text for completion in found] == [f"answer {n} é漢🙂" for n in range(20)]
        assert {(c.stop, c.prompt_tokens, c.completion_tokens) for c in found} == {
            (StopReason.END, 10, 4)
        }
        assert all(completion.seconds > 0 for completion in found)
        assert policy.usage[:4] == (20, 0, 200, 80)
        assert policy.usage.cost == pytest.approx((200 * 2 + 80 * 6) / 1e6)
        assert policy.answer([], Sampling()) == []
        assert policy.name == "tiny"


def test_answers_share_the_time_that_they_took_together(tmp_path):
    def slow(number, body):
        time.sleep(0.2)
        return ok(number, body)

    options = {"concurrency": 8, "cache": tmp_path / "answers.db"}
    with serving(slow) as server, policy_at(server.url, **options) as policy:
        first = policy.answer(prompts(4), Sampling())
        began = time.perf_counter()
        both = policy.answer(prompts(8), Sampling())
        took = time.perf_counter() - began
    assert len({completion.seconds for completion in first}) == 1
    new = sum(completion.seconds for completion in both[4:])
    assert 0.2 <= new <= took


def test_what_is_sent():
    with serving(ok) as server, policy_at(server.url, extra={"top_p": 0.5}) as policy:
        policy.answer(prompts(1), Sampling(temperature=0.7, max_tokens=9, seed=3))
        (body,) = server.bodies
        assert body["model"] == "tiny"
        assert (body["temperature"], body["max_tokens"], body["top_p"]) == (0.7, 9, 0.5)
        assert body["logprobs"] is True
        assert "response_format" not in body
        assert not body.get("stream")
        assert 0 <= body["seed"] < 2**31
        policy.answer(prompts(1, sample=1), Sampling(temperature=0.7, max_tokens=9, seed=3))
        policy.answer(prompts(1), Sampling(temperature=0.7, max_tokens=9, seed=4))
        policy.answer(prompts(1), Sampling(temperature=0.7, max_tokens=9, seed=3))
        seeds = [body["seed"] for body in server.bodies]
        assert len(set(seeds)) == 3
        assert seeds[0] == seeds[3]


def test_a_greedy_answer_is_asked_for_once():
    asked = prompts(1) + prompts(1, sample=1) + prompts(2)
    with serving(ok) as server, policy_at(server.url) as policy:
        found = policy.answer(asked, Sampling(temperature=0))
        assert found[0] == found[1] == found[2] != found[3]
        assert policy.usage[:2] == (2, 2)
        assert len(server.bodies) == 2


@pytest.mark.parametrize(
    "bad",
    [
        (500, {}, b"oops"),
        (503, {}, {"error": {"message": "busy"}}),
        (408, {}, b""),
        (429, {"retry-after": "0.1"}, {"error": {"message": "slow down"}}),
        (200, {}, b"<html>gateway</html>"),
        (200, {}, b"\xff\xfe{"),
        (200, {}, b"[" * 100_000),
        (200, {}, [1]),
        (200, {}, {"error": "overloaded"}),
        (200, {}, {"choices": []}),
        (200, {}, {"choices": [None]}),
        (200, {}, chat(None, None)),
        (200, {}, chat(["parts"])),
        (200, {"content-length": "5000"}, b'{"choices": [{"mess'),
        (200, {"content-encoding": "gzip"}, b"not gzip"),
    ],
    ids=lambda bad: f"{bad[0]} {str(bad[2])[:20]}",
)
def test_trouble_that_passes_is_retried(bad):
    with serving(first(bad, bad)) as server, policy_at(server.url) as policy:
        (completion,) = policy.answer(prompts(1), Sampling())
        assert completion.text == "answer 0 é漢🙂"
        assert len(server.bodies) == policy.usage.calls == 3


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ((500, {}, b"oops"), r"HTTP 500: oops; check that the server runs"),
        ((429, {}, b"slow down"), r"HTTP 429: slow down; ask for fewer answers"),
        ((200, {}, b"<html>"), r"not JSON: b'<html>'"),
        ((200, {}, {"choices": []}), r"no choices in the response: \{'choices': \[\]\}"),
        ((200, {}, chat(None, None)), r"no text in the response: content is None"),
        ((200, {"content-length": "99"}, b"{"), r"connection failed"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_retries_are_bounded(bad, message):
    with serving(lambda number, body: bad) as server, policy_at(server.url, retries=3) as policy:
        with pytest.raises(PolicyError, match=message) as caught:
            policy.answer(prompts(1), Sampling())
        assert len(server.bodies) == 4
        assert f"model 'tiny' at {server.url} after 3 retries" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, r"HTTP 401.*set COEVOLVE_API_KEY \(or OPENAI_API_KEY\)"),
        (403, r"HTTP 403.*change the request"),
        (404, r"HTTP 404.*a model 'tiny'.*/v1"),
        (413, r"HTTP 413"),
    ],
)
def test_a_refusal_is_an_error_at_once(status, message):
    reply = (status, {}, {"error": {"message": f"no: key {KEY}"}})
    with serving(lambda number, body: reply) as server, policy_at(server.url) as policy:
        with pytest.raises(PolicyError, match=message) as caught:
            policy.answer(prompts(1), Sampling())
        assert len(server.bodies) == 1
        assert KEY not in "".join(traceback.format_exception(caught.value))
        assert "[key]" in str(caught.value)


def test_an_empty_account_is_not_retried():
    reply = (429, {}, {"error": {"message": "pay", "code": "insufficient_quota"}})
    with serving(lambda number, body: reply) as server, policy_at(server.url) as policy:
        with pytest.raises(PolicyError, match="insufficient_quota"):
            policy.answer(prompts(1), Sampling())
        assert len(server.bodies) == 1


def test_retry_after_is_honoured_up_to_the_cap():
    wait = (429, {"retry-after": "0.2"}, b"")
    for_long = (503, {"retry-after": "3600"}, b"")
    with serving(first(wait, for_long)) as server, policy_at(server.url) as policy:
        policy.answer(prompts(1), Sampling())
        first_s, second_s = (b - a for a, b in zip(server.times, server.times[1:], strict=False))
        assert first_s >= 0.2
        assert 0.3 <= second_s < 60
    assert retry_after_s({"retry-after": "7"}) == 7
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}) > 1e6
    assert retry_after_s({"retry-after": "soon"}) == retry_after_s({}) == 0
    assert retry_after_s({"retry-after": "nan"}) == 0


def test_a_slow_server_times_out_even_if_it_trickles():
    trickle = (200, {"x-trickle": "1"}, b" " * 40)
    with (
        serving(lambda number, body: trickle) as server,
        policy_at(server.url, retries=1, timeout_s=1.0) as policy,
    ):
        with pytest.raises(PolicyError, match=r"timed out after 1 s; ask for fewer answers"):
            policy.answer(prompts(1), Sampling())
        assert len(server.bodies) == 2


def test_nobody_listens():
    with serving(ok) as server:
        url = server.url
    with (
        policy_at(url, retries=1) as policy,
        pytest.raises(PolicyError, match=r"connection failed.*check that the server runs"),
    ):
        policy.answer(prompts(3), Sampling())


def test_logprobs_where_the_server_gives_them():
    tokens = [{"token": "a", "logprob": -0.5}] * 4
    odd = [{"token": "a", "logprob": None}] * 4
    replies = [chat("x", logprobs={"content": content}) for content in (tokens, odd, tokens[:2])]
    with (
        serving(lambda number, body: (200, {}, replies[number])) as server,
        policy_at(server.url, concurrency=1) as policy,
    ):
        found = policy.answer(prompts(3), Sampling())
    assert [completion.logprobs for completion in found] == [(-0.5,) * 4, None, None]


def test_stop_reasons_and_odd_texts():
    replies = [
        chat("cut", "length"),
        chat(None, "length"),
        chat(None, "stop"),
        chat("\ud800half", "eos"),
        {"choices": [{"message": {"content": None, "refusal": "I will not"}}]},
    ]
    with (
        serving(lambda number, body: (200, {}, replies[number])) as server,
        policy_at(server.url, concurrency=1) as policy,
    ):
        found = policy.answer(prompts(5), Sampling())
    assert [(completion.text, str(completion.stop)) for completion in found] == [
        ("cut", "length"),
        ("", "length"),
        ("", "end"),
        ("�half", "end"),
        ("I will not", "end"),
    ]
    assert found[4].prompt_tokens == found[4].completion_tokens == 0


@pytest.mark.parametrize(
    "complaint",
    [
        "maximum context length is 4096 tokens. However, you requested 8000 tokens (3900 in the "
        "messages, 4100 in the completion)",
        "'max_tokens' is too large: 4100. This model's maximum context length is 4096 tokens and "
        "your request has 3900 input tokens",
    ],
)
def test_an_answer_takes_the_room_that_is_left(complaint):
    def behave(number, body):
        fits = body["max_tokens"] <= 196
        return ok(number, body) if fits else (400, {}, {"error": {"message": complaint}})

    with serving(behave) as server, policy_at(server.url) as policy:
        (found,) = policy.answer(prompts(1), Sampling(max_tokens=4100))
    assert found.text.startswith("answer")
    assert [body["max_tokens"] for body in server.bodies] == [4100, 196]


def test_a_dialogue_that_outgrows_the_context_ends():
    def behave(number, body):
        if len(body["messages"]) > 1:
            return 400, {}, {"error": {"message": "exceeds the available context size"}}
        return ok(number, body)

    first, second = prompts(2)
    turns = (Message(role="assistant", content="a"), Message(role="user", content="b"))
    grown = second._replace(messages=(*second.messages, *turns))
    with serving(behave) as server, policy_at(server.url) as policy:
        one, other = policy.answer([first, grown], Sampling())
        assert one.text == "answer 0 é漢🙂"
        assert (other.text, str(other.stop)) == ("", "length")
        with pytest.raises(PolicyError, match="context size"):
            policy.answer([second._replace(messages=turns[1:] * 2)], Sampling())


def rejecting(*names, complaint=""):
    """A server that answers 400 to any body with one of the parameters."""

    def behave(number, body):
        kinds = {**body, body.get("response_format", {}).get("type"): 1}
        found = [name for name in names if name in kinds]
        if found:
            return 400, {}, {"error": {"message": complaint or f"unknown parameter: {found[0]}"}}
        return ok(number, body)

    return behave


def test_a_server_without_logprobs_is_asked_without_them_from_then_on():
    with serving(rejecting("logprobs")) as server, policy_at(server.url) as policy:
        policy.answer(prompts(1), Sampling())
        assert ["logprobs" in body for body in server.bodies] == [True, False]
        policy.answer(prompts(3, sample=1), Sampling())
        assert ["logprobs" in body for body in server.bodies[2:]] == [False] * 3


def test_a_server_without_schemas_is_asked_for_any_object_and_then_for_anything():
    def shapes(server):
        return [body.get("response_format", {}).get("type") for body in server.bodies]

    sampling = Sampling(json_schema=SCHEMA)
    with serving(ok) as server, policy_at(server.url) as policy:
        policy.answer(prompts(1), sampling)
        (body,) = server.bodies
        assert body["response_format"] == {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
        }
    with serving(rejecting("json_schema")) as server, policy_at(server.url) as policy:
        policy.answer(prompts(1), sampling)
        assert shapes(server) == ["json_schema", "json_object"]
        assert all("logprobs" in body for body in server.bodies)
        policy.answer(prompts(1, sample=1), sampling)
        assert shapes(server)[2:] == ["json_object"]
        policy.answer(prompts(1), Sampling(json_schema='{"type": "string"}'))
        assert shapes(server)[3:] == ["json_schema", "json_object"]
    bare = rejecting("json_schema", "json_object", "logprobs", complaint="bad request")
    with serving(bare) as server, policy_at(server.url) as policy:
        policy.answer(prompts(1), sampling)
        policy.answer(prompts(1, sample=1), sampling)
        assert shapes(server) == ["json_schema", "json_schema", "json_object", None, None]


def test_other_names_and_requests_that_no_dialect_helps():
    names = rejecting("max_tokens", complaint="use max_completion_tokens instead of max_tokens")
    with serving(names) as server, policy_at(server.url) as policy:
        policy.answer(prompts(1), Sampling(max_tokens=5))
        assert server.bodies[1]["max_completion_tokens"] == 5
        assert "max_tokens" not in server.bodies[1]
    always = rejecting("model", complaint="no such thing")
    with serving(always) as server, policy_at(server.url) as policy:
        for _ in range(2):
            with pytest.raises(PolicyError, match=r"HTTP 400.*no such thing"):
                policy.answer(prompts(1), Sampling())
        # What did not help is not kept.
        assert ["logprobs" in body for body in server.bodies] == [True, False, True, False]
    too_long = rejecting("model", complaint="exceeds the context size")
    with serving(too_long) as server, policy_at(server.url) as policy:
        with pytest.raises(PolicyError, match="exceeds the context size"):
            policy.answer(prompts(1), Sampling())
        assert len(server.bodies) == 1


def test_requests_in_flight_are_bounded_over_all_threads():
    def lazy(number, body):
        time.sleep(0.05)
        return ok(number, body)

    with serving(lazy) as server, policy_at(server.url, concurrency=3) as policy:
        with ThreadPoolExecutor(5) as pool:
            found = list(
                pool.map(lambda n: policy.answer(prompts(6, sample=n), Sampling()), range(5))
            )
        assert all(
            [completion.text for completion in batch] == [f"answer {n} é漢🙂" for n in range(6)]
            for batch in found
        )
        assert server.most_busy == 3
        assert policy.usage.calls == 30


def test_it_works_inside_a_running_loop():
    async def inside(policy):
        return policy.answer(prompts(2), Sampling())

    with serving(ok) as server, policy_at(server.url) as policy:
        assert len(asyncio.run(inside(policy))) == 2
        assert len(policy.answer(prompts(2), Sampling())) == 2
        policy.close()
        assert len(policy.answer(prompts(2), Sampling())) == 2


def test_closing_while_answering_is_an_error_and_no_hang():
    release = threading.Event()

    def slow(number, body):
        release.wait(60)
        return ok(number, body)

    with serving(slow) as server, policy_at(server.url) as policy, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(policy.answer, prompts(1), Sampling())
        while not server.bodies:
            time.sleep(0.01)
        policy.close()
        with pytest.raises(PolicyError, match="closed while it answered"):
            waiting.result(50)
        release.set()


def timeless(completions):
    return [completion._replace(seconds=0) for completion in completions]


def test_the_cache_repeats_no_call(tmp_path):
    path = tmp_path / "deep" / "answers.sqlite"
    tokens = {"content": [{"logprob": -0.25}] * 4}
    with serving(lambda n, body: (200, {}, chat("é漢🙂", logprobs=tokens))) as server:
        with policy_at(server.url, cache=path) as policy:
            fresh = timeless(policy.answer(prompts(5), Sampling()))
            assert timeless(policy.answer(prompts(5), Sampling())) == fresh
            assert policy.usage[:4] == (5, 5, 50, 20)
        with policy_at(server.url, cache=path) as policy:
            assert timeless(policy.answer(prompts(5), Sampling())) == fresh
            assert policy.usage == (0, 5, 0, 0, 0.0)
            policy.prices = (1e6, 1e5)
            assert worth(policy, fresh) == 5 * (10 + 0.4)  # whoever resumes counts it all the same
            assert len(server.bodies) == 5
            for other in (
                Sampling(seed=1),
                Sampling(temperature=0.5),
                Sampling(max_tokens=5),
                Sampling(json_schema=SCHEMA),
            ):
                policy.answer(prompts(1), other)
            policy.answer(prompts(1, sample=1), Sampling())
            assert len(server.bodies) == 10
    assert fresh[0].logprobs == (-0.25,) * 4
    assert all(KEY.encode() not in file.read_bytes() for file in path.parent.iterdir())


def test_a_failure_keeps_what_came_before_it(tmp_path):
    def behave(number, body):
        return (401, {}, b"") if "question 3" in str(body) else ok(number, body)

    healthy = threading.Event()
    with serving(lambda n, b: ok(n, b) if healthy.is_set() else behave(n, b)) as server:
        with policy_at(server.url, cache=tmp_path / "c", concurrency=1) as policy:
            with pytest.raises(PolicyError, match="401"):
                policy.answer(prompts(6), Sampling())
            assert len(server.bodies) == 4
            healthy.set()
            assert len(policy.answer(prompts(6), Sampling())) == 6
            assert policy.usage.cached == 3
        assert len(server.bodies) == 7


ASK = """
import sys
from pathlib import Path
from coevolve.core.rollout import Message
from coevolve.policies.base import Prompt, Sampling
from coevolve.policies.endpoint import EndpointPolicy
policy = EndpointPolicy(sys.argv[1], "tiny", concurrency=1, cache=Path(sys.argv[2]))
prompts = [Prompt((Message(role="user", content=f"question {n}"),)) for n in range(6)]
print([completion.text for completion in policy.answer(prompts, Sampling())], policy.usage.calls)
"""


def test_a_killed_run_repeats_no_answered_call(tmp_path):
    stuck = threading.Event()

    def behave(number, body):
        if number == 3:
            stuck.wait(30)
        return ok(number, body)

    command = [sys.executable, "-c", ASK]
    with serving(behave) as server:
        command += [server.url, str(tmp_path / "c")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        give_up = time.monotonic() + 30
        while len(server.bodies) < 4 and time.monotonic() < give_up:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        stuck.set()
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert done.stderr == ""
        assert done.stdout.strip() == f"{[f'answer {n}' for n in range(6)]} 3"
        assert len(server.bodies) == 4 + 3


def test_the_key_comes_from_the_environment_and_is_never_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "second")
    policy = EndpointPolicy("http://localhost:1/v1/", "m")
    assert policy._api_key == "second"
    monkeypatch.setenv("COEVOLVE_API_KEY", f"{KEY}\n")
    policy = EndpointPolicy("http://localhost:1/v1/", "m")
    assert policy._api_key == KEY
    assert repr(policy) == "EndpointPolicy('http://localhost:1/v1', 'm')"
    monkeypatch.setenv("COEVOLVE_API_KEY", "sk-ключ")
    with pytest.raises(UserError, match="COEVOLVE_API_KEY") as caught:
        EndpointPolicy("http://localhost:1/v1", "m")
    assert "ключ" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("localhost:8000", {}, "'localhost:8000' is not an address; use http://"),
        ("http://me:word@host/v1", {}, "host holds a password"),
        ("http://host", {"concurrency": 0}, "concurrency 0"),
        ("http://host", {"timeout_s": 0}, "timeout_s 0"),
        ("http://host", {"price_in": -1}, "prices -1"),
    ],
)
def test_wrong_settings_are_refused(url, options, message):
    with pytest.raises(UserError, match=message) as caught:
        EndpointPolicy(url, "m", **options)
    assert "word@" not in str(caught.value)


@pytest.mark.parametrize("schema", ["{", "[]", "[" * 100_000])
def test_a_broken_schema_is_the_users_error(schema):
    with (
        policy_at("http://127.0.0.1:1/v1") as policy,
        pytest.raises(UserError, match="`json_schema` is no"),
    ):
        policy.answer(prompts(1), Sampling(json_schema=schema))


def test_whether_anything_answers_at_an_address():
    with serving(ok) as server, policy_at(server.url) as policy:
        policy.reach()  # it knows no list of models, but it answers
        assert server.bodies == []
    with (
        policy_at("http://127.0.0.1:1/v1") as policy,
        pytest.raises(PolicyError, match=r"nothing answers at .* 'tiny' .*; start its server"),
    ):
        policy.reach()


COMPLETION = Completion("é\ud800\0", StopReason.LENGTH, (1, 2), (-0.1, -1e-9), None, 3, 2, 0.25)


def test_the_cache_gives_back_what_it_was_given(tmp_path):
    cache = AnswerCache(tmp_path / "c")
    cache.put("key", COMPLETION)
    cache.put("key", Completion("another"))
    assert cache.get("key") == COMPLETION
    assert cache.get("other") is None
    assert len(cache) == 1
    cache.close()
    assert cache.get("key") == COMPLETION
    cache.close()
    assert key_of({"a": 1, "b": "é"}) == key_of({"b": "é", "a": 1}) != key_of({"a": 1, "b": "e"})


def fill(path, first_key):
    cache = AnswerCache(path)
    for number in range(50):
        cache.put(str(first_key + number), COMPLETION)
    cache.close()


def test_many_threads_and_processes_share_a_cache(tmp_path):
    path = tmp_path / "c"
    code = (
        "import sys; sys.path[:0] = [sys.argv[1], f'{sys.argv[1]}/..']; from pathlib import Path;"
        "from test_endpoint import fill; fill(Path(sys.argv[2]), int(sys.argv[3]))"
    )
    command = [sys.executable, "-c", code, str(os.path.dirname(__file__)), str(path)]
    running = [subprocess.Popen([*command, str(100 * n)]) for n in range(3)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: fill(path, 1000 + 100 * n), range(4)))
    assert [process.wait(30) for process in running] == [0, 0, 0]
    cache = AnswerCache(path)
    assert len(cache) == 7 * 50
    cache.close()


def test_a_cache_that_cannot_be_used_says_which_and_what_to_do(tmp_path):
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"not a database at all" * 100)
    (tmp_path / "file").touch()
    for path in (garbage, tmp_path, tmp_path / "file" / "c"):
        with pytest.raises(PolicyError, match=rf"answer cache {path} cannot be used.*delete it"):
            AnswerCache(path)
    cache = AnswerCache(tmp_path / "c")
    cache._execute("INSERT INTO answers VALUES ('k', '{')")
    with pytest.raises(PolicyError, match=r"holds an answer that cannot be read.*delete it"):
        cache.get("k")
    cache.close()
