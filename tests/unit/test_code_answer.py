"""Finding the program in an answer."""

import pytest

from coevolve.domains.code.answer import LONGEST, AnswerError, extract, fenced


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("Think.\n```py\nx = 1\n```\nDone.", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```python\nx = 1\n```\nBetter:\n```python\nx = 2\n```", "x = 2\n"),
        ("```python\nx = 1\n```\nIt prints\n```text\n1\n```", "x = 1\n"),
        ("```python\nx = 1\n```\nIt prints\n```\n1\n```", "x = 1\n"),
        ("```Python\r\nx = 1\n```\r\n", "x = 1\n"),
        ("  ```python3\n  x = 1\n  ```", "  x = 1\n"),
    ],
)
def test_the_last_block_of_python_counts(text, code):
    assert extract(text) == code


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("", "no_code"),
        ("x = 1", "no_code"),
        ("```python\n\n```", "no_code"),
        ("```text\nx = 1\n```", "no_code"),
        ("`x = 1`", "no_code"),
        ("```python\nx = 1", "truncated"),
        ("```python\nx = 1\n```\n```python\ny =", "truncated"),
        (fenced("x" * (LONGEST + 1)), "no_code"),
    ],
)
def test_what_is_not_whole_is_no_program(text, failure):
    with pytest.raises(AnswerError) as error:
        extract(text)
    assert error.value.failure == failure


def test_what_is_fenced_is_found():
    assert extract(fenced("def f():\n    return 1\n")) == "def f():\n    return 1\n"
