"""pass@k: how likely one of k attempts at a task succeeds, from n >= k attempts (Chen et al. 2021).

Invariant: it is the share of successful ones among all choices of k attempts, exactly.
"""

from math import comb


def pass_at(k: int, attempts: int, successes: int) -> float:
    """The share of all choices of `k` of the attempts that hold at least one success."""
    if not 1 <= k <= attempts or not 0 <= successes <= attempts:
        raise ValueError(
            f"pass@{k} of {successes} successes in {attempts} attempts: use 1 <= k <= attempts "
            "and 0 <= successes <= attempts"
        )
    choices = comb(attempts, k)
    # One division of whole numbers, so that pass@1 is the plain rate to the last bit.
    return (choices - comb(attempts - successes, k)) / choices


def powers_up_to(samples: int) -> list[int]:
    """The values of k to report: 1, 2, 4 and so on."""
    return [1 << exponent for exponent in range(samples.bit_length())]
