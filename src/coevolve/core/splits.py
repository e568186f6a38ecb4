"""Four splits that cannot overlap, because a task's own content decides where it belongs.

A domain gives each task a fingerprint: a well-mixed number, the same for tasks that are equal up to
the domain's symmetries. It picks the split; generators throw away what belongs elsewhere. No list
of used tasks is needed, and any two machines agree.
"""

from enum import StrEnum

from coevolve.core.errors import SplitError


class Split(StrEnum):
    TRAIN = "train"
    """What policies train on."""
    DEV = "dev"
    """What engineers are shown."""
    GATE = "gate"
    """What decides whether a change is kept; no engineer sees it."""
    TEST = "test"
    """Looked at once, at the end."""


PARTS = 100
"""A fingerprint belongs to the part of its remainder."""
SHARES = {Split.TRAIN: 52, Split.DEV: 16, Split.GATE: 16, Split.TEST: 16}
"""Percent of all distinct tasks that belong to each split."""


def share_of(split: Split) -> tuple[int, int]:
    """The half-open range of `fingerprint % PARTS` that belongs to a split."""
    order = list(Split)
    low = sum(SHARES[other] for other in order[: order.index(split)])
    return low, low + SHARES[split]


def split_of(fingerprint: int) -> Split:
    """The one split a task with this fingerprint belongs to."""
    for split in Split:
        if fingerprint % PARTS < share_of(split)[1]:
            return split
    raise AssertionError("the shares add up to 100")


def check_split(fingerprint: int, split: Split, name: str) -> None:
    """Refuse a task that belongs to another split than the one it is used in."""
    home = split_of(fingerprint)
    if home is not split:
        raise SplitError(
            f"task {name} belongs to the split '{home}' by its content (up to symmetry) and "
            f"cannot be used in '{split}'; generate tasks for '{split}' instead"
        )
