"""Coverage-guided fuzzing of the lake's answer parser and checks: `make fuzz`.

Whatever the bytes: no exception, the same verdict twice, and a plan is accepted only if a plain
walk through the rules accepts it too.
"""

import sys

import atheris

with atheris.instrument_imports(include=["coevolve.domains.lake.answer"]):
    from coevolve.domains.lake import answer

import itertools

from coevolve.domains.lake.domain import LakeDomain, board_of

DOMAIN = LakeDomain()
HOLE = (1, 1)
TASK = DOMAIN.load(
    {"rows": ["...", ".O.", "..."], "starts": [[0, 0], [2, 2]], "goals": [[0, 2], [2, 0]]}
)


def plainly_valid(paths: tuple[tuple[tuple[int, int], ...], ...]) -> bool:
    """The rules for the one board that is fuzzed, written out."""
    first, second = paths
    if (first[0], first[-1], second[0], second[-1]) != ((0, 0), (0, 2), (2, 2), (2, 0)):
        return False
    last = max(len(first), len(second)) - 1
    one = [first[min(t, len(first) - 1)] for t in range(last + 1)]
    two = [second[min(t, len(second) - 1)] for t in range(last + 1)]
    for path in (one, two):
        if any(not (0 <= r < 3 and 0 <= c < 3) or (r, c) == HOLE for r, c in path):
            return False
        if any(abs(r - q) + abs(c - d) > 1 for (r, c), (q, d) in itertools.pairwise(path)):
            return False
    return all(one[t] != two[t] for t in range(last + 1)) and all(
        (one[t], two[t]) != (two[t + 1], one[t + 1]) for t in range(last)
    )


def try_one(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    outcome = DOMAIN.verify(TASK, text)
    assert outcome == DOMAIN.verify(TASK, text)
    if outcome.valid:
        assert plainly_valid(answer.parse(text, BOARD)), text
    else:
        assert outcome.reward == 0, text
        assert outcome.failure in DOMAIN.failures, text


BOARD = board_of(TASK)

if __name__ == "__main__":
    atheris.Setup(sys.argv, try_one)
    atheris.Fuzz()
