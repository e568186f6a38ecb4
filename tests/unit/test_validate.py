"""Environments that are no good are found out, each for its own reason; good ones pass."""

import json
import random
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from guessing import Guess, GuessingDomain
from typer.testing import CliRunner

from coevolve.cli.main import app
from coevolve.core.rollout import Outcome
from coevolve.domains.check import Counts
from coevolve.domains.knobs import Knob, Knobs, KnobSpace
from coevolve.domains.registry import get_domain
from coevolve.domains.simple import Data, SimpleDomain, tagged
from coevolve.evaluation.validate import (
    Asked,
    Aspect,
    apart,
    climbed,
    copies,
    overall,
    report,
    tried,
    validate,
)
from coevolve.policies.base import Completion, Prompt, Sampling
from coevolve.policies.script import ScriptedPolicy

TICK = count()


class Sums(SimpleDomain):
    """Two numbers to be added: as it should be."""

    name = "sums"
    summary = "numbers to be added"
    space = KnobSpace((Knob("size", 100, 10_000, 5_000, "number", "mean of the numbers"),))
    counts = Counts(sample=40, many=60, split=30, pushed=30)

    def make(self, knobs: Knobs, rng: random.Random) -> Data:
        one, other = (rng.randint(1, round(2 * knobs["size"])) for _ in range(2))
        return {"one": one, "other": other, "size": (one + other) / 2}

    def question(self, data: Data) -> str:
        return f"What is {data['one']} + {data['other']}?"

    def answer(self, data: Data) -> str:
        return str(data["one"] + data["other"])


class Leaking(Sums):
    def question(self, data: Data) -> str:
        return f"{super().question(data)} (<answer>{self.answer(data)}</answer>)"


class Constant(Sums):
    def answer(self, data: Data) -> str:
        return "no" if data["one"] + data["other"] > 1_500 else "yes"


class Anything(Sums):
    """Takes whatever stands in the answer block."""

    def right(self, data: Data, answer: str) -> bool:
        return any(letter.isdecimal() for letter in answer)


class Nearly(Sums):
    """Takes what is nearly right."""

    def right(self, data: Data, answer: str) -> bool:
        return answer.isdecimal() and abs(int(answer) - data["one"] - data["other"]) <= 2


class Somewhere(Sums):
    """Looks for the right answer anywhere in the text."""

    def verify(self, task: Any, text: str, tokens: int | None = None) -> Outcome:
        found = super().verify(task, text, tokens)
        if found.failure and self.answer(task.data) in text and len(text) < 50_000:
            good = f"<answer>{self.answer(task.data)}</answer>"
            return super().verify(task, good, tokens)
        return found


class Within(Sums):
    """Looks for the right answer anywhere in the answer block."""

    def right(self, data: Data, answer: str) -> bool:
        return self.answer(data) in answer


class Echo(Sums):
    """Adds up whatever numbers it is told."""

    def question(self, data: Data) -> str:
        return f"Take 2 or more numbers that sum up to {data['one']}, as {data['other']} friends."

    def answer(self, data: Data) -> str:
        return f"1, {data['one'] - 1}"

    def right(self, data: Data, answer: str) -> bool:
        return (
            sum(int(part) for part in answer.split(",") if part.strip().isdecimal()) == data["one"]
        )


class Moody(Sums):
    """Another verdict at every other time."""

    def verify(self, task: Any, text: str, tokens: int | None = None) -> Outcome:
        if tagged(text) == self.answer(task.data) and next(TICK) % 5 == 0:
            text = "<answer>-1</answer>"
        return super().verify(task, text, tokens)


class Broken(Sums):
    def make(self, knobs: Knobs, rng: random.Random) -> Data:
        raise RuntimeError("no board today")


class Silent(Sums):
    """Tells no solutions."""

    scripts: Any = {}

    def oracle(self, task: Any, style: str = "") -> str:
        raise RuntimeError("nobody knows")


def found(domain: SimpleDomain) -> dict[str, Aspect]:
    return {aspect.name: aspect for aspect in validate(domain)}


def test_a_good_one_passes() -> None:
    aspects = found(Sums())
    assert overall(list(aspects.values())) == "fit", aspects
    assert set(aspects) == {"promises", "wrong answers", "cheats", "speed", "copies"}


@pytest.mark.parametrize(
    ("domain", "name", "said"),
    [
        (Leaking(), "promises", "leak"),
        (Constant(), "cheats", "the most frequent solution"),
        (Anything(), "wrong answers", "still pass after something"),
        (Nearly(), "wrong answers", "still pass with one more or one less"),
        (Somewhere(), "cheats", "all tasks at once"),
        (Within(), "cheats", "all tasks in one answer"),
        (Echo(), "cheats", "the second number of the prompt"),
        (Moody(), "promises", "verifying twice agrees"),
        (Broken(), "tasks", "no board today"),
    ],
)
def test_bad_ones_are_found_out(domain: SimpleDomain, name: str, said: str) -> None:
    aspect = found(domain)[name]
    assert aspect.verdict == "unfit", aspect
    assert said in aspect.words
    assert aspect.fix


