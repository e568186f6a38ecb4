"""Prompts that give their solution away: answers that are copied from where it stands in them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

MARKS = "'\"`*.,;:!?()[]{}"
"""That stand around a word and are no part of it."""
LONGEST = 20
"""Words of a solution that is looked for."""


def counting(text: str) -> tuple[int, int]:
    """Where the part of an answer that counts begins and ends: what stands in a box, between tags,
    in a block of code, or else in the last line."""
    spans = [
        (begin + len(opening), end)
        for opening, closing in (("\\boxed{", "}"), ("<answer>", "</answer>"), ("```python", "```"))
        if (begin := text.rfind(opening)) >= 0 and (end := text.rfind(closing)) > begin
    ]
    return max(spans, default=(text.rstrip().rfind("\n") + 1, len(text)))


def given_away(prompts: Sequence[str], solutions: Sequence[str]) -> tuple[str, list[str]]:
    """Two words that solutions stand behind in most prompts in which they stand at all, and to
    every task the answer that is copied from there; nothing where no prompt holds its solution."""
    said = [prompt.split() for prompt in prompts]
    found = [
        list(places(words, solution[slice(*counting(solution))].split()))
        for words, solution in zip(said, solutions, strict=True)
    ]
    seen = Counter(before for own in found for before in {before for before, _ in own})
    if not seen:
        return "", []
    before = seen.most_common(1)[0][0]
    lengths = Counter(n for own in found for one, n in own if one == before)
    n, answers = lengths.most_common(1)[0][0], []
    for words, solution in zip(said, solutions, strict=True):
        begin, end = counting(solution)
        pairs = enumerate(pairwise(words), 2)
        behind = (words[at : at + n] for at, pair in pairs if pair == before and at < len(words))
        guess = " ".join(next(behind, [])).strip(MARKS)
        answers.append(f"{solution[:begin]}{guess}{solution[end:]}" if guess else "")
    return " ".join(before), answers


def places(words: list[str], solution: list[str]) -> Iterator[tuple[tuple[str, str], int]]:
    """The two words before each place where a solution stands, and how many words it has."""
    n, wanted = len(solution), " ".join(solution).strip(MARKS)
    if not wanted or n > LONGEST:
        return
    for at in range(2, len(words) - n + 1):
        if " ".join(words[at : at + n]).strip(MARKS) == wanted:
            yield (words[at - 2], words[at - 1]), n
