"""Lists: windows, pairs, blocks, repetitions."""

import random
from typing import Any

from coevolve.domains.code.template import NUMBERS, Argument, Template, ints


def windowed(rng: random.Random, size: int, kind: str, _p: Any) -> list[Any]:
    numbers = ints(rng, size, kind, least=1)
    width = len(numbers) // 2 if kind == "large" else rng.randint(1, len(numbers))
    return [numbers, width]


TEMPLATES = (
    Template(
        name="window_maxima",
        takes=(NUMBERS, Argument("width", "int")),
        draw=lambda rng: {"m": rng.randint(1_000, 9_999), "c": rng.randint(2, 9)},
        statement=(
            "Take the greatest number of every window of `width` numbers that follow one another "
            "(there is at least one such window). The result is the sum of these, times {c}, "
            "modulo {m} (a value from 0 to {m} - 1)."
        ),
        reference="""\
def core(numbers, width):
    from collections import deque

    best, total = deque(), 0
    for i, x in enumerate(numbers):
        while best and numbers[best[-1]] <= x:
            best.pop()
        best.append(i)
        if best[0] <= i - width:
            best.popleft()
        if i >= width - 1:
            total += numbers[best[0]]
    return total * <<c>> % <<m>>
""",
        brute="""\
def core(numbers, width):
    total = 0
    for i in range(len(numbers) - width + 1):
        best = numbers[i]
        for x in numbers[i : i + width]:
            if x > best:
                best = x
        total += best
    return total * <<c>> % <<m>>
""",
        inputs=windowed,
        large=30_000,
        steps=False,
    ),
    Template(
        name="pairs_modulo",
        draw=lambda rng: {"k": (k := rng.randint(2, 40)), "r": rng.randrange(k)},
        statement=(
            "The result is the number of pairs of positions i < j such that the sum of the two "
            "numbers there leaves the remainder {r} when divided by {k} (remainders are from 0 to "
            "{k} - 1, also for negative sums)."
        ),
        reference="""\
def core(numbers):
    seen, pairs = [0] * <<k>>, 0
    for x in numbers:
        pairs += seen[(<<r>> - x) % <<k>>]
        seen[x % <<k>>] += 1
    return pairs
""",
        brute="""\
def core(numbers):
    pairs = 0
    for i in range(len(numbers)):
        for j in range(i + 1, len(numbers)):
            pairs += (numbers[i] + numbers[j]) % <<k>> == <<r>>
    return pairs
""",
        large=30_000,
    ),
    Template(
        name="turned_blocks",
        gives="ints",
        draw=lambda rng: {
            "b": rng.randint(2, 9),
            "s": rng.randint(2, 5),
            "c": rng.randint(1, 9),
        },
        statement=(
            "Cut the list into blocks of {b} numbers (the last may be shorter). Turn every block "
            "around whose index, counted from 0, is divisible by {s}, and add {c} to each number "
            "of the other blocks. The result is the list of all numbers in the new order."
        ),
        reference="""\
def core(numbers):
    result = []
    for index in range(0, len(numbers), <<b>>):
        block = numbers[index : index + <<b>>]
        if index // <<b>> % <<s>> == 0:
            result += block[::-1]
        else:
            result += [x + <<c>> for x in block]
    return result
""",
        large=20_000,
    ),
    Template(
        name="few_of_each",
        gives="ints",
        draw=lambda rng: {"c": rng.randint(1, 4), "p": rng.randint(2, 30)},
        statement=(
            "Call two numbers alike if they leave the same remainder when divided by {p} (from 0 "
            "to {p} - 1, also for negative numbers). Go through the list and keep a number only "
            "if fewer than {c} numbers like it were kept before. The result is the list of those "
            "kept."
        ),
        reference="""\
def core(numbers):
    kept, result = {}, []
    for x in numbers:
        if kept.get(x % <<p>>, 0) < <<c>>:
            kept[x % <<p>>] = kept.get(x % <<p>>, 0) + 1
            result.append(x)
    return result
""",
        large=40_000,
    ),
)
