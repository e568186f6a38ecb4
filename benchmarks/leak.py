"""The leak: what a policy that reads the history scores with a history and without one.

The same tasks twice, once with the mending commit left in the repository. The last table is one
query over the rollouts: whoever did not know of the leak would see it there.
"""

import argparse
import tempfile
from pathlib import Path

from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.statistics import wilson
from coevolve.policies.base import Sampling
from coevolve.policies.script import ScriptedPolicy
from coevolve.store.rollouts import write
from coevolve.store.shards import read

POLICIES = ("leak-reader", "lazy")
QUERY = """
SELECT policy, (details->>'history_read')::BOOLEAN AS history_read, count(*) AS n,
       round(avg(valid::INTEGER), 3) AS valid
FROM rollouts GROUP BY ALL ORDER BY ALL
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=None, help="where the rollouts are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(options.tasks, options.seed, options.output or Path(folder))


def measure(count: int, seed: int, output: Path) -> None:
    domain = get_domain("swe")
    print(f"{'policy':12}  {'history':7}  {'n':>4}  valid with its 95 % interval")
    for history in (0.0, 1.0):
        knobs = domain.space.parse({"history.share": history})
        tasks = list(domain.generate(knobs, count, seed, Split.DEV))
        for name in POLICIES:
            found = list(attempts(domain, ScriptedPolicy(domain, name), tasks, Sampling()))
            write(found, output / f"{name}-{history:g}.parquet")
            rate = wilson(sum(rollout.outcome.valid for rollout in found), len(found))
            kept = "left in" if history else "removed"
            shown = f"{rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}]"
            print(f"{name:12}  {kept:7}  {rate.n:4}  {shown}", flush=True)
    import duckdb

    rollouts = read(output)  # noqa: F841, read by the query under its name
    print(QUERY.strip())
    print(duckdb.sql(QUERY))


if __name__ == "__main__":
    main()
