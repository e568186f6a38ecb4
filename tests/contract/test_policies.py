"""What every policy promises, asked of each kind of policy there is.

Add a policy by adding a maker to MAKERS: a context manager that gives a policy ready to answer.
"""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from coevolve.core.errors import PolicyError
from coevolve.core.rollout import Message, StopReason
from coevolve.core.splits import Split
from coevolve.domains.lake.domain import LakeDomain
from coevolve.policies.base import Completion, Prompt, Sampling
from coevolve.policies.endpoint import EndpointPolicy
from coevolve.policies.form import only_object
from coevolve.policies.script import ScriptedPolicy

GET_MODEL = Path(__file__).parents[3] / "shared" / "tools" / "get-model"
MODELS = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "coevolve" / "models"
SMOL = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Several threads that wait for each other are slow where tests run next to other work.
SERVING = {"context": 512, "threads": 1, "slots": 1}


def model_file() -> Path:
    """A small real model; the test is skipped where it cannot be had."""
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed (coevolve[gguf])")
    path = MODELS / SMOL
    if path.is_file():
        return path
    if not GET_MODEL.is_file():
        pytest.skip(f"no model at {path}, and no tool at {GET_MODEL} to get it with")
    command = [sys.executable, str(GET_MODEL), "smollm2-135m", str(MODELS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode or not path.is_file():
        pytest.skip(f"get-model could not fetch {SMOL}: {done.stderr[-200:]}")
    return path


@contextmanager
def scripted():
    yield ScriptedPolicy(LakeDomain(), "oracle")


@contextmanager
def endpoint():
    from coevolve.policies.gguf import serve

    served = serve(model_file(), **SERVING)
    policy = EndpointPolicy(served.base_url, "smol", api_key=served.api_key, concurrency=2)
    yield policy
    policy.close()


@contextmanager
def gguf():
    from coevolve.policies.gguf import GgufPolicy

    policy = GgufPolicy(model_file(), **SERVING)
    yield policy
    policy.close()


@contextmanager
def local():
    pytest.importorskip("transformers", reason="local models need the extra `train`")
    from coevolve.policies.local import LocalPolicy

    model_file()
    yield LocalPolicy("smollm2", "cpu")


class Maker(NamedTuple):
    name: str
    make: object
    model: bool = True
    """Whether a language model answers: it has tokens, draws, and can be cut off."""


MAKERS = [
    Maker("scripted", scripted, model=False),
    Maker("endpoint", endpoint),
    Maker("gguf", gguf),
    Maker("local", local),
]


class Case(NamedTuple):
    policy: object
    model: bool
    answers: list[Completion]
    """To `questions()` with SAMPLING, shared by the tests because models are slow."""


# With this seed no draw of SmolLM2 is so near a tie that rounding, which hangs on load, decides it.
SAMPLING = Sampling(temperature=1.0, max_tokens=6, seed=13)
SAMPLES = 2


def questions():
    domain = LakeDomain()
    tasks = list(domain.generate(domain.space.parse({}), 2, 0, Split.DEV))
    texts = ("Say hello to Zoë 漢字 🙂.", "Name a colour.")
    return [
        Prompt((Message(role="user", content=text),), task, sample)
        for text, task in zip(texts, tasks, strict=True)
        for sample in range(SAMPLES)
    ]


@pytest.fixture(scope="module", params=MAKERS, ids=lambda maker: maker.name)
def case(request):
    with request.param.make() as policy:
        yield Case(policy, request.param.model, policy.answer(questions(), SAMPLING))


@pytest.fixture
def model_case(case):
    if not case.model:
        pytest.skip("a script has no tokens and does not draw")
    return case


def texts(completions):
    return [completion.text for completion in completions]


def test_one_completion_per_prompt_in_order(case):
    assert len(case.answers) == len(questions())
    assert all(isinstance(completion, Completion) for completion in case.answers)
    # Alone and in another order, the answer to a prompt is the same one.
    assert texts(case.policy.answer(questions()[-1:], SAMPLING)) == texts(case.answers[-1:])
    backwards = case.policy.answer(questions()[::-1], SAMPLING)
    assert texts(backwards)[::-1] == texts(case.answers)


def test_no_prompts_no_answers(case):
    assert case.policy.answer([], SAMPLING) == []


def test_it_has_a_name(case):
    assert isinstance(case.policy.name, str)
    assert case.policy.name


def test_texts_can_be_stored_and_sent(case):
    for completion in case.answers:
        assert completion.text.encode().decode() == completion.text
        Message(role="assistant", content=completion.text)


def test_counts_are_sane(case):
    for completion in case.answers:
        assert completion.seconds > 0
        if not case.model:
            assert completion.prompt_tokens == completion.completion_tokens == 0
            continue
        assert 0 < completion.completion_tokens <= SAMPLING.max_tokens
        assert 5 < completion.prompt_tokens < 200
        for numbers in (completion.tokens, completion.logprobs, completion.entropies):
            assert numbers is None or len(numbers) in (
                completion.completion_tokens,
                completion.completion_tokens - 1,
            )
        assert all(logprob <= 1e-6 for logprob in completion.logprobs or ())
    if case.model:
        assert any(completion.logprobs for completion in case.answers)


def test_samples_differ_and_so_do_seeds(model_case):
    first = texts(model_case.answers)
    assert any(first[n] != first[n + 1] for n in range(0, len(first), SAMPLES))
    other = model_case.policy.answer(questions(), SAMPLING.model_copy(update={"seed": 12}))
    assert texts(other) != first


def test_greedy_answers_are_the_same_for_all_samples_and_seeds(model_case):
    greedy = Sampling(temperature=0, max_tokens=6)
    found = texts(model_case.policy.answer(questions(), greedy))
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert found[0] != found[2]
    other_seed = greedy.model_copy(update={"seed": 1})
    assert texts(model_case.policy.answer(questions()[:1], other_seed)) == found[:1]


def test_the_token_limit_cuts_answers_off(model_case):
    asked = [Prompt((Message(role="user", content="Write a long story about a lake."),))]
    (short,) = model_case.policy.answer(asked, Sampling(temperature=0, max_tokens=2))
    (longer,) = model_case.policy.answer(asked, Sampling(temperature=0, max_tokens=9))
    assert (short.stop, short.completion_tokens) == (StopReason.LENGTH, 2)
    assert (longer.stop, longer.completion_tokens) == (StopReason.LENGTH, 9)
    assert longer.text.startswith(short.text)


def test_unicode_reaches_the_model(model_case):
    plain = Prompt((Message(role="user", content="Say hello to Zo  ."),))
    (found,) = model_case.policy.answer([plain], SAMPLING)
    assert model_case.answers[0].prompt_tokens > found.prompt_tokens


def test_a_schema_is_followed(model_case):
    schema = '{"type": "object", "properties": {"n": {"enum": [3, 4]}}, "required": ["n"]}'
    sampling = Sampling(temperature=0, max_tokens=60, json_schema=schema)
    for completion in model_case.policy.answer(questions()[::2], sampling):
        assert only_object(completion.text)["n"] in (3, 4)


def test_gguf_is_quiet_and_stops_at_exit():
    code = (
        "import sys; from pathlib import Path; from coevolve.policies.gguf import GgufPolicy;"
        "from coevolve.policies.base import *; from coevolve.core.rollout import Message;"
        "policy = GgufPolicy(Path(sys.argv[1]), context=256, threads=1, slots=1);"
        "policy.answer([Prompt((Message(role='user', content='Hi'),))], Sampling(max_tokens=1));"
        "print(policy.name)"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(model_file())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "SmolLM2-135M-Instruct.Q4_1\n"


def test_gguf_files_that_cannot_be_served(tmp_path):
    from coevolve.policies.gguf import GgufPolicy

    other, cut = tmp_path / "other.gguf", tmp_path / "cut.gguf"
    other.write_bytes(b"PK\x03\x04")
    with model_file().open("rb") as file:
        cut.write_bytes(file.read(100_000))
    for path, message in (
        (tmp_path / "none.gguf", r"No such file.*give the path of a \.gguf file"),
        (tmp_path, "cannot read the model"),
        (other, r"is not a GGUF file: it begins with b'PK.*download it again"),
        (cut, r"llama\.cpp cannot load .*check that the download is complete"),
    ):
        with pytest.raises(PolicyError, match=message):
            GgufPolicy(path)


def test_what_continues_a_question_is_not_read_again():
    from coevolve.policies.gguf import GgufPolicy

    policy = GgufPolicy(model_file(), context=1_024, threads=1, slots=1)
    words = " ".join(str(number) for number in range(150))
    messages = (Message(role="user", content=f"{words}. Which number comes next?"),)

    def asked():
        began = time.process_time()
        policy.answer([Prompt(messages)], Sampling(temperature=0, max_tokens=1, seed=0))
        return time.process_time() - began

    asked()
    again = asked()
    policy.remember()
    asked()
    messages = (*messages, Message(role="assistant", content="150"),
                Message(role="user", content="And then?"))  # fmt: skip
    assert asked() < again / 2
    policy.close()


def test_gguf_without_its_package_and_after_close(monkeypatch):
    from coevolve.policies.gguf import GgufPolicy

    policy = GgufPolicy(model_file(), context=256, threads=1, slots=1)
    policy.close()
    policy.close()
    with pytest.raises(PolicyError, match="is closed"):
        policy.answer(questions(), SAMPLING)
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(PolicyError, match=r"coevolve\[gguf\]"):
        GgufPolicy(policy.path)
