"""Arithmetic over a list of numbers."""

from coevolve.domains.code.template import Template, ints

TEMPLATES = (
    Template(
        name="weighted_sum",
        draw=lambda rng: {"p": rng.randint(2, 9), "m": rng.randint(97, 1009)},
        statement=(
            "Give the number at position i (counted from 0) the weight (i mod {p}) + 1. The "
            "result is the sum of each number times its weight, modulo {m} (a value from 0 to {m} "
            "- 1)."
        ),
        reference="""\
def core(numbers):
    return sum(x * (i % <<p>> + 1) for i, x in enumerate(numbers)) % <<m>>
""",
        large=40_000,
    ),
    Template(
        name="divisible_sum",
        draw=lambda rng: dict(zip("kj", rng.sample(range(2, 14), 2), strict=True)),
        statement=(
            "The result is the sum of all numbers that are divisible by {k} but not by {j}, minus "
            "how many numbers are divisible by both."
        ),
        reference="""\
def core(numbers):
    wanted = sum(x for x in numbers if x % <<k>> == 0 and x % <<j>> != 0)
    return wanted - sum(1 for x in numbers if x % <<k>> == 0 and x % <<j>> == 0)
""",
        inputs=lambda rng, size, kind, p: [ints(rng, size, kind, -300, 300)],
        large=40_000,
    ),
    Template(
        name="digit_powers",
        draw=lambda rng: {"p": rng.randint(1, 4), "b": rng.randint(2, 16)},
        statement=(
            "Write the absolute value of each number in base {b}. The result is the sum of the "
            "digits of all numbers, each raised to the power {p}."
        ),
        reference="""\
def core(numbers):
    total = 0
    for x in numbers:
        x = abs(x)
        while x:
            x, digit = divmod(x, <<b>>)
            total += digit ** <<p>>
    return total
""",
        inputs=lambda rng, size, kind, p: [ints(rng, size, kind, -9999, 9999)],
        large=10_000,
    ),
    Template(
        name="polynomial",
        draw=lambda rng: {"x": rng.randint(2, 60), "m": rng.randint(1_000, 9_999)},
        statement=(
            "The numbers are the coefficients of a polynomial, that of the highest power first. "
            "The result is its value at {x}, modulo {m} (a value from 0 to {m} - 1); it is 0 "
            "without coefficients."
        ),
        reference="""\
def core(numbers):
    value = 0
    for coefficient in numbers:
        value = (value * <<x>> + coefficient) % <<m>>
    return value
""",
        brute="""\
def core(numbers):
    total = 0
    for i, coefficient in enumerate(numbers):
        power = 1
        for _ in range(len(numbers) - 1 - i):
            power *= <<x>>
        total += coefficient * power
    return total % <<m>>
""",
        large=30_000,
    ),
)