class Stones(SimpleDomain):
    """A game against somebody: take one to three stones, as the other does; the last one wins."""

    name = "stones"
    summary = "taking the last stone"
    space = KnobSpace((Knob("heap", 9, 40, 20, "stones", "mean heap", shown=True),))
    counts = Counts(sample=20, many=40, split=15, pushed=30)
    turns = 40
    tools = ()
    winner = True

    @property
    def players(self) -> dict[str, Any]:
        return {"oracle": self.play}

    def make(self, knobs: Knobs, rng: random.Random) -> Data:
        heap = 4 * round(knobs["heap"] * rng.uniform(0.5, 1.5) / 4) + 1
        return {"card": "".join(rng.choices("abcdefgh", k=5)), "heap": heap}

    def question(self, data: Data) -> str:
        return f"Game {data['card']}: {data['heap']} stones are left."

    def answer(self, data: Data) -> str:
        return "won"

    def begin(self, task: Any) -> "Play":
        return Play(self, task)

    def play(self, task: Any, _rng: random.Random, messages: Any) -> str:
        heard = [one.content for one in messages if one.role == "user" and "left" in one.content]
        left = int(heard[-1].split()[-4]) if heard else task.data["heap"]
        return f"<answer>{left % 4 or 1 if self.winner else 0}</answer>"


class Play:
    def __init__(self, domain: Stones, task: Any) -> None:
        self.domain, self.task = domain, task
        self.left, self.won = task.data["heap"], False

    def reply(self, text: str) -> str | None:
        said = tagged(text)
        if said not in ("1", "2", "3") or int(said) > self.left:
            return None
        self.left -= int(said)
        self.won = self.left == 0
        if self.won or self.left <= 3:
            return None
        self.left -= random.Random(self.left).randint(1, 3)
        return f"Now {self.left} stones are left."

    def outcome(self, text: str, tokens: int | None = None) -> Outcome:
        said = f"<answer>{'won' if self.won else 'lost'}</answer>"
        return self.domain.verify(self.task, said, tokens)


def test_a_game_without_a_single_right_answer_is_played() -> None:
    aspects = found(Stones())
    assert {name: one.verdict for name, one in aspects.items()} == dict.fromkeys(
        ("promises", "solutions", "cheats", "speed"), "fit"
    ), aspects
    played = aspects["promises"].figures["checks"]
    said = {one["name"]: one["message"] for one in played}
    assert said["the oracle earns full reward"] == "20 games that its player `oracle` wins"
    assert int(said["episodes come to a verdict"].split()[-2]) > 3


def test_a_player_who_loses_and_a_game_that_a_word_wins_are_found_out() -> None:
    class Loser(Stones):
        winner = False

    aspects = found(Loser())
    assert aspects["promises"].verdict == "unfit"
    assert "an episode that the oracle plays ends with wrong" in aspects["promises"].words

    class Gift(Play):
        def reply(self, text: str) -> str | None:
            self.won = self.won or tagged(text) == "1"
            return super().reply(text) if tagged(text) != "1" else None

    class Given(Stones):
        def begin(self, task: Any) -> Play:
            return Gift(self, task)

    aspects = found(Given())
    assert aspects["cheats"].verdict == "unfit"
    assert "always 1" in aspects["cheats"].words


@pytest.mark.parametrize("gift", ["whatever is said", "any text that holds it"])
def test_an_episode_that_pays_for_nothing_is_found_out(gift: str) -> None:
    class Giving(Guess):
        def outcome(self, text: str, tokens: int | None = None) -> Outcome:
            secret = str(self.task.data["secret"])
            wins = gift == "whatever is said" or secret in text
            said = f"<answer>{secret}</answer>" if wins else text
            return self.domain.verify(self.task, said, tokens)

    class Given(GuessingDomain):
        def begin(self, task: Any) -> Giving:
            return Giving(self, task)

    aspects = found(Given())
    assert aspects["cheats"].verdict == "unfit"
    if gift == "whatever is said":
        assert aspects["promises"].verdict == "unfit"
        assert "20 of 20 tasks accept the answer" in aspects["promises"].words
    assert found(GuessingDomain())["cheats"].verdict == "fit"


def test_a_prompt_that_tells_the_answer_is_named_as_what_it_is() -> None:
    class Told(GuessingDomain):
        def question(self, data: Data) -> str:
            return f"{super().question(data)} It is {data['secret']}."

    cheats = found(Told())["cheats"]
    assert cheats.verdict == "unfit"
    assert "the third number of the prompt" in cheats.words
    assert "leave it out" in cheats.fix


