"""A run as tables, for other programs and notebooks. Gate and test tasks are in none of them."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coevolve.core.errors import CoevolveError
from coevolve.core.splits import Split
from coevolve.domains.change import version_words
from coevolve.domains.knobs import KnobSpace
from coevolve.domains.registry import get_domain

if TYPE_CHECKING:
    from coevolve.store.layout import Part
    from coevolve.store.lineage import Lineage, Node


class Source(NamedTuple):
    """Rollouts of one kind."""

    split: Split
    name: str
    blocks: Iterator[Any]
    """Arrow tables, one after another."""


def versions(lineage: "Lineage") -> list[dict[str, Any]]:
    """What each version is, and what became of it."""
    found, space = [], space_of(lineage)
    for node in lineage.nodes:
        version, gate = node.version, node.gate
        patch = version.patch
        row = {
            "version": version.number, "parent": version.parent, "generation": version.generation,
            "author": version.author, "control": version.control,
            "changed": version_words(version, lineage.harness(version.parent), space),
            "factor": patch.factor if patch else "",
            "value": json.dumps(patch.value) if patch else "",
            "verdict": version.verdict or "open", "words": gate.words if gate else "",
            "rollouts": node.spent.rollouts, "tokens": node.spent.tokens,
            "seconds": round(node.spent.seconds, 1),
        }  # fmt: skip
        if gate:
            row |= {f"gate_{metric}": rate for metric, rate in gate.scores.rates.items()}
            row |= {"n": gate.scores.n, "gain": gate.change.mean, "low": gate.change.low,
                    "high": gate.change.high}  # fmt: skip
        found.append(row)
    return found


def space_of(lineage: "Lineage") -> KnobSpace | None:
    """The knobs of a run's domain; None where that is not installed any more."""
    with suppress(CoevolveError):
        return get_domain(lineage.plan.domain).space
    return None


def glance(lineage: "Lineage") -> list[dict[str, str]]:
    """The versions as a person reads them."""
    space = space_of(lineage)

    def row(node: "Node") -> dict[str, str]:
        version, gate = node.version, node.gate
        before = lineage.harness(version.parent)
        return {
            "version": str(version.number),
            "parent": "untrained" if version.parent is None else str(version.parent),
            "by": version.author or "",
            "changed": version_words(version, before, space),
            **{
                f"{name} on the gate, %": f"{100 * gate.scores.rates[name]:.1f}" if gate else ""
                for name in ("valid", "optimal")
            },
            "n": str(gate.scores.n) if gate else "",
            "change": gate.change.told(lineage.plan.objective.metric) if gate else "",
            "verdict": version.verdict or "not judged yet",
        }

    return [row(node) for node in lineage.nodes]


def rollouts(folder: Path, columns: Sequence[str] | None = None) -> Iterator[Source]:
    """Rollouts of the visible splits, with the number of their version."""
    from coevolve.store.layout import parts_of

    for part in parts_of(folder.resolve()):
        whose = "first-policy" if part.version < 0 else f"version-{part.version:02d}"
        yield Source(part.split, f"{whose}-{part.source}", blocks_of(part, columns))


def blocks_of(part: "Part", columns: Sequence[str] | None) -> Iterator[Any]:
    from coevolve.store.rollouts import blocks

    for file in part.files:
        for block in blocks(file, columns):
            yield plain(block, part.version)


def plain(table: Any, version: int) -> Any:
    """Rollouts with their version, and with maps as JSON text: data sets know no maps."""
    import pyarrow

    for place, field in enumerate(table.schema):
        if pyarrow.types.is_map(field.type):
            texts = [json.dumps(dict(value)) for value in table[field.name].to_pylist()]
            table = table.set_column(place, field.name, pyarrow.array(texts, pyarrow.string()))
    return table.append_column("version", pyarrow.array([version] * len(table), pyarrow.int32()))
