"""OpenEnv servers for tests, in one process: math as we serve it, and two that know nothing of us.

Run as a script, it prints their addresses as JSON and serves until it is killed.
"""

import json
import random
import threading

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

from coevolve.core.server import listen
from coevolve.domains.openenv.server import make_app, serve
from coevolve.domains.registry import get_domain


class Reply(Action):
    text: str


class Pair(Action):
    first: int
    second: int


class Question(Observation):
    text: str = ""
    hint: str = ""


class Sums(Environment):
    """Two sums after one another, half of the reward for each; `fault` breaks it in some way."""

    def __init__(self):
        super().__init__()
        self.known, self.fault = State(), ""

    def reset(self, seed=None, episode_id=None, fault="", **_):
        rng = random.Random(None if fault == "seedless" else seed)
        self.pair, self.turn, self.fault = (rng.randint(100, 999), rng.randint(100, 999)), 0, fault
        self.known = State(episode_id=episode_id)
        told = f"twice that is {2 * sum(self.pair)}" if fault == "leak" else ""
        return Question(text=f"Add {self.pair[0]} and {self.pair[1]}.", hint=told)

    def right(self, action):
        wanted = sum(self.pair) * (self.turn + 1)
        return action.text == str(wanted)

    def step(self, action, timeout_s=None, **_):
        good = self.right(action)
        reward = 0.5 * (good or self.fault == "gift")
        if self.fault == "moody":
            reward *= random.random()
        self.turn += 1
        self.known.step_count += 1
        over = self.turn == 2 or not (good or self.fault == "gift")
        return Question(text="" if over else "And twice that?", reward=reward, done=over)

    @property
    def state(self):
        return self.known

    def get_metadata(self):
        return EnvironmentMetadata(name="sums", description="Two sums.")


class Pairs(Sums):
    def right(self, action):
        return action.first + action.second == sum(self.pair) * (self.turn + 1)

    def get_metadata(self):
        return EnvironmentMetadata(name="pairs", description="Two numbers that make a sum.")


def main() -> None:
    apps = {
        "math": make_app(get_domain("math")),
        "sums": create_fastapi_app(Sums, Reply, Question),
        "pairs": create_fastapi_app(Pairs, Pair, Question),
    }
    sockets = {name: listen("127.0.0.1", 0) for name in apps}
    print(
        json.dumps({n: f"http://127.0.0.1:{s.getsockname()[1]}" for n, s in sockets.items()}),
        flush=True,
    )
    threads = [threading.Thread(target=serve, args=(app, sockets[n])) for n, app in apps.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
