"""What may be recorded of a phase, how it reads back, and where much of it lies."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.errors import LedgerError
from coevolve.store.ledger import Ledger
from coevolve.store.payload import LARGE, decode, differences, encode, pretty


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "run", {}) as ledger:
        yield ledger


def never():
    raise AssertionError("the phase is recorded, and must not be done again")


class Strange:
    pass


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        ({"a": {"b": [0.5, float("nan")]}}, r"phase train\.a\.b\[1\] is nan"),
        ({"loss": float("inf")}, r"phase train\.loss is inf"),
        ({"a": {3: 1}}, r"phase train\.a has the key 3"),
        ({"a": Strange()}, r"phase train\.a is a .*Strange, which is not JSON"),
        ({"a": {1, 2}}, r"phase train\.a is a builtins\.set"),
        ([1, 2], r"phase train is \[1, 2\]; a payload must be a dict"),
        (None, r"phase train is None"),
    ],
)
def test_what_is_not_json_is_refused(ledger, payload, place):
    with pytest.raises(LedgerError, match=place):
        ledger.phase("versions/00", "train", lambda: payload)
    assert not ledger.events("phase")
    assert ledger.state() == "failed"
    assert ledger.phase("versions/00", "train", lambda: {"good": 1}) == {"good": 1}


def test_endless_payloads_are_refused(ledger):
    endless: dict = {}
    endless["again"] = endless
    with pytest.raises(LedgerError, match="goes deeper than 100 levels"):
        ledger.note("warning", **endless)


def test_large_payloads_lie_in_files(ledger):
    payload = {"text": "é" * LARGE, "spent": {"tokens": 3}}
    assert ledger.phase("versions/01", "evaluate", lambda: payload) == payload
    assert ledger.phase("versions/01", "evaluate", never) == payload
    (file,) = (ledger.folder / "files").iterdir()
    assert json.loads(file.read_text("ascii")) == payload
    copy = json.loads((ledger.folder / "versions" / "01" / "evaluate.json").read_text("utf-8"))
    assert copy["payload_file"] == f"files/{file.name}"
    assert copy["payload"] == {"spent": {"tokens": 3}}
    assert ledger.members("spent") == [(3, {"tokens": 3})]
    file.write_bytes(file.read_bytes().replace(b"3", b"4"))
    with pytest.raises(LedgerError, match="was changed after it was recorded"):
        ledger.events()
    file.unlink()
    with pytest.raises(LedgerError, match=r"cannot read .*put it back"):
        ledger.phase("versions/01", "evaluate", never)
    assert ledger.summary()["phases"] == {"evaluate": 1}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=50)
@given(st.dictionaries(st.text(), JSON))
def test_payloads_read_back_as_they_were(payload):
    assert decode(encode(payload, "it"), "it") == payload
    assert decode(pretty(payload), "it") == payload
    assert differences(payload, decode(encode(payload, "it"), "it")) == []
