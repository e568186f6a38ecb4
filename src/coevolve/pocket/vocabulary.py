"""The pocket policy's words: a token is a word, and its id is its place in one list.

Invariant: ids never move. Words of another domain go to the end, as one more block, so that
weights trained before keep their meaning.
"""

from itertools import chain

MARKS = ("<pad>", "<end>", "/", "-", "holes", "starts", "goals", "plan")
PAD, END, SLASH, STILL, HOLES, STARTS, GOALS, PLAN = range(len(MARKS))

SIZES = range(3, 11)
FIRST_SIZE = len(MARKS)

SIDE = 10
"""Cells are numbered as on the largest board, row * 10 + column."""
FIRST_CELL = FIRST_SIZE + len(SIZES)

UNKNOWN = FIRST_CELL + SIDE * SIDE
"""Stands for every word that is not in the list."""

ENGINEERING = (
    *("edits", "up", "same", "down"),
    *map(str, range(10)),
    *(f"size{size}" for size in SIZES),
    *(f"agents{agents}" for agents in range(1, 9)),
)
"""Of tables of evidence and their answers."""

BLOCKS: tuple[tuple[str, ...], ...] = (
    MARKS,
    tuple(f"{size}x{size}" for size in SIZES),
    tuple(f"{row},{column}" for row in range(SIDE) for column in range(SIDE)),
    ("<unk>",),
    ENGINEERING,
)


def words() -> tuple[str, ...]:
    """All words in the order of their ids."""
    return tuple(chain.from_iterable(BLOCKS))
