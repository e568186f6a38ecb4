"""What a pocket policy scores: on tasks of the dev split, as many of each number of agents."""

from pathlib import Path
from typing import Any

from coevolve.core.splits import Split
from coevolve.domains.lake.domain import LakeDomain
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.tally import tally
from coevolve.policies.base import Sampling
from coevolve.policies.local import LocalPolicy

AGENTS = (2, 3, 4, 5)
MOST_TOKENS = 192


def measure(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Valid and optimal rates with n and interval, greedy and drawn at temperature 1."""
    domain = LakeDomain()
    knobs = domain.space.parse({f"agents{agents}.share": 0.25 for agents in AGENTS})
    tasks = list(domain.generate(knobs, count, seed, Split.DEV))
    policy = LocalPolicy(str(folder))
    found: dict[str, Any] = {"split": "dev", "tasks": count, "seed": seed}
    for name, temperature in (("greedy", 0.0), ("drawn", 1.0)):
        sampling = Sampling(temperature=temperature, max_tokens=MOST_TOKENS, seed=seed)
        counted = tally(attempts(domain, policy, tasks, sampling, style="cells", batch=256))
        whole = counted.by([])[0]
        found[name] = {
            "valid": whole.valid.as_json(),
            "optimal": whole.optimal.as_json(),
            "valid_by_agents": {
                str(group.labels["agents"]): group.valid.as_json()
                for group in counted.by(["agents"])
            },
        }
    return found
