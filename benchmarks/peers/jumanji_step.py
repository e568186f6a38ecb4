"""Joint steps per CPU second of jumanji's Connector, 8x8 with 4 agents, batch of 1024.

One joint step is one environment of the batch advanced by all its agents.  Three ways to run it:

auto_reset   `VmapWrapper(AutoResetWrapper(env))`, the documented way.  Under `vmap` the wrapper's
             `cond` becomes a select, so each step pays for a reset of every environment.
batch_reset  every rollout starts with one reset of the whole batch and lasts for the environment's
             time limit; the cheapest way that still plays whole episodes.  An environment that is
             done early is stepped on to the end, and those steps count.
no_reset     nothing is ever reset: an upper bound, mostly steps of finished episodes.

Choices that favour jumanji: a whole rollout is one `lax.scan` under `jit` with donated state, so
no step pays for Python; actions are drawn before the clock starts; instances come from the cheaper
of its generators (uniform, not the default random walk); compilation is not counted; only sums of
rewards and of episode ends leave the rollout, so XLA may drop whatever else a time step holds.
XLA is held to one thread on one core.
"""

import os
from collections.abc import Callable

from peer_clock import argument_parser, pin_to_one_core, print_report, rate

# Importing jumanji starts XLA, which reads its settings then and never again.
pin_to_one_core()
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax  # noqa: E402
from jumanji.environments.routing.connector.env import Connector  # noqa: E402
from jumanji.environments.routing.connector.generator import UniformRandomGenerator  # noqa: E402
from jumanji.environments.routing.connector.types import State  # noqa: E402
from jumanji.wrappers import AutoResetWrapper, VmapWrapper  # noqa: E402

GRID_SIZE, AGENTS, BATCH = 8, 4, 1024
ROLLOUT = 50  # Connector's default time limit

Carry = tuple[State, jax.Array, jax.Array]


def rollout_chunk(auto_reset: bool, batch_reset: bool) -> Callable[[], int]:
    """A chunk that plays one rollout of the whole batch and carries on where the last one ended."""
    connector = Connector(UniformRandomGenerator(GRID_SIZE, AGENTS), time_limit=ROLLOUT)
    env = VmapWrapper(AutoResetWrapper(connector) if auto_reset else connector)
    actions = jax.random.randint(jax.random.PRNGKey(1), (ROLLOUT, BATCH, AGENTS), 0, 5)

    def step(carry: Carry, action: jax.Array) -> tuple[Carry, None]:
        state, reward, ends = carry
        state, timestep = env.step(state, action)
        return (state, reward + timestep.reward.sum(), ends + timestep.last().sum()), None

    def rollout(carry: Carry, actions: jax.Array) -> Carry:
        if batch_reset:
            state, reward, ends = carry
            carry = env.reset(state.key)[0], reward, ends
        return jax.lax.scan(step, carry, actions)[0]

    compiled = jax.jit(rollout, donate_argnums=0)
    state, _ = jax.jit(env.reset)(jax.random.split(jax.random.PRNGKey(0), BATCH))
    carry = state, jax.numpy.float32(0), jax.numpy.int32(0)

    def chunk() -> int:
        nonlocal carry
        carry = compiled(carry, actions)
        carry[-1].block_until_ready()
        return ROLLOUT * BATCH

    return chunk


def main() -> None:
    """Measure every way and print the report."""
    seconds = argument_parser(__doc__).parse_args().seconds
    rates = {
        "auto_reset": rate(rollout_chunk(auto_reset=True, batch_reset=False), seconds),
        "batch_reset": rate(rollout_chunk(auto_reset=False, batch_reset=True), seconds),
        "no_reset": rate(rollout_chunk(auto_reset=False, batch_reset=False), seconds),
    }
    settings = {"grid": GRID_SIZE, "agents": AGENTS, "batch": BATCH, "jax": jax.__version__}
    print_report("jumanji", settings, rates)


if __name__ == "__main__":
    main()
