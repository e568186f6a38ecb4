"""A board: holes, starts and goals. Cells are (row, column) from the top left."""

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from coevolve.core.errors import UserError
from coevolve.core.task import Task, reason

Cell = tuple[int, int]
Path = tuple[Cell, ...]
Plan = tuple[Path, ...]

FREE, HOLE = ".", "O"
MAX_SIDE = 64
"""Rows are held in 64-bit words."""


class Board(BaseModel):
    """A frozen lake with one start and one goal per agent. Invalid boards cannot be built."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: tuple[str, ...]
    """One string per row, '.' free and 'O' a hole."""
    starts: tuple[Cell, ...]
    goals: tuple[Cell, ...]

    @model_validator(mode="after")
    def check(self) -> "Board":
        height, width = self.height, self.width
        if not 1 <= height <= MAX_SIDE or not 1 <= width <= MAX_SIDE:
            raise ValueError(f"the board is {height}x{width}; each side may be 1 to {MAX_SIDE}")
        for number, row in enumerate(self.rows):
            if len(row) != width:
                raise ValueError(f"row {number} has {len(row)} cells, row 0 has {width}")
            if strange := set(row) - {FREE, HOLE}:
                raise ValueError(f"row {number} holds {sorted(strange)}; use '.' and 'O'")
        if len(self.starts) != len(self.goals) or not self.starts:
            raise ValueError(
                f"{len(self.starts)} starts and {len(self.goals)} goals; one of each per agent"
            )
        for name, cells in (("start", self.starts), ("goal", self.goals)):
            for agent, (row_, column) in enumerate(cells):
                if not (0 <= row_ < height and 0 <= column < width):
                    raise ValueError(f"{name} {[row_, column]} of agent {agent} is off the board")
                if self.rows[row_][column] == HOLE:
                    raise ValueError(f"{name} {[row_, column]} of agent {agent} is a hole")
            if len(set(cells)) != len(cells):
                raise ValueError(f"two agents share a {name}: {[list(cell) for cell in cells]}")
        return self

    @property
    def height(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        return len(self.rows[0]) if self.rows else 0

    @property
    def agents(self) -> int:
        return len(self.starts)

    @property
    def holes(self) -> int:
        return sum(row.count(HOLE) for row in self.rows)


def board_of(task: Task) -> Board:
    data = task.data
    return Board(rows=data["rows"], starts=data["starts"], goals=data["goals"])


def parse_board(data: dict[str, Any]) -> Board:
    """A board from plain JSON values, with a readable error for anything that is off."""
    missing = [key for key in ("rows", "starts", "goals") if key not in data]
    if missing:
        raise UserError(f"a board needs rows, starts and goals; missing: {', '.join(missing)}")
    try:
        return Board(rows=data["rows"], starts=data["starts"], goals=data["goals"])
    except ValueError as error:
        raise UserError(f"not a board: {reason(error)}") from None
