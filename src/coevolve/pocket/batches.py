"""Demonstrations as batches of tokens, on whatever device they lie.

Every board is shown in one of its eight rotations and reflections and with its agents in random
order, drawn anew each time; some rows are texts of other domains, as they are. Invariant: only
the answer and its end are learned, never the prompt.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from coevolve.pocket import vocabulary as words
from coevolve.pocket.arrays import NONE, Demonstrations

IGNORED = -100
"""The label of tokens that are not learned."""
SYMMETRIES = 8
TEXTS = 3
"""One row in so many is a text."""
LENGTH_STEP = 16
"""Batches are padded to a multiple of this, so that few different shapes occur."""


class Data(NamedTuple):
    """Demonstrations on a device, and where each symmetry takes each cell."""

    size: Tensor
    holes: Tensor
    plan: Tensor
    texts: Tensor
    asked: Tensor
    turned: Tensor
    """(SYMMETRIES, sizes, 256): cell to cell; NONE stays NONE."""


class Draw(NamedTuple):
    """What is random about a batch; one of each per row."""

    pick: Tensor
    """Which demonstration."""
    turn: Tensor
    """Which symmetry."""
    rank: Tensor
    """(rows, AGENTS), each from 0 to 1: agents are listed in the order of these."""
    text: Tensor
    """Which texts, beside the rows of boards."""


def to_device(demonstrations: Demonstrations, device: str) -> Data:
    size, holes, plan, texts, asked = (torch.from_numpy(a).to(device) for a in demonstrations)
    return Data(size, holes, plan, texts, asked, make_symmetries().to(device))


def make_symmetries() -> Tensor:
    """Where each cell of a board of each size goes."""
    table = torch.full((SYMMETRIES, len(words.SIZES), 256), NONE, dtype=torch.long)
    for symmetry in range(SYMMETRIES):
        for index, size in enumerate(words.SIZES):
            rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
            to_row = size - 1 - rows if symmetry & 1 else rows
            to_column = size - 1 - columns if symmetry & 2 else columns
            if symmetry & 4:
                to_row, to_column = to_column, to_row
            table[symmetry, index, rows * words.SIDE + columns] = to_row * words.SIDE + to_column
    return table


def draw(data: Data, rows: int, generator: torch.Generator) -> Draw:
    """A random batch; the generator must be of the data's device."""
    device, agents = data.size.device, data.plan.shape[2]
    texts = rows // TEXTS if len(data.texts) else 0
    boards = rows - texts
    return Draw(
        torch.randint(len(data.size), (boards,), device=device, generator=generator),
        torch.randint(SYMMETRIES, (boards,), device=device, generator=generator),
        torch.rand((boards, agents), device=device, generator=generator),
        torch.randint(max(1, len(data.texts)), (texts,), device=device, generator=generator),
    )


def make_batch(data: Data, drawn: Draw) -> tuple[Tensor, Tensor]:
    """Token ids and labels, padded on the right."""
    size = data.size[drawn.pick].long() - words.SIZES[0]
    turned = data.turned[drawn.turn, size]
    holes = turned.gather(1, data.holes[drawn.pick].long()).sort(dim=1).values
    plan = data.plan[drawn.pick].long()
    plan = turned.gather(1, plan.flatten(1)).reshape(plan.shape)
    absent = plan[:, 0] == NONE
    order = (drawn.rank + 2.0 * absent).argsort(dim=1)
    plan = plan.gather(2, order[:, None].expand_as(plan))
    prompt, prompt_shown = lay_prompt(size, holes, plan)
    answer, answer_shown = lay_answer(plan)
    boards = pack(
        torch.cat((prompt, answer), 1),
        torch.cat((prompt_shown, answer_shown), 1),
        prompt.shape[1],
    )
    return together(boards, text_rows(data, drawn.text)) if len(drawn.text) else boards


def text_rows(data: Data, picks: Tensor) -> tuple[Tensor, Tensor]:
    """Token ids and labels of texts."""
    texts = data.texts[picks].long()
    shown = texts != NONE
    tokens = torch.where(shown, texts, words.PAD)
    places = torch.arange(texts.shape[1], device=texts.device)
    learned = shown & (places >= data.asked[picks].long()[:, None])
    longest = -(-int(shown.sum(1).max()) // LENGTH_STEP) * LENGTH_STEP
    return tokens[:, :longest], torch.where(learned, tokens, IGNORED)[:, :longest]


def together(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Two batches as one."""
    width = max(first[0].shape[1], second[0].shape[1])
    tokens, labels = (
        torch.cat([pad(part, (0, width - part.shape[1]), value=fill) for part in parts])
        for parts, fill in zip(zip(first, second, strict=True), (words.PAD, IGNORED), strict=True)
    )
    return tokens, labels


def lay_prompt(size: Tensor, holes: Tensor, plan: Tensor) -> tuple[Tensor, Tensor]:
    """A token for everything a prompt can hold, and whether this one holds it."""
    last = (plan[:, :, 0] != NONE).sum(1) - 1
    goals = plan.gather(1, last[:, None, None].expand(-1, 1, plan.shape[2]))[:, 0]

    def word(token: int) -> Tensor:
        return torch.full_like(size, token)[:, None]

    columns = (
        (size + words.FIRST_SIZE)[:, None],
        *(word(words.HOLES), holes + words.FIRST_CELL),
        *(word(words.STARTS), plan[:, 0] + words.FIRST_CELL),
        *(word(words.GOALS), goals + words.FIRST_CELL),
        word(words.PLAN),
    )
    tokens = torch.cat(columns, 1)
    return tokens, tokens != NONE + words.FIRST_CELL


def lay_answer(plan: Tensor) -> tuple[Tensor, Tensor]:
    """The same for the answer: after each slash the cells of one time step, then the end."""
    steps = plan[:, 1:]  # the starts are in the prompt
    slash = torch.full_like(steps[:, :, :1], words.SLASH)
    shown = steps != NONE
    slash_shown = shown[:, :, :1].clone()
    slash_shown[:, 0] = False  # it stands between time steps, not before the first
    end = torch.full_like(plan[:, 0, :1], words.END)
    tokens = torch.cat((slash, steps + words.FIRST_CELL), 2).flatten(1)
    shown = torch.cat((slash_shown, shown), 2).flatten(1)
    return torch.cat((tokens, end), 1), torch.cat((shown, torch.ones_like(end).bool()), 1)


def pack(tokens: Tensor, shown: Tensor, prompt_width: int) -> tuple[Tensor, Tensor]:
    """Close the gaps of what is not shown; labels are the tokens right of the prompt."""
    learned = shown.clone()
    learned[:, :prompt_width] = False
    tokens = torch.where(shown, tokens, words.PAD)
    labels = torch.where(learned, tokens, IGNORED)
    order = (~shown).long().argsort(dim=1, stable=True)
    longest = int(shown.sum(1).max())
    order = order[:, : -(-longest // LENGTH_STEP) * LENGTH_STEP]
    return tokens.gather(1, order), labels.gather(1, order)
