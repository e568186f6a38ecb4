"""Held-out tasks that the answers to train tasks solve: the audit finds them."""

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from coevolve.cli.main import app
from coevolve.domains.check import Counts
from coevolve.domains.knobs import KnobSpace
from coevolve.domains.registry import get_domain
from coevolve.domains.simple import SimpleDomain
from coevolve.evaluation.leakage import leakage
from coevolve.evaluation.validate import Asked, copies

NOUNS = ["apples", "pears", "plums", "figs", "nuts", "dates", "limes", "kiwis"]


class Copies(SimpleDomain):
    """Questions of a few hundred kinds, each asked in many ways; `way` says how they differ."""

    name, summary, space, counts = "copies", "s", KnobSpace(()), Counts(split=60, many=200)

    def __init__(self, way: str) -> None:
        self.way = way

    def make(self, knobs: Any, rng: Any) -> dict[str, Any]:
        noun, many, more = rng.choice(NOUNS), rng.randrange(30), rng.randrange(10**6)
        return {"noun": noun, "many": many, "salt": more}

    def question(self, data: Any) -> str:
        noun, many, salt = data["noun"], data["many"], data["salt"]
        basket = f"there are {many} {noun} in a basket and twice as many in a bag ."
        asked = f"{basket} how many are there"
        return {
            "a number at the end": f"{asked} ? {salt}",
            "a number at the start": f"{salt} : {asked} ?",
            "capitals": "".join(c.upper() if salt >> k & 1 else c for k, c in enumerate(asked)),
            "another order": " ".join(sorted(asked.split(), key=lambda w: hash_of(w, salt))),
            "full stops": asked + " ." * (salt % 4),
            "other questions": f"{asked} after {salt} days , {salt % 977} hours ?",
        }[self.way]

    def answer(self, data: Any) -> str:
        if self.way == "other questions":
            return str(3 * data["many"] + data["salt"])
        return f"{3 * data['many']} {data['noun']}"


def hash_of(word: str, salt: int) -> int:
    return sum(ord(letter) * (salt + place) for place, letter in enumerate(word)) % 1_009


WAYS = [
    "a number at the end", "a number at the start", "capitals", "another order", "full stops",
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_copies_are_found(held: Any, way: str) -> None:
    for leak in leakage(Copies(way)):
        held("leakage: the audit", leak.excess > 0.3, leak)
        assert leak.copied.n == 120
        assert leak.copied.low < leak.copied.value <= leak.copied.high


def test_other_questions_are_no_copies() -> None:
    assert all(leak.excess == 0 for leak in leakage(Copies("other questions")))


def test_answers_that_fit_anywhere_are_no_leak() -> None:
    """Where blind copying does as well, tasks are easy, not leaked."""

    class Yes(Copies):
        def answer(self, data: Any) -> str:
            return "yes"

    for leak in leakage(Yes("full stops")):
        assert leak.copied.successes > 60
        assert leak.excess == 0


def test_the_command_tells_rates_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coevolve.domains.registry.get_domain", lambda name: Copies(WAYS[0]))
    run = CliRunner()
    found = run.invoke(app, ["check", "copies", "--leakage", "--json"])
    assert found.exit_code == 1
    told = json.loads(found.stdout)["leakage"]
    assert [one["split"] for one in told] == ["gate", "test"]
    assert all(one["copied"]["n"] == 120 and not one["passed"] for one in told)
    assert run.invoke(app, ["check", "copies", "--leakage", "--most", "1"]).exit_code == 0


@pytest.mark.parametrize("size", [3, 4, 5])
def test_copying_answers_does_not_pay_on_small_boards(held: Any, size: int) -> None:
    """They fall into splits by starts and goals, up to symmetry, whatever their holes."""
    lake = get_domain("lake")
    knobs = lake.space.parse({f"size{size}.data_ratio": 1.0})
    for leak in leakage(lake, knobs):
        held("leakage: small boards", leak.alike == 0 and leak.excess < 0.02, leak)


def test_an_example_is_told() -> None:
    aspect = copies(Asked(Copies(WAYS[0]), [], [], game=False, seed=0))
    assert aspect.verdict == "unfit"
    held_out, train = re.findall(r'"([^"]+)"', aspect.words)
    assert held_out != train
    assert held_out.split("?")[0] == train.split("?")[0]
