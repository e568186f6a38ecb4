"""Lineages made by hand, for tests of trainers and skills."""

from views import by_size, finished

from coevolve.core.errors import EvidenceError
from coevolve.domains.lake.domain import LakeDomain
from coevolve.engineers.trainer import Lineage
from coevolve.evidence.diagnostic import load_suite
from coevolve.evidence.health import Finding, Reading
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch, patched
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


def deaf(sql):
    raise EvidenceError("there is no evidence")


def lineage(readings=None, versions=None, parent=None, domain=None, n=1_000, **fields):
    """A lineage of the lake, with half of the tasks solved, unless told otherwise."""
    domain = domain or LakeDomain()
    all_versions = tuple(versions or (root(),))
    rounds = {
        one.number: finished(
            one.number,
            dev=by_size({3: 0.9, 8: 0.5}),
            train=by_size({3: 0.9, 8: 0.5}, groups=9),
            verdict="kept" if one.valid else "reverted",
        )
        for one in all_versions
    }
    given = {
        "domain": domain.name, "space": domain.space, "components": domain.components,
        "parent": parent or all_versions[0], "versions": all_versions,
        "findings": findings(readings or {}, n), "measured": rounds, "ask": deaf,
        "backtest": lambda patch: {"words": "nothing is stored"},
    }  # fmt: skip
    return Lineage(**{**given, **fields})
