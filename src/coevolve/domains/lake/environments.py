"""The lake as standard environments: PettingZoo (agents apart) and Gymnasium (one controller).

The only module that imports gymnasium and pettingzoo, which are an optional extra. Importing it
registers the Gymnasium id. The invariant: every rule is the stepper's; here are only views of it.
"""

from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from coevolve.core.errors import UserError
from coevolve.domains.lake.board import FREE, HOLE, Board
from coevolve.domains.lake.checks import CHECKS
from coevolve.domains.lake.stepper import ACTIONS, FIRST, WATER, Lakes, check_alike

NAME = "coevolve/Lake-v1"
METADATA: dict[str, Any] = {"name": NAME, "render_modes": ["ansi"], "render_fps": 4}
TIME_LIMIT = 64

DEMO_BOARDS = (
    Board(
        rows=("....", ".OO.", "....", "...."),
        starts=((0, 0), (3, 3)),
        goals=((0, 3), (3, 0)),
    ),
    Board(
        rows=("....", "OO.O", "....", ".O.."),
        starts=((0, 0), (2, 0)),
        goals=((2, 3), (0, 3)),
    ),
    Board(
        rows=("..O.", "....", "O...", "..O."),
        starts=((0, 0), (0, 3)),
        goals=((3, 3), (3, 0)),
    ),
)
"""Three small boards with two agents, each solvable."""

Observation = dict[str, Any]
"""Arrays by name."""


class Episode:
    """One board of a set, played through the stepper, and what can be seen of it."""

    def __init__(
        self, boards: Sequence[Board] | None, time_limit: int | None, render_mode: str | None
    ) -> None:
        if render_mode not in (None, *METADATA["render_modes"]):
            raise UserError(f"render mode {render_mode!r}; there are None and 'ansi'")
        self.boards = tuple(DEMO_BOARDS if boards is None else boards)
        check_alike(self.boards)
        self.lakes = [Lakes([board], time_limit, auto_reset=False) for board in self.boards]
        self.render_mode = render_mode
        self.choose(0)

    def choose(self, index: int) -> None:
        self.index, self.board, self.lake = index, self.boards[index], self.lakes[index]

    def begin(self, random: np.random.Generator) -> None:
        """Choose a board and put its agents on their starts."""
        self.choose(int(random.integers(len(self.boards))))
        self.lake.reset()

    def step(self, actions: Sequence[Any] | NDArray[Any]) -> tuple[float, bool, bool]:
        """Move all agents: reward, whether this ended the episode by the rules, and by time."""
        if self.lake.done[0]:
            raise UserError("the episode is over; reset the environment before the next step")
        _, reward, done, _ = self.lake.step(np.asarray(actions)[None])
        truncated = bool(self.lake.truncated[0])
        return float(reward[0]), bool(done[0]) and not truncated, truncated

    def info(self) -> dict[str, Any]:
        """The board's index and the failure class (None unless the episode failed)."""
        failure = int(self.lake.failure[0])
        return {"board": self.index, "failure": CHECKS[failure] if failure else None}

    def grid(self) -> NDArray[np.int8]:
        """A copy of the board: 0 free, 1 a hole, 2 + i agent i."""
        grid: NDArray[np.int8] = self.lake.grid[0].copy()
        return grid.reshape(self.board.height, self.board.width)

    def positions(self) -> NDArray[np.int16]:
        """Row and column of each agent."""
        return np.stack(np.divmod(self.lake.positions[0], self.board.width), 1).astype(np.int16)

    def goals(self) -> NDArray[np.int16]:
        """Row and column of each agent's goal."""
        return np.array(self.board.goals, np.int16)

    def space(self, **cells: tuple[int, ...]) -> spaces.Dict:
        """The grid, and cells in arrays of some shapes, with row and column along the last axis."""
        height, width = self.board.height, self.board.width
        grid = spaces.Box(0, FIRST - 1 + self.board.agents, (height, width), np.int8)
        high = np.array([height - 1, width - 1], np.int16)
        boxes = {
            name: spaces.Box(np.int16(0), np.broadcast_to(high, (*shape, 2)), dtype=np.int16)
            for name, shape in cells.items()
        }
        return spaces.Dict({"grid": grid, **boxes})

    def render(self) -> str | None:
        """The board as text: agents A, B, ..., their goals a, b, ... where nobody stands."""
        if self.render_mode is None:
            return None
        marks = {0: FREE, WATER: HOLE}
        rows = [[marks.get(mark, FREE) for mark in row] for row in self.grid().tolist()]
        for letter, cells in (("a", self.board.goals), ("A", self.positions().tolist())):
            for agent, (row, column) in enumerate(cells):
                rows[row][column] = chr(ord(letter) + agent) if agent < 26 else "+"
        return "\n".join("".join(row) for row in rows) + "\n"


