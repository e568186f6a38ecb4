"""Joint steps per CPU second of POGEMA, 8x8 with 4 agents and random actions.

One joint step advances all agents of one environment.  Agents stay on their goals, as in classical
multi-agent path finding.  Two ways to run it:

wrapped    `pogema_v0`, the documented way, with its time limit and metrics; the caller starts a
           fresh random instance whenever an episode ends (64 steps at the latest).
unwrapped  the bare environment inside it, which has no time limit, so that only the steps
           themselves are left.

Choices that favour POGEMA: the cheapest of its collision systems (`priority`, its default) and the
smallest observation it allows (radius 1, default 5); actions are drawn before the clock starts.
"""

import random
from collections.abc import Callable
from typing import Protocol

from peer_clock import argument_parser, pin_to_one_core, print_report, rate
from pogema import GridConfig, pogema_v0

GRID_SIZE, AGENTS, DENSITY = 8, 4, 0.2
ACTIONS = 2048


class PogemaEnv(Protocol):
    """What is used of POGEMA's environments: gymnasium's interface with a list entry per agent."""

    @property
    def unwrapped(self) -> "PogemaEnv": ...

    def reset(self) -> object: ...

    def step(
        self, action: list[int], /
    ) -> tuple[object, list[float], list[bool], list[bool], object]: ...


def make() -> PogemaEnv:
    """One environment with the wrappers a user would have."""
    env: PogemaEnv = pogema_v0(
        GridConfig(
            size=GRID_SIZE,
            num_agents=AGENTS,
            density=DENSITY,
            obs_radius=1,
            on_target="nothing",
            collision_system="priority",
        )
    )
    return env


def step_chunk(env: PogemaEnv) -> Callable[[], int]:
    """A chunk that plays all joint actions, episode after episode."""
    draw = random.Random(0)
    actions = [[draw.randrange(5) for _ in range(AGENTS)] for _ in range(ACTIONS)]
    env.reset()

    def chunk() -> int:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if all(terminated) or all(truncated):
                env.reset()
        return ACTIONS

    return chunk


def main() -> None:
    """Measure every way and print the report."""
    seconds = argument_parser(__doc__).parse_args().seconds
    pin_to_one_core()
    rates = {
        "wrapped": rate(step_chunk(make()), seconds),
        "unwrapped": rate(step_chunk(make().unwrapped), seconds),
    }
    settings = {"grid": GRID_SIZE, "agents": AGENTS, "density": DENSITY}
    print_report("pogema", settings, rates)


if __name__ == "__main__":
    main()
