"""The pocket policy's words: a token is a word, and its id is its place in one list.

Invariant: ids never move. Words of another domain go to the end, as one more block, so that
weights trained before keep their meaning. Decoding what was encoded gives the same text back, for
any text of known words joined by single spaces.
"""

from itertools import chain
from typing import Any

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

MOST_TOKENS = 512
"""Positions the model has, for prompt and answer together."""
CHAT_TEMPLATE = "{{ messages | map(attribute='content') | join(' ') }}"
"""A prompt ends in the word after which the plan begins, so roles and turns need no marks."""


def words() -> tuple[str, ...]:
    """All words in the order of their ids."""
    return tuple(chain.from_iterable(BLOCKS))


def make_tokenizer() -> Any:
    """A tokenizer of words between spaces, ready to be saved beside a model."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    known = words()
    unknown = known[UNKNOWN]
    ids = {word: number for number, word in enumerate(known)}
    backend = Tokenizer(WordLevel(ids, unk_token=unknown))
    backend.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=known[END],
        pad_token=known[PAD],
        unk_token=unknown,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=MOST_TOKENS,
        model_input_names=["input_ids", "attention_mask"],
        chat_template=CHAT_TEMPLATE,
    )
