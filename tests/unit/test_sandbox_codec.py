"""Plain values cross the border of a sandbox unchanged, and nothing else does."""

import ast
import collections
import enum
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.sandbox import codec, worker
from coevolve.sandbox.codec import decode, encode

ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
PLAIN = st.recursive(
    ATOMS | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.integers() | st.text(), inner, max_size=4)
        | st.sets(st.integers() | st.text(), max_size=4)
        | st.frozensets(st.binary(), max_size=4)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_values_come_back_as_they_were(value):
    back = decode(encode(value))
    assert repr(back) == repr(value) or back == value
    assert type(back) is type(value)


@given(st.text())
def test_any_text_is_a_value_or_an_error(text):
    try:
        decode(text)
    except ValueError:
        return


def test_subclasses_become_what_they_are_underneath():
    class Equal(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    class Colour(enum.IntEnum):
        RED = 3

    pair = collections.namedtuple("pair", "a b")
    for value, plain in (
        (Equal(7), 7),
        (Colour.RED, 3),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.OrderedDict(x=1), {"x": 1}),
        (pair(1, 2), (1, 2)),
        (bytearray(b"x"), b"x"),
    ):
        back = decode(encode(value))
        assert back == plain
        assert type(back) is type(plain)
    assert math.isnan(decode(encode(math.nan)))


@pytest.mark.parametrize("value", [object(), range(3), (x for x in "a"), len, [print]])
def test_what_is_not_plain_is_refused(value):
    with pytest.raises(TypeError, match="cannot be compared"):
        encode(value)


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"x":1}', '{"t":1}', '{"s":[[]]}', '{"i":"g"}', "1.5", "[" * 9999, '{"d":[1]}'],
)
def test_nonsense_is_refused(text):
    try:
        found = decode(text)
    except ValueError:
        return
    pytest.fail(f"{text:.20} was read as {found!r:.20}")


def test_what_runs_inside_loads_nothing_that_is_slow() -> None:
    """A module such as collections takes a fifth of the time in which a sandbox starts."""
    quick = {"_signal", "marshal", "posix", "resource", "sys", "time", "coevolve.sandbox.codec"}
    for module in (codec, worker):
        tree = ast.parse(Path(module.__file__ or "").read_text("utf-8"))
        for node in tree.body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert set(names) <= quick, module.__name__
