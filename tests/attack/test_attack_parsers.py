"""What trusted code makes of untrusted text: in a time that grows with its length, and no more."""

import json
from collections.abc import Callable

import pytest
from patterns import Found, patterns, steep, texts

from coevolve.core.errors import CoevolveError
from coevolve.core.fence import fenced
from coevolve.core.splits import Split
from coevolve.core.thought import spoken
from coevolve.domains.code import answer as code
from coevolve.domains.lake import answer as lake
from coevolve.domains.lake.board import board_of
from coevolve.domains.math.answer import NoAnswer, find, read_number, tidy
from coevolve.domains.math.domain import MathDomain
from coevolve.domains.math.judge import NAME, brackets
from coevolve.domains.math.symbolic import refused
from coevolve.domains.registry import get_domain
from coevolve.domains.simple import tagged
from coevolve.domains.swe.calls import read_calls
from coevolve.domains.swe.episode import runs_tests
from coevolve.harness.expression import expression
from coevolve.policies.form import Unusable, only_object
from coevolve.sandbox.codec import decode, encode

MATH = MathDomain()
LAKE = get_domain("lake")
BOARD = board_of(next(iter(LAKE.generate(LAKE.space.defaults(), 1, 3, Split.TRAIN))))
lake.parse("U|U", BOARD)  # compiled before anything is timed


def use(found: Found) -> Callable[[str], object]:
    """A pattern as the package uses it."""
    method, pattern = found.method, found.pattern
    if method in ("sub", "subn"):
        return lambda text: pattern.sub("", text)
    if method == "finditer":
        return lambda text: list(pattern.finditer(text))
    return getattr(pattern, method)


ALL = list(patterns())


def test_patterns_are_found():
    assert len(ALL) > 50
    assert any("domains/code/answer.py" in one.where for one in ALL)


@pytest.mark.parametrize(
    "found", ALL, ids=lambda one: f"{one.where} {one.method}".replace(" ", "-")
)
def test_no_pattern_is_more_than_linear(found, held):
    work = use(found)
    for text in texts(found.pattern):
        said = steep(work, text)
        if said:
            held("patterns", False, f"{found.where} {found.method}: {text(60)!r}: {said}")
    held("patterns", True)


def caught(work: Callable[[str], object]) -> Callable[[str], object]:
    """What refuses a text has read it, too."""

    def tried(text: str) -> object:
        try:
            return work(text)
        except (ValueError, RecursionError, NoAnswer, Unusable, CoevolveError):
            return None

    return tried


READERS: dict[str, Callable[[str], object]] = {
    "thought": spoken,
    "tags": tagged,
    "blocks": code.blocks,
    "program": code.extract,
    "calls": read_calls,
    "only object": only_object,
    "fence": lambda text: fenced(text, 4_000),
    "math answer": find,
    "number": read_number,
    "tidy": tidy,
    "formula": refused,
    "brackets": brackets,
    "name": NAME.fullmatch,
    "plan": lambda text: lake.parse(text, BOARD),
    "value": decode,
    "tests": runs_tests,
    "reward": expression,
}
PIECES = (
    " ",
    "\n",
    "\t",
    "\r",
    "a",
    "0",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "`",
    "```",
    "```\n",
    "```x\n",
    "\\",
    "\\boxed{",
    "####",
    "\\text{",
    "\\frac{1}{2}",
    "^",
    "^{",
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    '"',
    '{"',
    '{"a":',
    "[[",
    "},{",
    ",",
    "|",
    "-",
    "U|",
    "0,0 ",
    " / ",
    "python ",
    "python test",
    "test.py ",
    ".py",
    "=",
    "#",
    "1/",
    "9,",
    '{"tool": "run"}\n',
    "\u202e",
    "\ud800",
)


