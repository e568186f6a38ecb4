"""Faults are exact, leave programs, and can be undone by edits."""

import ast

import pytest
from repositories import CODE, TESTS

from coevolve.domains.swe.episode import replaced
from coevolve.domains.swe.faults import KINDS, apply_all, disjoint, find_faults
from coevolve.domains.swe.work import hide, mending

SOURCE = '''\
import os  # é

LIMIT = 3


def outer(a, b=None, *, flag=True):
    """A docstring is not a constant."""
    if a is None and b:
        return max(a, b)
    while a < 3:
        a += 1
        print("ü", a)
    x = f"{a + 1}" if a == (  # a comment in between
        b
    ) else ""
    return [i for i in range(a) if i not in (1, 2) or x]
'''


def found(text: str = SOURCE) -> dict[str, list[tuple[int, str, str]]]:
    kinds: dict[str, list[tuple[int, str, str]]] = {}
    for fault in find_faults("a.py", text.encode()):
        kinds.setdefault(fault.kind, []).append((fault.line, fault.old, fault.new))
    return kinds


def test_every_kind_is_found_where_it_is() -> None:
    kinds = found()
    assert set(kinds) == set(KINDS)
    assert kinds["none"] == [(8, "is", "is not")]
    assert (8, "and", "or") in kinds["condition"]
    assert kinds["arguments"] == [(9, "a, b", "b, a"), (12, '"ü", a', 'a, "ü"')]
    assert kinds["operator"] == [(11, "+=", "-=")]
    assert (10, "<", "<=") in kinds["comparison"]
    assert (16, "not in", "in") in kinds["comparison"]
    assert not any(line == 13 for line, *_ in kinds["comparison"])  # a comment is in the way
    assert (11, "a += 1", "pass") in kinds["dropped"]
    assert (11, "1", "0") in kinds["boundary"]
    early = [one for faults in kinds.values() for one in faults if one[0] < 8]
    assert early == [(6, "True", "False")]  # a default; what is outside of functions is left alone
    assert not any(line == 13 and old == "1" for line, old, _ in kinds["boundary"])


@pytest.mark.parametrize("text", [SOURCE, *CODE.values()])
def test_faults_apply_once_and_leave_another_program(text: str) -> None:
    data = text.encode()
    for fault in find_faults("a.py", data):
        changed = fault.apply(data)
        assert changed is not None
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(data))
        assert fault.apply(b"#" + data) is None or fault.line > 1
        mended = changed
        for edit in mending("a.py", changed, data):
            line = edit.get("line", 0)
            mended = replaced(mended, edit["old"].encode(), edit["new"].encode(), line)
            assert not line or len(edit["old"]) <= len(changed.split(b"\n")[line - 1])
        assert mended == data


def test_an_edit_names_the_words_that_change() -> None:
    faulty = "def f(a, n):\n    if a < n or a < 0:\n        return None\n"
    whole = "def f(a, n):\n    if a <= n or a < 0:\n        return n,\n"
    assert mending("a.py", faulty.encode(), whole.encode()) == [
        {"path": "a.py", "line": 2, "old": "if a <", "new": "if a <="},
        {"path": "a.py", "line": 3, "old": "None", "new": "n,"},
    ]


@pytest.mark.parametrize(
    ("faulty", "whole"),
    [
        (b"a\n\nb\n", b"a\nx\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a \nb\n"),
        (b"a \n\n", b"a\n \n"),
        (b"x\nx\nx\n", b"x\ny\nx\nx\n"),
    ],
)
def test_ends_of_lines_and_empty_lines_are_mended(faulty: bytes, whole: bytes) -> None:
    for edit in mending("a.py", faulty, whole):
        line = edit.get("line", 0)
        faulty = replaced(faulty, edit["old"].encode(), edit["new"].encode(), line)
    assert faulty == whole


def test_files_that_cannot_be_read_have_no_faults() -> None:
    for data in (b"def f(:", b"\xff\xfe", b"def f():\r\n    return 1\r\n", b"(" * 5000, b"x\x00"):
        assert find_faults("a.py", data) == []


def test_several_faults_do_not_move_each_other() -> None:
    path = "shop/prices.py"
    data = CODE[path].encode()
    faults = find_faults(path, data)
    one = next(fault for fault in faults if fault.function == "total")
    two = next(fault for fault in faults if fault.function == "within")
    assert disjoint([one, two])
    assert not disjoint([one, one])
    both = apply_all([one, two], {path: data})
    assert both == apply_all([two, one], {path: data})
    assert both is not None
    middle = two.apply(data)
    assert middle is not None
    assert both[path] == one.apply(middle)
    assert apply_all([one], {path: b"other"}) is None


def test_hidden_tests_are_taken_out() -> None:
    tree = {path: text.encode() for path, text in TESTS.items()}
    fail = (
        "tests/test_prices.py::test_total[prices0-3]",
        "tests/test_names.py::TestNames::test_formal",
        "tests/test_stock.py::TestStock::test_only",
    )
    left = hide(tree, fail)
    assert b"def test_total" not in left["tests/test_prices.py"]
    assert b"parametrize" not in left["tests/test_prices.py"]
    assert b"def test_formal" not in left["tests/test_names.py"]
    assert b"def test_title" in left["tests/test_names.py"]
    assert b"class TestStock:\n    pass" in left["tests/test_stock.py"]
    for data in left.values():
        ast.parse(data)


def test_inherited_tests_are_taken_out_of_their_class() -> None:
    tree = {
        "tests/__init__.py": b"class Mixin:\n    def test_it(self):\n        assert self.value\n",
        "tests/test_a.py": b"from tests import Mixin\n\n\nclass TestA(Mixin):\n    value = 1\n",
    }
    left = hide(tree, ("tests/test_a.py::TestA::test_it",))
    assert b"test_it" not in left["tests/__init__.py"]
