"""Steps per CPU second of gymnasium's FrozenLake-v1, 8x8, one agent.

gymnasium has no multi-agent grid; FrozenLake is its plainest grid world, so these are rates of its
stepping interface rather than of a comparable game.  Three ways to run it:

wrapped      `gymnasium.make`, reset by the caller whenever an episode ends.
unwrapped    the bare environment inside it, reset the same way.
sync_vector  `SyncVectorEnv` of 16 made environments, which resets by itself; one step is one
             environment of the 16 advanced, and the calls it spends on resets count as steps.

Choices that favour gymnasium: no slipping, no passive environment checker, no copies of the vector
observations, and actions drawn before the clock starts.
"""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv
from peer_clock import argument_parser, pin_to_one_core, print_report, rate

GRID_SIZE, VECTOR = 8, 16
ACTIONS = 4096


def make() -> gymnasium.Env[Any, Any]:
    """One environment with the wrappers a user would have."""
    return gymnasium.make(
        "FrozenLake-v1", map_name="8x8", is_slippery=False, disable_env_checker=True
    )


def single_chunk(env: gymnasium.Env[Any, Any]) -> Callable[[], int]:
    """A chunk that plays all actions in one environment, episode after episode."""
    actions = np.random.default_rng(0).integers(0, 4, ACTIONS).tolist()
    env.reset(seed=0)

    def chunk() -> int:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return ACTIONS

    return chunk


def vector_chunk() -> Callable[[], int]:
    """A chunk that plays all actions in a vector of environments."""
    env = SyncVectorEnv([make] * VECTOR, copy=False)
    actions = np.random.default_rng(0).integers(0, 4, (ACTIONS // VECTOR, VECTOR))
    env.reset(seed=0)

    def chunk() -> int:
        for action in actions:
            env.step(action)
        return ACTIONS

    return chunk


def main() -> None:
    """Measure every way and print the report."""
    seconds = argument_parser(__doc__).parse_args().seconds
    pin_to_one_core()
    rates = {
        "wrapped": rate(single_chunk(make()), seconds),
        "unwrapped": rate(single_chunk(make().unwrapped), seconds),
        "sync_vector": rate(vector_chunk(), seconds),
    }
    print_report("gymnasium", {"grid": GRID_SIZE, "agents": 1, "vector": VECTOR}, rates)


if __name__ == "__main__":
    main()
