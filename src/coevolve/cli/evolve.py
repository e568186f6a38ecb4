"""`coevolve evolve`: the same as `coevolve run`, with a tree as its default."""

from coevolve.cli.run import (
    AsJson,
    AtOnce,
    Cpus,
    Engineers,
    Explain,
    Gpus,
    Name,
    Output,
    Ray,
    Seed,
    Settings,
    Versions,
    Width,
    run,
)

PLAN = "tree"


def evolve(
    plan: Name = PLAN,
    output: Output = None,
    engineer: Engineers = None,
    versions: Versions = None,
    width: Width = None,
    seed: Seed = None,
    setting: Settings = None,
    at_once: AtOnce = 1,
    ray: Ray = "",
    cpus: Cpus = 2.0,
    gpus: Gpus = 0.0,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Grow a tree of versions: diagnose, change one factor of the harness, backtest it, train,
    judge, and learn from it.

    A version is kept if it is better than its parent beyond noise and no diagnostic says that it
    cheats; the tree ends with the untrained policy if no version is better than that. It is
    `coevolve run` with the plan `tree`, which is on the lake; tree-math and tree-code are others.
    """
    run(plan, output, engineer, versions, width, seed, setting, at_once, ray, cpus, gpus, explain,
        as_json)  # fmt: skip