class LakeParallelEnv(ParallelEnv[str, Observation, Any]):  # type: ignore[misc]
    """Each agent chooses for itself and all share the reward: 1 once all are at their goals.

    An agent sees the grid, the cells of all agents (its own first, the others in order) and its
    own goal. Any failure ends the episode for everyone.
    """

    metadata = METADATA

    def __init__(
        self,
        boards: Sequence[Board] | None = None,
        time_limit: int | None = TIME_LIMIT,
        render_mode: str | None = None,
    ) -> None:
        self.episode = Episode(boards, time_limit, render_mode)
        self.render_mode = render_mode
        count = self.episode.board.agents
        self.possible_agents = [f"agent_{i}" for i in range(count)]
        self.agents: list[str] = []
        self.np_random: np.random.Generator | None = None
        self.observation_spaces = {
            agent: self.episode.space(positions=(count,), goal=()) for agent in self.possible_agents
        }
        self.action_spaces = {a: spaces.Discrete(len(ACTIONS)) for a in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Dict:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self.action_spaces[agent]

    def observe(self) -> dict[str, Observation]:
        """What every agent sees."""
        positions, goals = self.episode.positions(), self.episode.goals()
        order = np.arange(len(positions))
        return {
            agent: {
                "grid": self.episode.grid(),
                "positions": positions[np.argsort(order != i, kind="stable")],
                "goal": goals[i],
            }
            for i, agent in enumerate(self.possible_agents)
        }

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Begin on a board chosen by `seed`, or by the running generator without one."""
        if self.np_random is None or seed is not None:
            self.np_random, _ = seeding.np_random(seed)
        self.episode.begin(self.np_random)
        self.agents = list(self.possible_agents)
        return self.observe(), {agent: self.episode.info() for agent in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Move all agents at once."""
        agents = self.possible_agents
        if missing := [agent for agent in agents if agent not in actions]:
            raise UserError(f"no action for {', '.join(missing)}; all agents move at once")
        reward, terminated, truncated = self.episode.step([actions[agent] for agent in agents])
        self.agents = [] if terminated or truncated else list(agents)
        return (
            self.observe(),
            dict.fromkeys(agents, reward),
            dict.fromkeys(agents, terminated),
            dict.fromkeys(agents, truncated),
            {agent: self.episode.info() for agent in agents},
        )

    def state(self) -> NDArray[np.int8]:
        """The grid, the same for all agents."""
        return self.episode.grid()

    def render(self) -> str | None:
        return self.episode.render()


class LakeEnv(gymnasium.Env[Observation, NDArray[np.int64]]):
    """One controller moves all agents; reward 1 once all are at their goals.

    It sees the grid and the cells and goals of all agents. Any failure ends the episode.
    """

    metadata = METADATA

    def __init__(
        self,
        boards: Sequence[Board] | None = None,
        time_limit: int | None = TIME_LIMIT,
        render_mode: str | None = None,
    ) -> None:
        self.episode = Episode(boards, time_limit, render_mode)
        self.render_mode = render_mode
        count = self.episode.board.agents
        self.action_space = spaces.MultiDiscrete([len(ACTIONS)] * count)
        self.observation_space = self.episode.space(positions=(count,), goals=(count,))

    def observe(self) -> Observation:
        """What the controller sees."""
        episode = self.episode
        return {
            "grid": episode.grid(),
            "positions": episode.positions(),
            "goals": episode.goals(),
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin on a board chosen by `seed`, or by the running generator without one."""
        super().reset(seed=seed)
        self.episode.begin(self.np_random)
        return self.observe(), self.episode.info()

    def step(
        self, action: NDArray[np.int64]
    ) -> tuple[Observation, SupportsFloat, bool, bool, dict[str, Any]]:
        """Move all agents at once."""
        reward, terminated, truncated = self.episode.step(action)
        return self.observe(), reward, terminated, truncated, self.episode.info()

    def render(self) -> str | None:
        return self.episode.render()


def register() -> None:
    """Make `gymnasium.make("coevolve/Lake-v1")` work; a second call changes nothing."""
    if NAME not in gymnasium.registry:
        gymnasium.register(id=NAME, entry_point=f"{__name__}:LakeEnv")


register()
