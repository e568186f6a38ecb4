"""Reading answers: free text around them, nothing but a plan inside, and never a crash."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.lake.answer import AnswerError, parse, write
from coevolve.domains.lake.board import Board
from coevolve.domains.lake.checks import CHECKS
from coevolve.domains.lake.domain import LakeDomain

BOARD = Board(rows=("...", "...", "..."), starts=((0, 0), (2, 2)), goals=((0, 2), (2, 0)))
PLAN = (((0, 0), (0, 1), (0, 2)), ((2, 2), (2, 1), (2, 0)))
DOMAIN = LakeDomain()
TASK = DOMAIN.load({"rows": BOARD.rows, "starts": BOARD.starts, "goals": BOARD.goals})


FORMS = ("paths", "moves", "compact", "cells")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "frame",
    [
        "{}", " {}\n", "<answer>{}</answer>", "I think so.\n<answer> {} </answer> Done",
        "<think>It goes into <answer>, so <answer>UU|UU</answer>?</think>\n<answer>{}</answer>",
        "or <answer>?</think>{}",
    ],
)  # fmt: skip
def test_every_form_is_read_back(form, frame):
    assert parse(frame.format(write(PLAN, form)), BOARD) == PLAN


def test_an_agent_that_stays_is_written_and_read():
    plan = (((0, 0),), PLAN[1])
    assert write(plan, "compact") == "-|LL"
    assert all(parse(write(plan, form), BOARD) == plan for form in ("paths", "moves", "compact"))
    home = Board(rows=BOARD.rows, starts=BOARD.starts, goals=BOARD.starts)
    still = tuple((start,) for start in BOARD.starts)
    assert all(parse(write(still, form), home) == still for form in FORMS)


@pytest.mark.parametrize(
    "text",
    [
        "RR|LL and more",
        "Answer: RR|LL",
        "<answer>RR|LL</answer><answer>RR|LL</answer>",
        "<answer>RR|LL",
        "RR|LL</answer>",
        "<think><answer>RR|LL</answer>",
        "<answer>RR|LL</answer></think>",
        "</answer>RR|LL<answer>",
        "<answer><answer>RR|LL</answer></answer>",
        "<ANSWER>RR|LL</ANSWER>",
        "0,1 2,1 / 0,2",
        "0,1 2,1/0,2 2,0",
        "0,1 2,1 /",
        "0, 1 2,1",
        "٣,1 2,1",
        "rr|ll",
        "RR||LL",
        "|RR|LL",
        "RR,LL",
        "R-R|LL",
        '["RR","LL"',
        '["RR","LL"] ["RR","LL"]',
        '["RX","LL"]',
        '["RR",["L"]]',
        '[["RR","LL"]]',
        '{"paths": ["RR","LL"]}',
        "[[[0,0],[0,1.0],[0,2]],[[2,2],[2,1],[2,0]]]",
        "[[[0,0],[0,true],[0,2]],[[2,2],[2,1],[2,0]]]",
        "[[[0,0],[0,NaN],[0,2]],[[2,2],[2,1],[2,0]]]",
        "[[[0,0],[0,1e0],[0,2]],[[2,2],[2,1],[2,0]]]",
        "[[[0,0],[0,1,1],[0,2]],[[2,2],[2,1],[2,0]]]",
        "[[[0,0],[0,٣],[0,2]],[[2,2],[2,1],[2,0]]]",
        "[[0,0],[0,1]]",
        "[0,1]",
        "7",
        '"RR|LL"',
        "",
        "[]",
        "[" * 9_999,
        "[" * 9_999 + "]" * 9_999,
        "W" * 30_000 + "|LL",
        "[[[0,0],[0," + "1" * 5_000 + "]],[[2,2]]]",
    ],
)
def test_anything_else_is_no_answer(text):
    with pytest.raises(AnswerError):
        parse(text, BOARD)
    outcome = DOMAIN.verify(TASK, text)
    assert (outcome.valid, outcome.reward, outcome.failure) == (False, 0.0, "parse")


def test_long_boards_may_have_long_answers():
    gaps = ("O" * 63 + ".", "." + "O" * 63)
    rows = ["." * 64 if r % 2 == 0 else gaps[r // 2 % 2] for r in range(21)]
    task = DOMAIN.load({"rows": rows, "starts": [[0, 0]], "goals": [[20, 63]]})
    assert task.data["cost"] > 600
    assert all(DOMAIN.verify(task, DOMAIN.oracle(task, style)).optimal for style in DOMAIN.styles)


def test_negative_and_huge_coordinates_are_off_the_board():
    for cell in ("[-1,0]", "[99999999999999999999,0]", "[0,-99999]"):
        outcome = DOMAIN.verify(TASK, f"[[[0,0],{cell}],[[2,2],[2,1],[2,0]]]")
        assert outcome.failure in ("step", "bounds")
        assert outcome.reward == 0


def test_megabytes_are_refused_quickly():
    for text in ("[" * 2**20, "<answer>" * 2**17, "R" * 2**21, "<answer>" + "[[0,0]," * 2**17):
        began = time.process_time()
        assert DOMAIN.verify(TASK, text).failure == "parse"
        assert time.process_time() - began < 1


PIECES = [
    "<answer>",
    "</answer>",
    "[",
    "]",
    "[[",
    "]]",
    ",",
    "|",
    "-",
    "R",
    "L",
    "U",
    "D",
    "W",
    "0",
    "1",
    "2",
    "[0,0]",
    "[0,1]",
    "[2,2]",
    "RR|LL",
    "NaN",
    "1e9",
    "٣",
    '"',
    '["RR","LL"]',
]
pieces = st.sampled_from([*PIECES, " ", "\n", "\x00"])


@settings(max_examples=1_500)
@given(st.one_of(st.text(max_size=200), st.lists(pieces, max_size=40).map("".join)))
def test_no_text_crashes_or_is_wrongly_accepted(text):
    outcome = DOMAIN.verify(TASK, text)
    assert outcome == DOMAIN.verify(TASK, text)
    if outcome.valid:
        assert outcome.failure is None
        assert outcome.details["cost"] >= 4
        assert parse(text, BOARD)[0][0] == (0, 0)
    else:
        assert outcome.failure in CHECKS
        assert outcome.reward == 0


def test_a_loaded_task_tells_where_it_belongs():
    assert isinstance(TASK, Task)
    assert TASK.split in Split
