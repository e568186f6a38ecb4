"""Number theory."""

import random
from typing import Any

from coevolve.domains.code.template import Argument, Template, ints


def whole(rng: random.Random, size: int, kind: str, _p: Any) -> list[Any]:
    if kind == "large":
        return [size + rng.randrange(size // 100)]
    return [rng.randint(1, 3) if kind == "edge" else rng.randint(4, 80 * size)]


def interval(rng: random.Random, size: int, kind: str, _p: Any) -> list[Any]:
    if kind == "large":
        return [size // 2, size]
    if kind == "edge":
        low = rng.randint(0, 30)
        return [low, low + rng.randint(0, 1)]
    low = rng.randint(0, 40 * size)
    return [low, low + rng.randint(1, 20 * size)]


TEMPLATES = (
    Template(
        name="divisor_sum",
        takes=(Argument("number", "int"),),
        draw=lambda rng: {
            "k": (k := rng.randint(2, 9)),
            "r": rng.randrange(k),
            "c": rng.randint(1, 9),
        },
        statement=(
            "The result is the sum of all positive divisors of `number` that leave the remainder "
            "{r} when divided by {k}, plus {c} times the number of all its positive divisors."
        ),
        reference="""\
def core(number):
    total, d = 0, 1
    while d * d <= number:
        if number % d == 0:
            for divisor in {d, number // d}:
                total += <<c>> + (divisor if divisor % <<k>> == <<r>> else 0)
        d += 1
    return total
""",
        brute="""\
def core(number):
    total = 0
    for d in range(1, number + 1):
        if number % d == 0:
            total += <<c>> + (d if d % <<k>> == <<r>> else 0)
    return total
""",
        inputs=whole,
        large=2_000_000_000,
    ),
    Template(
        name="primes_between",
        takes=(Argument("low", "int"), Argument("high", "int")),
        draw=lambda rng: {
            "k": (k := rng.randint(3, 12)),
            "r": rng.randrange(k),
            "c": rng.randint(2, 50),
        },
        statement=(
            "Look at the prime numbers from `low` to `high`, both included. The result is the "
            "number of those that leave the remainder {r} when divided by {k}, plus {c} times the "
            "number of all of them."
        ),
        reference="""\
def core(low, high):
    prime = [False, False] + [True] * max(0, high - 1)
    for p in range(2, int(high**0.5) + 1):
        if prime[p]:
            for multiple in range(p * p, high + 1, p):
                prime[multiple] = False
    found = [n for n in range(low, high + 1) if prime[n]]
    return sum(n % <<k>> == <<r>> for n in found) + <<c>> * len(found)
""",
        brute="""\
def core(low, high):
    total = 0
    for n in range(max(low, 2), high + 1):
        prime = True
        for d in range(2, n):
            if n % d == 0:
                prime = False
                break
        total += prime * (<<c>> + (n % <<k>> == <<r>>))
    return total
""",
        inputs=interval,
        large=200_000,
    ),
    Template(
        name="common_divisor_runs",
        draw=lambda rng: {"g": rng.randint(1, 12), "m": rng.randint(1_000, 9_999)},
        statement=(
            "All numbers are positive. The result is the number of runs of one or more numbers "
            "that follow one another and whose greatest common divisor is exactly {g}, modulo "
            "{m}."
        ),
        reference="""\
def core(numbers):
    from math import gcd

    ending, total = {}, 0
    for x in numbers:
        following = {x: 1}
        for g, count in ending.items():
            following[gcd(g, x)] = following.get(gcd(g, x), 0) + count
        ending = following
        total += ending.get(<<g>>, 0)
    return total % <<m>>
""",
        brute="""\
def core(numbers):
    def gcd(a, b):
        while b:
            a, b = b, a % b
        return a

    total = 0
    for i in range(len(numbers)):
        g = 0
        for x in numbers[i:]:
            g = gcd(g, x)
            total += g == <<g>>
    return total % <<m>>
""",
        inputs=lambda rng, size, kind, p: [[p["g"] * x for x in ints(rng, size, kind, 1, 24)]],
        large=10_000,
        steps=False,
    ),
    Template(
        name="power_sum",
        takes=(Argument("number", "int"),),
        draw=lambda rng: {"a": rng.randint(2, 99), "m": rng.randint(100, 999)},
        statement=(
            "The result is the sum of the powers {a}^0 + {a}^1 + ... + {a}^`number`, modulo {m}."
        ),
        reference="""\
def core(number):
    def powers(count):  # (sum of the first `count` powers, power number `count`), modulo
        if count == 0:
            return 0, 1
        half, power = powers(count // 2)
        total, power = half * (1 + power) % <<m>>, power * power % <<m>>
        if count % 2:
            total, power = (total + power) % <<m>>, power * <<a>> % <<m>>
        return total, power

    return powers(number + 1)[0]
""",
        brute="""\
def core(number):
    total, power = 0, 1
    for _ in range(number + 1):
        total = (total + power) % <<m>>
        power = power * <<a>> % <<m>>
    return total
""",
        inputs=whole,
        large=10**15,
    ),
)
