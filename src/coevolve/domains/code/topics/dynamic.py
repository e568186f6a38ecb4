"""Dynamic programming."""

import random
from typing import Any

from coevolve.domains.code.template import Argument, Template, ints


def amount(rng: random.Random, size: int, kind: str, _p: Any) -> list[Any]:
    return [{"large": size, "edge": rng.randint(0, 3)}.get(kind, rng.randint(4, 6 * size))]


def table(rng: random.Random, size: int, kind: str, _p: Any) -> list[Any]:
    side = max(2, int(size**0.5) + 1)
    height = size if kind == "large" else 1 if kind == "edge" else rng.randint(2, side)
    width = size if kind == "large" else rng.randint(1 if kind == "edge" else 2, side)
    return [[[rng.randint(-9, 40) for _ in range(width)] for _ in range(height)]]


TEMPLATES = (
    Template(
        name="coin_ways",
        takes=(Argument("amount", "int"),),
        draw=lambda rng: dict(zip("abc", sorted(rng.sample(range(1, 21), 3)), strict=True)),
        statement=(
            "There are coins of {a}, {b} and {c}, as many of each as needed. The result is the "
            "number of ways to pay `amount` exactly, where only the number of coins of each kind "
            "counts, not their order. There is one way to pay 0."
        ),
        reference="""\
def core(amount):
    ways = [1] + [0] * amount
    for coin in (<<a>>, <<b>>, <<c>>):
        for total in range(coin, amount + 1):
            ways[total] += ways[total - coin]
    return ways[amount]
""",
        brute="""\
def core(amount):
    def ways(left, coins):
        if left == 0:
            return 1
        if left < 0 or not coins:
            return 0
        return sum(ways(left - n * coins[0], coins[1:]) for n in range(left // coins[0] + 1))

    return ways(amount, (<<a>>, <<b>>, <<c>>))
""",
        inputs=amount,
        large=60_000,
    ),
    Template(
        name="rising_by",
        draw=lambda rng: {"d": rng.randint(1, 60)},
        statement=(
            "A subsequence is what is left of the list when some numbers are crossed out. The "
            "result is the length of the longest subsequence in which every number is at least "
            "{d} greater than the one before it (0 for an empty list)."
        ),
        reference="""\
def core(numbers):
    from bisect import bisect_right

    ends = []
    for x in numbers:
        place = bisect_right(ends, x - <<d>>)
        if place == len(ends):
            ends.append(x)
        else:
            ends[place] = min(ends[place], x)
    return len(ends)
""",
        brute="""\
def core(numbers):
    best = []
    for i, x in enumerate(numbers):
        longest = 0
        for j in range(i):
            if numbers[j] + <<d>> <= x and best[j] > longest:
                longest = best[j]
        best.append(longest + 1)
    return max(best, default=0)
""",
        inputs=lambda rng, size, kind, p: [ints(rng, size, kind, -999, 999)],
        large=20_000,
    ),
    Template(
        name="spaced_choice",
        draw=lambda rng: {"g": rng.randint(1, 9), "c": rng.randint(0, 12)},
        statement=(
            "Choose any positions of the list, also none, such that any two of them are more than "
            "{g} apart. Choosing a position earns the number there minus {c}. The result is the "
            "most that can be earned."
        ),
        reference="""\
def core(numbers):
    best = [0]
    for i, x in enumerate(numbers):
        best.append(max(best[-1], x - <<c>> + best[max(0, i - <<g>>)]))
    return best[-1]
""",
        brute="""\
def core(numbers):
    def most(i):
        if i >= len(numbers):
            return 0
        taken = numbers[i] - <<c>>
        j = i + <<g>> + 1
        return max(taken + most(j), most(i + 1)) if taken > 0 else most(i + 1)

    import sys

    sys.setrecursionlimit(10**6)
    return most(0)
""",
        large=20_000,
    ),
    Template(
        name="turning_path",
        takes=(Argument("table", "rows"),),
        draw=lambda rng: {"t": rng.randint(0, 30), "c": rng.randint(0, 5)},
        statement=(
            "A path goes from the top left to the bottom right cell of a table of numbers, each "
            "step one cell right or down. It pays the number of every cell on it, {t} for each "
            "change between going right and going down, and {c} for each step down. The result is "
            "the least that a path can pay."
        ),
        reference="""\
def core(table):
    far = 10**18
    width = len(table[0])
    right, down = [far] * width, [far] * width
    for r, row in enumerate(table):
        for c, value in enumerate(row):
            if r == c == 0:
                right[0] = down[0] = value
                continue
            above = min(down[c], right[c] + <<t>>) + <<c>> if r else far
            if r == 1 and c == 0:
                above = down[0] + <<c>>
            left = min(right[c - 1], down[c - 1] + <<t>>) if c else far
            right[c], down[c] = left + value, above + value
        if r == 0:
            down[0] = right[0]
    return min(right[-1], down[-1])
""",
        brute="""\
def core(table):
    def least(r, c, going):
        if r == len(table) or c == len(table[0]):
            return 10**18
        if r == len(table) - 1 and c == len(table[0]) - 1:
            return table[r][c]
        right = least(r, c + 1, "right") + (<<t>> if going == "down" else 0)
        down = least(r + 1, c, "down") + (<<t>> if going == "right" else 0) + <<c>>
        return table[r][c] + min(right, down)

    return least(0, 0, "")
""",
        inputs=table,
        large=150,
    ),
)
