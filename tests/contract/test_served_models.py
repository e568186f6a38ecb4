"""vLLM itself, on this CPU: the same answers as the local policy's. Needs COEVOLVE_VLLM."""

import os
from collections.abc import Iterator

import pytest

from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.evaluation.difference import paired
from coevolve.policies import vllm
from coevolve.policies.base import Policy, Prompt, Sampling
from coevolve.policies.registry import get_policy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(vllm.PROGRAM not in os.environ, reason=f"{vllm.PROGRAM} names no vLLM"),
]
MATH = get_domain("math")


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Policy, Policy]]:
    yield get_policy("vllm:smollm2", MATH)[0], get_policy("smollm2", MATH)[0]
    vllm.end_servers()


def asked(count: int, samples: int = 1) -> tuple[list, list[Prompt]]:
    tasks = list(MATH.generate(MATH.space.parse({}), count, 1, Split.DEV))
    rows = [(task, sample) for task in tasks for sample in range(samples)]
    return rows, [Prompt(MATH.prompt(task, MATH.styles[0]), task, n) for task, n in rows]


def test_greedy_answers_are_the_same(both: tuple[Policy, Policy]) -> None:
    served, local = both
    _, prompts = asked(40)
    sampling = Sampling(temperature=0, max_tokens=48)
    pairs = list(
        zip(served.answer(prompts, sampling), local.answer(prompts, sampling), strict=True)
    )
    same = [one.text == other.text for one, other in pairs]
    assert sum(same) >= 0.95 * len(same)
    for (one, other), alike in zip(pairs, same, strict=True):
        if alike:
            assert one.prompt_tokens == other.prompt_tokens
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)


def test_drawn_answers_are_judged_alike(both: tuple[Policy, Policy]) -> None:
    rows, prompts = asked(24, 4)
    sampling = Sampling(temperature=1.0, max_tokens=48, seed=3)
    scores = []
    for policy in both:
        said = policy.answer(prompts, sampling)
        pairs = zip(rows, said, strict=True)
        scores.append([MATH.verify(task, one.text).reward for (task, _), one in pairs])
        assert all(one.logprobs and max(one.logprobs) <= 0 for one in said)
    change = paired(scores[1], scores[0])
    assert change.low <= 0 <= change.high