def test_where_solutions_are_not_told_the_rest_is_asked() -> None:
    aspects = found(Silent())
    assert {name: one.verdict for name, one in aspects.items()} == {
        "promises": "fit",
        "solutions": "doubtful",
        "cheats": "fit",
        "speed": "fit",
    }


def test_cheats_are_found_without_solutions_too() -> None:
    class Yes(Silent):
        def right(self, data: Data, answer: str) -> bool:
            return answer == "yes"

    aspect = found(Yes())["cheats"]
    assert aspect.verdict == "unfit"
    assert "always yes" in aspect.words


class Half:
    """Knows every other task, and guesses at some of the rest."""

    name = "half"

    def __init__(self, share: float) -> None:
        self.share = share

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        rng = random.Random(1)
        right = [Sums().oracle(prompt.task) for prompt in prompts]  # type: ignore[arg-type]
        return [Completion(one if rng.random() < self.share else "") for one in right]


@pytest.mark.parametrize(
    ("share", "verdict", "fix"), [(0.5, "fit", ""), (0.0, "unfit", "hard"), (1.0, "unfit", "easy")]
)
def test_difficulty_is_that_of_the_policy(share: float, verdict: str, fix: str) -> None:
    aspect = tried(Sums(), Half(share), "", Sampling(), 16, 4)
    assert aspect.verdict == verdict
    assert fix in aspect.fix
    assert aspect.figures["rate"] == pytest.approx(share, abs=0.2)


def test_scripts_can_be_tried() -> None:
    lake = get_domain("lake")
    aspect = tried(lake, ScriptedPolicy(lake, "greedy"), "", Sampling(), 16, 2)
    whole, *others = aspect.figures["kinds"].items()
    assert whole[0] == "all"
    assert whole[1]["tasks"] == 16
    assert whole[1]["pass_at"][1] <= whole[1]["pass_at"][2]
    assert {name.split()[0] for name, _ in others} == set(lake.buckets)
    assert aspect.figures["tokens"]["least"] <= aspect.figures["tokens"]["median"]
    assert -1 <= aspect.figures["longer_pays"] <= 1


def test_slow_verdicts_are_asked_for_fewer_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asked, "judged_per_s", 2.0)
    asked = Asked(Sums(), [], [], game=False, seed=0)
    aspect = copies(asked)
    assert aspect.words.endswith("n 8; so few, since answers take long to judge")
    assert aspect.verdict == "fit"


def test_climbing_needs_more_than_luck() -> None:
    rng = random.Random(0)
    flat = [0.5 + rng.gauss(0, 0.1) for _ in range(40)]
    assert climbed(flat).verdict == "doubtful"
    assert climbed([one + 0.01 * step for step, one in enumerate(flat)]).verdict == "fit"


def test_reports_have_a_hash_that_changes_with_them() -> None:
    aspects = list(validate(Sums()))
    one, again = (report(Sums(), 0, "", aspects, "1") for _ in range(2))
    assert one == again
    worse = [aspects[0]._replace(verdict="unfit"), *aspects[1:]]
    assert report(Sums(), 0, "", worse, "1")["hash"] != one["hash"]
    broken = Broken()
    assert report(broken, 0, "", list(validate(broken)), "1")["verdict"] == "unfit"


def test_the_command(tmp_path: Path) -> None:
    pytest.importorskip("datasketch", reason="data sets need the extra `data`")
    page, rows = tmp_path / "report.html", tmp_path / "sums.jsonl"
    with rows.open("w") as file:
        for one in range(200):
            asked = {"question": f"What is {one} + {7 * one}?", "answer": str(8 * one)}
            file.write(json.dumps(asked) + "\n")
    words = [
        "validate",
        f"data:{rows}",
        "-p",
        "oracle",
        "-n",
        "2",
        "--tasks",
        "8",
        "--html",
        str(page),
    ]
    told = CliRunner().invoke(app, [*words, "--json"])
    facts = json.loads(told.stdout.strip().splitlines()[-1])
    assert facts["format"] == 2
    assert [one["name"] for one in facts["aspects"]][-1] == "difficulty"
    assert told.exit_code == 1  # the oracle has nothing to learn
    assert "too easy" in page.read_text()
    refused = CliRunner().invoke(app, ["validate", "math", "--train", "5"])
    assert refused.exit_code


def test_an_example_shows_what_was_changed() -> None:
    long = "x" * 100
    assert apart(f"{long}1{long}", f"{long}2{long}") == (
        "x" * 30 + "1" + "x" * 29,
        "x" * 30 + "2" + "x" * 29,
    )
    assert apart("ab", "a") == ("ab", "a")
