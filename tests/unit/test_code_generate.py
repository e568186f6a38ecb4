"""Generated programming tasks: correct solutions, distinct problems, no constant that pays."""

import copy
import random

import pytest

from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.domains.code import forms
from coevolve.domains.code.domain import CodeDomain
from coevolve.domains.code.generate import fingerprint, generate
from coevolve.domains.code.knobs import SPACE
from coevolve.domains.code.problem import unfold
from coevolve.domains.code.template import filled, worded
from coevolve.domains.code.topics import BY_NAME, TOPICS

KINDS = {"int": int, "text": str, "ints": list}


def core(source, parameters):
    space = {}
    exec(filled(source, parameters), space)
    return space["core"]


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_the_slow_way_and_the_reference_agree(name):
    template = BY_NAME[name]
    rng = random.Random(name)
    for _ in range(12):
        parameters = template.draw(rng)
        words = worded(template.statement, parameters)
        assert "{" not in words
        assert "[" not in words
        reference = core(template.reference, parameters)
        slow = core(template.brute or template.reference, parameters)
        for kind in ("plain", "edge") * 6:
            values = template.inputs(rng, 10, kind, parameters)
            result = reference(*copy.deepcopy(values))
            assert type(result) is KINDS[template.gives]
            assert slow(*copy.deepcopy(values)) == result, (parameters, values)


def test_every_topic_has_several_templates():
    assert len(TOPICS) >= 8
    assert all(len(members) >= 4 for members in TOPICS.values())
    assert all(any(t.brute for t in members) for members in TOPICS.values())


def test_a_thousand_tasks_are_distinct():
    tasks = list(generate(SPACE.defaults(), 1_000, 0, Split.TRAIN))
    assert len({task.id for task in tasks}) == 1_000
    assert len({fingerprint(task.data) for task in tasks}) > 950
    assert max(len(task.model_dump_json()) for task in tasks) < 2_000


def test_no_single_result_is_right_for_most_tests():
    for task in generate(SPACE.parse({"large.share": 0}), 100, 1, Split.DEV):
        wanted = [repr(test.wanted) for test in unfold(task.data)[1]]
        assert max(map(wanted.count, wanted)) <= len(wanted) // 2


def test_examples_are_shown_and_hidden_tests_are_not():
    domain = CodeDomain()
    for task in generate(SPACE.parse({"large.share": 1}), 20, 2, Split.DEV):
        problem, tests, examples = unfold(task.data)
        shown = domain.prompt(task)[-1].content
        assert shown.count("Example") >= len(examples) == 2
        large = [test for test in tests if test.kind == "large"]
        assert large
        given = forms.write_input(problem.template.takes, large[0].values)
        assert given not in shown


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"template": "weighted_sums"}, "did you mean 'weighted_sum'"),
        ({"parameters": {}}, "its tests cannot be made"),
        ({"tests": []}, "tests"),
        ({"tests": [["plain", 10**9, 1]]}, "size"),
        ({"form": "poem"}, "form"),
        ({"cpu_s": 0}, "cpu_s"),
        ({"surprise": 1}, "surprise"),
        ({"steps": [{"when": "after", "name": "turned", "parameters": {}}]}, "step"),
    ],
)
def test_broken_tasks_are_refused_in_one_line(change, said):
    task = next(iter(generate(SPACE.parse({"arithmetic.share": 1}), 1, 0, Split.TRAIN)))
    whole = task.model_dump(mode="json")
    whole["data"] = {**whole["data"], **change}
    with pytest.raises(UserError) as error:
        CodeDomain().load(whole)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("printed", "wanted", "tolerance", "same"),
    [
        ("1 2\n", "1 2", 0, True),
        ("1 2 \n\n", "1 2\n", 0, True),
        ("1  2", "1 2", 0, False),
        ("1\n2", "1 2", 0, False),
        ("", "0", 0, False),
        ("0.3333333", "0.33333334", 1e-6, True),
        ("0.4", "0.33333334", 1e-6, False),
        ("nan", "0.5", 1e-6, False),
        ("1 x", "1 y", 1e-6, False),
        ("1e9", "1000000001", 1e-6, True),
        ("0", "inf", 1e-6, False),
        ("-inf", "inf", 1e-6, False),
        ("Infinity", "inf", 1e-6, True),
    ],
)
def test_outputs_are_compared_as_text_or_with_a_tolerance(printed, wanted, tolerance, same):
    assert forms.same_output(printed, wanted, tolerance) is same
