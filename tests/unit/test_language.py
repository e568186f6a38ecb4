"""General skills: what counts as done, and that held-out prompts are never replayed."""

from coevolve.evaluation.language import instructions, measure
from coevolve.policies.base import Completion, Prompt, Sampling


class Parrot:
    """Answers every question right, in prose around it."""

    name = "parrot"

    def __init__(self, known: dict[str, str]) -> None:
        self.known = known

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        return [Completion(self.known.get(prompt.messages[0].content, "")) for prompt in prompts]


def test_prompts_that_are_measured_are_never_replayed() -> None:
    shown = {task.messages[0].content for task in instructions(2_000, 1, held_out=False)}
    kept = {task.messages[0].content for task in instructions(2_000, 1, held_out=True)}
    assert len(shown) > 100 < len(kept)
    assert not shown & kept


def test_checks_accept_the_right_and_refuse_the_wrong() -> None:
    for task in instructions(200, 3, held_out=True):
        text = task.messages[0].content
        if task.skill == "json":
            _, first, _, second, _, _, _, word, *_ = text.split('"')
            number = text.rstrip(".").rsplit(" ", 1)[1]
            right = (
                f'Here: ```json\n{{"{first}": "{word.upper()}", "{second}": {number}}}\n``` fine'
            )
            assert task.check(right), text
            assert not task.check(right.replace(word.upper(), "other"))
            assert not task.check(right.replace("}", ""))
        if "opposite" in text:
            assert not task.check("whatever nothing below plastics brightness")
        assert not task.check("")


def test_measure_counts_by_skill() -> None:
    found = measure(Parrot({}), 40)
    differ = {task.messages for task in instructions(40, 0, held_out=True)}
    assert found.keys() == {"json", "questions"}
    assert {rate.value for rate in found.values()} == {0.0}
    assert sum(rate.n for rate in found.values()) == len(differ)
