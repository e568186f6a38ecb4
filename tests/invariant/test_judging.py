"""Answers judged together get the outcomes that they get one by one, and are read as written."""

import random
import re

import pytest

from coevolve.core.rollout import Outcome
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import together
from coevolve.domains.lake import answer
from coevolve.domains.lake.board import Board, Plan, board_of
from coevolve.domains.lake.domain import LakeDomain
from coevolve.evaluation.judge import judge
from coevolve.policies.base import Completion, Prompt

LAKE = LakeDomain()
KNOBS = LAKE.space.parse(
    {"size3.data_ratio": 0.5, "size6.data_ratio": 0.5, "agents1.share": 0.2, "agents3.share": 0.8}
)
COMPACT = re.compile(r"(?:-|[UDLRW]+)(?:\|(?:-|[UDLRW]+))*")
CELLS = re.compile(r"[0-9]{1,3},[0-9]{1,3}(?: (?:/ )?[0-9]{1,3},[0-9]{1,3})*")
PIECES = [*'UDLRW|-,/ 0129[]"', "\n", " / ", "0,1", "12,3", "1000,1", "٣", "é", "\ud800", "\x00"]


@pytest.fixture(scope="module")
def answers() -> list[tuple[Task, str, int | None]]:
    """Answers that are right, that are nearly right, and that are anything."""
    rng = random.Random(5)
    tasks = list(LAKE.generate(KNOBS, 40, 2, Split.TRAIN))
    made: list[tuple[Task, str, int | None]] = []
    for task in tasks:
        for name in LAKE.scripts:
            for style in LAKE.styles:
                text = LAKE.scripts[name](task, rng, style)
                made += [(task, text, None), (task, text, rng.choice([9, 9, 3_000]))]
                for _ in range(4):
                    made.append((task, broken(text, rng), rng.choice([None, 9])))
        for _ in range(30):
            made.append((task, "".join(rng.choices(PIECES, k=rng.randrange(12))), 5))
    made += [(tasks[0], text, 7) for text in ("W" * 30_000, "R" * 19_999, "-", "", "[]", '[""]')]
    rng.shuffle(made)
    return made


def broken(text: str, rng: random.Random) -> str:
    """A text with a piece put in, taken out or replaced."""
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(["", *PIECES]) + text[at + rng.randrange(3) :]


def as_json(outcomes: list[Outcome]) -> list[str]:
    return [outcome.model_dump_json() for outcome in outcomes]


def test_many_answers_at_once_are_judged_as_one_by_one(answers):
    verify_all = together(LAKE)
    assert verify_all is not None
    alone = as_json([LAKE.verify(*one) for one in answers])
    assert as_json(verify_all(*map(list, zip(*answers, strict=True)))) == alone
    for size in (1, 2, 17):
        parts = [answers[at : at + size] for at in range(0, 510, size)]
        found = [outcome for part in parts for outcome in verify_all(*zip(*part, strict=True))]
        assert as_json(found) == alone[: len(found)]
    assert verify_all([], [], []) == []
    classes = {LAKE.verify(*one).failure for one in answers}
    assert classes == {None, *LAKE.failures}


def plainly(content: str, board: Board) -> Plan | None:
    """The two bare forms, read as simply as can be."""
    if content == "-":
        return tuple((start,) for start in board.starts)
    if COMPACT.fullmatch(content):
        moves = [part.replace("-", "") for part in content.split("|")]
        starts = [*board.starts, *[(-1, -1)] * len(moves)]
        return tuple(answer.walk(start, word) for start, word in zip(starts, moves, strict=False))
    if CELLS.fullmatch(content):
        steps = [
            [tuple(map(int, cell.split(","))) for cell in step.split()]
            for step in content.split(" / ")
        ]
        if len({len(step) for step in steps}) > 1:
            return None
        starts = [*board.starts, *[(-1, -1)] * len(steps[0])]
        paths = zip(*steps, strict=True)
        return tuple((start, *path) for start, path in zip(starts, paths, strict=False))
    return None


def test_bare_forms_are_read_as_by_a_plain_reader(answers):
    read = 0
    for task, text, _ in answers:
        board, content = board_of(task), text.strip()
        if "answer>" in content or content.startswith("[") or len(content) > 10_000:
            continue
        wanted = plainly(content, board)
        read += wanted is not None
        if wanted is None:
            with pytest.raises(answer.AnswerError):
                answer.parse(text, board)
        else:
            assert answer.parse(text, board) == wanted
    assert read > 500


def test_a_domain_that_overrides_verify_is_asked_one_by_one():
    class Strict(LakeDomain):
        def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
            return super().verify(task, "", tokens)

    assert together(Strict()) is None
    task = next(iter(LAKE.generate(KNOBS, 1, 2, Split.TRAIN)))
    prompts, completions = [Prompt(LAKE.prompt(task), task)], [Completion(LAKE.oracle(task))]
    assert judge(LAKE, prompts, completions, "oracle")[0].outcome.optimal
    assert judge(Strict(), prompts, completions, "oracle")[0].outcome.failure == "parse"
