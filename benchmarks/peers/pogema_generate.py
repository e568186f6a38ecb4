"""Instances per CPU second that POGEMA generates, 8x8 with 4 agents, a new seed for each.

An instance is a grid of random obstacles with a start and a reachable goal for every agent.  Three
ways to get one:

config_and_grid  `Grid(GridConfig(...))`, a fresh configuration for each seed.
grid             `Grid(config)` on one configuration whose seed is set each time.
functions        the two generator functions that `Grid` calls, without the state of a game that
                 it builds around them.  They also escape its cast to 32-bit obstacles, which makes
                 its own search for connected cells several times slower.

Choices that favour POGEMA: the smallest border it allows (observation radius 1), and obstacles
dense enough to leave its search less to visit but sparse enough that no attempt is rejected.
"""

from collections.abc import Callable
from itertools import count

from peer_clock import argument_parser, pin_to_one_core, print_report, rate
from pogema import GridConfig
from pogema.generator import generate_obstacles, generate_positions_and_targets_fast
from pogema.grid import Grid

GRID_SIZE, AGENTS, DENSITY = 8, 4, 0.2
CHUNK = 64


def make_config(seed: int) -> GridConfig:
    """The configuration of the instance with this seed."""
    return GridConfig(size=GRID_SIZE, num_agents=AGENTS, density=DENSITY, obs_radius=1, seed=seed)


def seeded_chunk(generate: Callable[[int], object]) -> Callable[[], int]:
    """A chunk that generates instances from seeds no earlier chunk has used."""
    seeds = count()

    def chunk() -> int:
        for _ in range(CHUNK):
            generate(next(seeds))
        return CHUNK

    return chunk


def main() -> None:
    """Measure every way and print the report."""
    seconds = argument_parser(__doc__).parse_args().seconds
    pin_to_one_core()
    config = make_config(0)

    def config_and_grid(seed: int) -> Grid:
        return Grid(make_config(seed))

    def grid(seed: int) -> Grid:
        config.seed = seed
        return Grid(config)

    def functions(seed: int) -> object:
        config.seed = seed
        return generate_positions_and_targets_fast(generate_obstacles(config), config)

    ways = (config_and_grid, grid, functions)
    rates = {generate.__name__: rate(seeded_chunk(generate), seconds) for generate in ways}
    settings = {"grid": GRID_SIZE, "agents": AGENTS, "density": DENSITY}
    print_report("pogema", settings, rates)


if __name__ == "__main__":
    main()