@pytest.mark.parametrize("name", READERS)
def test_no_reader_is_more_than_linear(name, held):
    work = caught(READERS[name])
    for piece in PIECES:
        for head in ("", "```", "{", '{"a": [', "\\boxed{", "<answer>"):
            for tail in ("", "x", "\n```", "}"):
                said = steep(work, lambda n, h=head, p=piece, t=tail: h + p * (n // len(p)) + t)
                if said:
                    held(f"reader of {name}", False, f"{head!r} {piece!r} {tail!r}: {said}")
        held("readers", True)


PRIME = 2**61 - 1


@pytest.mark.parametrize(
    "made",
    [
        lambda n: encode([k * PRIME for k in range(n)]).join(('{"s":', "}")),
        lambda n: encode([k * PRIME for k in range(n)]).join(('{"z":', "}")),
        lambda n: '{"d":[' + ",".join(f"[{encode(k * PRIME)},0]" for k in range(n)) + "]}",
        lambda n: (
            "[" + ",".join(encode({j * PRIME for j in range(17)}) for _ in range(n // 17)) + "]"
        ),
        lambda n: encode({(k << 40) for k in range(n)}),
        lambda n: encode({(k << 20) + 1 for k in range(n)}),
        lambda n: '{"s":[' + ",".join(encode(float(k * 2**61)) for k in range(n)) + "]}",
        lambda n: '{"s":[' + ",".join(encode((0, k * PRIME)) for k in range(n)) + "]}",
        lambda n: encode({-1 - k for k in range(n)}),
        lambda n: encode([10**400 + k for k in range(n // 40)]),
        lambda n: "[" * n,
        lambda n: '{"t":[' * n,
        lambda n: '{"s":[' * n,
        lambda n: "1" * n,
        lambda n: encode(10**n),
        lambda n: '{"f":"0x1.' + "f" * n + 'p0"}',
        lambda n: '{"b":"' + "00" * n + '"}',
    ],
)
def test_values_are_built_in_linear_time(made, held):
    kept = {n: made(n) for n in (2_000, 8_000, 32_000)}
    said = steep(caught(decode), kept.__getitem__)
    held("values", not said, said)


def test_values_that_programs_do_return_come_back():
    for value in ({1, 2, -1, -2}, {"a": {(1, 2): frozenset({3})}}, set(range(9_000)), {0.5, 1e300}):
        assert decode(encode(value)) == value


@pytest.mark.parametrize(
    "answer",
    [
        "5²",
        "5³",
        "5 squared",
        "5 cubed",
        "5 trillion",
        "5 negative",
        "5 positive",
        "5 M",
        "5B",
        "5K",
        "5 T",
        "5 mil",
        "5 bn",
        "5 lakh",
        "5 crore",
        "5 gross",
        "5 score",
        "5 hundredths",
        "5 fifths",
        "5 thousandth",
        "5 doubled",
        "5 twice",
        "5 halved",
        "5 point five",
        "5 over two",
        "5 fold",
        "5 factorial",
        "5 square",
        "5 cubic",
        "5 per",
        "5 of",
        "5 each",
        "5 base",
        "5 hexadecimal",
        "5 no",
        "5 wrong",
        "5 if",
        "5 except",
        "5 banana",
        "5 is it",
        "5 reciprocal",
        "5 inverse",
        "5 root",
        "5 power",
        "5 quadrillion",
        "5 less",
        "5 x",
        "5 about",
        "5 th",
        "5 m²²x",
        "5 by two",
        "5 X",
    ],
)
def test_words_behind_a_number_may_not_change_it(answer, held):
    question = "What is five squared, and its negative, in a base of no less than twice a trillion?"
    task = MATH.load({"question": question, "answer": "5"})
    held("units", not MATH.verify(task, f"\\boxed{{{answer}}}").valid, answer)
    held("units", not MATH.verify(task, f"#### {answer}").valid, answer)


@pytest.mark.parametrize(
    "answer",
    [
        "5",
        "5.",
        "5.0",
        "$5",
        "5 dollars",
        "5 m",
        "5 m²",
        "5 km/h",
        "5 metres per second",
        "5°",
        "5 L",
        "5 eggs",
        "5 eggs per day",
        "5 cubic feet",
        "5\\text{ cm}^2",
        "5 hours",
        "5 days",
        "5 in",
        "5 lbs",
    ],
)
def test_units_and_words_of_the_question_are_taken(answer):
    task = MATH.load({"question": "How many eggs does the hen lay a day?", "answer": "5"})
    assert MATH.verify(task, f"\\boxed{{{answer}}}").valid


@pytest.mark.parametrize(
    ("gold", "answer", "valid"),
    [
        ("(1,2)", "{1,2}", False),
        ("(1,2)", r"\{1,2\}", False),
        ("(1,2)", "[1,2]", False),
        ("(1,2)", "1,2", False),
        ("(1,2)", "2,1", False),
        ("(1,2)", r"\left\{1,2\right\}", False),
        ("(1,2)", "(1, 2)", True),
        ("(1,2)", r"\left(1,2\right)", True),
        ("(1,2)", "(1,2]", False),
        (r"\{1,2\}", "(1,2)", False),
        (r"\{1,2\}", "[1,2]", False),
        (r"\{1,2\}", r"\{2,1\}", True),
        (r"\{1,2\}", "1,2", True),
        ("1,2", r"\{1,2\}", True),
        ("1,2", "(1,2)", False),
        ("(1,2]", "(1,2)", False),
        ("[1,2]", "(1,2)", False),
        (r"(1,\{2,3\})", "(1,(2,3))", False),
        (r"\{(1,2)\}", r"\{(2,1)\}", False),
        (r"\{(1,2),(3,4)\}", r"\{\{1,2\},\{3,4\}\}", False),
        (r"(1,\{2,3\})", r"(1,\{3,2\})", True),
        ("(1,2)", "x=1,y=2", False),
    ],
)
def test_sets_and_points_are_told_apart(gold, answer, valid, held):
    task = MATH.load({"question": "What is it?", "answer": gold})
    found = MATH.verify(task, f"\\boxed{{{answer}}}")
    held("sets and points", found.valid is valid, (gold, answer, found.details))


def test_fences_are_read_as_before():
    for line, language in (
        ("```", ""),
        ("```python", "python"),
        ("   ```  py \r", "py"),
        ("````\t", ""),
        ("``` \t\r", ""),
    ):
        (block,), _ = code.blocks(f"{line}\nx\n```")
        assert (block.language, block.code) == (language, "x\n")
    for line in ("    ```", "```a b", "``", "x```", "```a`"):
        assert code.blocks(line) == ([], False)
    assert json.loads('{"a": 1}') == only_object('{"a": 1}')
