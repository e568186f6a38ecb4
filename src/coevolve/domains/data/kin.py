"""Rows that ask almost the same, so that none of them is trained on while another one judges.

Invariant: the mark of a family is that of one of its questions, whatever the order of the rows.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from coevolve.core.errors import UserError
from coevolve.core.seeds import digest
from coevolve.domains.data.cache import cached, keep, recall

ALIKE = 0.7
"""Share of common shingles from which two questions are kin."""
WORDS = 3
"""Of a shingle."""
FEWEST = 8
"""Shingles of its own that a question must have, to be compared: short ones are the same or not."""
COMMON, USUAL = 20, 0.02
"""Rows, and share of rows, beyond which a shingle is a form that many questions are put in."""
HASHES = 64
WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    return WORD.findall(text.lower())


def mark_of(text: str) -> int:
    """A number for a question, the same for others with the same words."""
    return int.from_bytes(digest("data", " ".join(words_of(text)) or text, size=8), "big")


def marks_of(questions: Sequence[str]) -> list[int]:
    """The mark of every question's family; computed once for the same questions."""
    file = cached("kin", *questions)
    marks = recall(file)
    if marks is None or len(marks) != len(questions):
        marks = families(questions)
        keep(file, marks)
    return [int(mark) for mark in marks]


def families(questions: Sequence[str]) -> list[int]:
    try:
        from datasketch import MinHash, MinHashLSH
    except ImportError:
        raise UserError(
            "data sets need datasketch, to keep near-duplicates together: "
            "pip install 'coevolve[data]'"
        ) from None
    own = [mark_of(question) for question in questions]
    leader = {mark: mark for mark in own}

    def first(mark: int) -> int:
        while leader[mark] != mark:
            mark = leader[mark]
        return mark

    index = MinHashLSH(threshold=ALIKE, num_perm=HASHES)
    for mark, told in telling(dict(zip(own, questions, strict=True))).items():
        hashed = MinHash(num_perm=HASHES)
        hashed.update_batch([one.encode() for one in told])
        for other in index.query(hashed):
            low, high = sorted((first(mark), first(int(other))))
            leader[high] = low
        index.insert(str(mark), hashed)
    return [first(mark) for mark in own]


def telling(questions: Mapping[int, str]) -> dict[int, list[str]]:
    """The shingles of each question that are not part of a form; of short ones none."""
    found = {mark: shingles(words_of(text)) for mark, text in questions.items()}
    counts = Counter(one for own in found.values() for one in own)
    most = max(COMMON, USUAL * len(questions))
    kept = {mark: sorted(one for one in own if counts[one] <= most) for mark, own in found.items()}
    return {mark: own for mark, own in kept.items() if len(own) >= FEWEST}


def shingles(words: list[str]) -> set[str]:
    return {" ".join(words[n : n + WORDS]) for n in range(len(words) - WORDS + 1)}
