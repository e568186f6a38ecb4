"""Sorting and searching."""

import random
from typing import Any

from coevolve.domains.code.template import NUMBERS, Argument, Template, ints


def ranges(rng: random.Random, size: int, kind: str, _p: Any) -> list[Any]:
    numbers = ints(rng, size, kind, -999, 999)
    count = {"large": size // 2, "edge": 1}.get(kind, max(2, size // 3))
    rows = [sorted(rng.randint(-1_100, 1_100) for _ in range(2)) for _ in range(count)]
    return [numbers, rows]


TEMPLATES = (
    Template(
        name="sort_by_remainder",
        gives="ints",
        draw=lambda rng: {"k": rng.randint(2, 40), "down": rng.choice((True, False))},
        statement=(
            "Sort the numbers by their remainder when divided by {k} (from 0 to {k} - 1, also for "
            "negative numbers), the smallest remainder first; among numbers with equal remainders "
            "the [down:greatest|smallest] comes first. The result is the sorted list."
        ),
        reference="""\
def core(numbers):
    sign = -1 if <<down>> else 1
    return sorted(numbers, key=lambda x: (x % <<k>>, sign * x))
""",
        brute="""\
def core(numbers):
    def rank(x):
        return x % <<k>>, -x if <<down>> else x

    result = []
    for x in numbers:
        place = 0
        while place < len(result) and rank(result[place]) < rank(x):
            place += 1
        result.insert(place, x)
    return result
""",
        inputs=lambda rng, size, kind, p: [ints(rng, size, kind, -500, 500)],
        large=15_000,
    ),
    Template(
        name="great_gaps",
        draw=lambda rng: {"k": rng.randint(1, 5), "c": rng.randint(2, 40)},
        statement=(
            "Sort the different values and take the gaps between neighbours. The result is {c} "
            "times the sum of the {k} greatest gaps (of all, if there are fewer), plus the number "
            "of different values."
        ),
        reference="""\
def core(numbers):
    values = sorted(set(numbers))
    gaps = sorted((b - a for a, b in zip(values, values[1:])), reverse=True)
    return <<c>> * sum(gaps[:<<k>>]) + len(values)
""",
        inputs=lambda rng, size, kind, p: [ints(rng, size, kind, -9_999, 9_999)],
        large=30_000,
    ),
    Template(
        name="count_in_ranges",
        takes=(NUMBERS, Argument("ranges", "rows")),
        draw=lambda rng: {"a": rng.randint(0, 12), "m": rng.randint(1_000, 9_999)},
        statement=(
            "Each entry of `ranges` is a pair low, high with low <= high. For each, count the "
            "numbers x with low - {a} <= x <= high. The result is the sum of the squares of these "
            "counts, modulo {m}."
        ),
        reference="""\
def core(numbers, ranges):
    from bisect import bisect_left, bisect_right

    values, total = sorted(numbers), 0
    for low, high in ranges:
        total += (bisect_right(values, high) - bisect_left(values, low - <<a>>)) ** 2
    return total % <<m>>
""",
        brute="""\
def core(numbers, ranges):
    total = 0
    for low, high in ranges:
        found = 0
        for x in numbers:
            found += low - <<a>> <= x <= high
        total += found**2
    return total % <<m>>
""",
        inputs=ranges,
        large=12_000,
    ),
    Template(
        name="wide_inversions",
        draw=lambda rng: {"d": rng.randint(0, 60), "m": rng.choice((1_000_003, 99_991, 10_007))},
        statement=(
            "The result is the number of pairs of positions i < j such that the number at i is "
            "greater than the number at j by more than {d}, modulo {m}."
        ),
        reference="""\
def core(numbers):
    from bisect import bisect_right, insort

    seen, pairs = [], 0
    for x in numbers:
        pairs += len(seen) - bisect_right(seen, x + <<d>>)
        insort(seen, x)
    return pairs % <<m>>
""",
        brute="""\
def core(numbers):
    pairs = 0
    for i in range(len(numbers)):
        for j in range(i + 1, len(numbers)):
            pairs += numbers[i] > numbers[j] + <<d>>
    return pairs % <<m>>
""",
        inputs=lambda rng, size, kind, p: [ints(rng, size, kind, -999, 999)],
        large=20_000,
    ),
)
