"""Views made by hand, for tests of engineers."""

from coevolve.domains.lake.knobs import SPACE
from coevolve.engineers.base import Past, View
from coevolve.store.cells import Case, Cell

TRAINING = {"round": 2, "rounds": 3, "steps": 60, "recipe": {"learning_rate": 1e-5}}


def cell(labels, valid, n, groups=0, dead=0, spread=0.0, failures=None):
    """A cell in which all that fails is a hole, unless told otherwise."""
    failed = failures if failures is not None else {"hole": n - valid} if n > valid else {}
    return Cell(
        labels=labels, n=n, valid=valid, optimal=valid // 2, reward=float(valid),
        failures=failed, groups=groups, dead=dead, spread=spread,
    )  # fmt: skip


def by_size(rates, n=60, groups=0, dead=0):
    """Cells of two agents by size, from the success rate of each."""
    return tuple(
        cell({"size": size, "agents": 2}, round(rate * n), n, groups, dead)
        for size, rate in rates.items()
    )


def case(number, failure="hole", **labels):
    return Case(
        task_id=f"task-{number}", labels=labels, task="..O\n...", answer="RRD",
        failure=failure, details={"agent": 1},
    )  # fmt: skip


def finished(number=0, knobs=None, **fields):
    return Past(number=number, knobs=dict(knobs or SPACE.defaults()), **{"dev": (), **fields})


def view(*history, knobs=None, **fields):
    incumbent = knobs or SPACE.defaults()
    rounds = history or (finished(),)
    return View(SPACE, incumbent, tuple(rounds), **{"training": TRAINING, **fields})


def three_sizes(**knobs):
    """Sizes 3, 4 and 5 with equal shares."""
    shares = {f"size{size}.data_ratio": 1 / 3 for size in (3, 4, 5)}
    return SPACE.parse({**shares, **knobs})
