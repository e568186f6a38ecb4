"""Lineages made by hand, as engineers see them, for tests of engineers and skills."""

from types import SimpleNamespace

from views import TRAINING, by_size, finished

from coevolve.diagnostics.suite import load_suite
from coevolve.domains.lake.domain import LakeDomain
from coevolve.engineers.base import View
from coevolve.engineers.view import line
from coevolve.harness.diagnostic import Finding, Reading
from coevolve.harness.harness import Harness
from coevolve.harness.patch import FACTORS, Patch, patched
from coevolve.harness.version import Version

SUITE = load_suite().diagnostics


def patch(factor="recipe.temperature", value=1.2, **fields):
    return Patch(factor=factor, value=value, hypothesis="if so, then better", **fields)


def root(**fields):
    return Version(number=0, parent=None, patch=None, harness=Harness(**fields), verdict="root")


def child(number, parent, change, verdict):
    """A version that grew from another one by a patch."""
    return Version(
        number=number, parent=parent.number, patch=change,
        harness=patched(parent.harness, change), verdict=verdict,
    )  # fmt: skip


def findings(readings, n=1_000):
    """Readings of the built-in suite by name: a value for version 0, or values by version."""
    found = []
    for name, values in readings.items():
        diagnostic = SUITE[name]
        by_version = values if isinstance(values, dict) else {0: values}
        found.append(
            Finding(
                diagnostic=diagnostic,
                readings=tuple(
                    Reading(version=v, value=value, n=n, level=diagnostic.level(value, n))
                    for v, value in by_version.items()
                ),
            )
        )
    return tuple(found)


def line_of(versions, parent):
    """The numbers of the versions that a run shows as the way to a parent."""
    return line(SimpleNamespace(versions=versions), parent.number)


def lineage(readings=None, versions=None, parent=None, domain=None, n=1_000, **fields):
    """A lineage of the lake, with half of the tasks solved, unless told otherwise."""
    domain = domain or LakeDomain()
    all_versions = tuple(versions or (root(),))
    front = parent or all_versions[0]
    measured = {
        one.number: finished(
            one.number,
            knobs=domain.space.project(one.harness.knobs),
            dev=by_size({3: 0.9, 8: 0.5}),
            train=by_size({3: 0.9, 8: 0.5}, groups=9),
            verdict="kept" if one.valid else "reverted",
        )
        for one in all_versions
    }
    given = {
        "space": domain.space, "incumbent": domain.space.project(front.harness.knobs),
        "history": tuple(measured[number] for number in line_of(all_versions, front)),
        "training": TRAINING, "domain": domain.name, "components": domain.components,
        "parent": front, "versions": all_versions, "measured": measured,
        "findings": findings(readings or {}, n), "factors": tuple(FACTORS),
        "backtest": lambda patch: {"words": "nothing is stored"},
    }  # fmt: skip
    return View(**{**given, **fields})
