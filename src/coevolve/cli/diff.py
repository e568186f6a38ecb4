"""`coevolve diff`: what sets two runs apart."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from coevolve.cli.choice import lineage_in
from coevolve.cli.run import AsJson

NAMES = ("name", "folder")


def diff(
    one: Annotated[Path, typer.Argument(help="Folder of a run.")],
    other: Annotated[Path, typer.Argument(help="Folder of another.")],
    as_json: AsJson = False,
) -> None:
    """What two runs were planned with, ended with and came to, as far as it differs.

    Settings of the plan, the harness of the version that each would end with, and its rates on the
    gate. Rates of runs with other targets or seeds are of other tasks: compare those with `coevolve
    compare`.
    """
    from rich.table import Table
    from rich.text import Text

    from coevolve.cli.show import out, visible

    sides = [facts_of(folder) for folder in (one, other)]
    rows = [
        (part, name, sides[0][part].get(name), sides[1][part].get(name))
        for part in sides[0]
        for name in dict.fromkeys([*sides[0][part], *sides[1][part]])
        if sides[0][part].get(name) != sides[1][part].get(name)
    ]
    if as_json:
        keys = ("part", "name", "one", "other")
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows]))
        return
    if not rows:
        out.print("no difference: the same plan, harness and rates")
        return
    table = Table("", "setting", str(one), str(other), header_style="bold")
    for part, name, before, after in rows:
        table.add_row(part, name, *(Text(visible(shown(value))) for value in (before, after)))
    out.print(table)


def facts_of(folder: Path) -> dict[str, dict[str, Any]]:
    """A run in numbers and words, by part."""
    from coevolve.harness.patch import flat as harness_facts
    from coevolve.harness.plan import flat as plan_facts

    lineage = lineage_in(folder)
    plan = spread(plan_facts(lineage.plan.model_dump(mode="json")))
    best = lineage.best.version if lineage.best else None
    node = None if best is None else lineage.nodes[best]
    gate = node.gate.scores if node and node.gate else None
    results: dict[str, Any] = {
        "versions": len(lineage.nodes),
        "kept": sum(version.valid for version in lineage.versions),
        "ends with version": best,
    }
    for name, scores in (("first policy", lineage.base), ("last", gate)):
        for metric, rate in (scores.rates if scores else {}).items():
            results[f"{name}, {metric}"] = round(rate, 4)
    return {
        "plan": {name: value for name, value in plan.items() if name not in NAMES},
        "harness": spread(harness_facts(lineage.harness(best))),
        "gate": results,
    }


def spread(values: dict[str, Any]) -> dict[str, Any]:
    """Tables of knobs, one by one."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= {f"{name}.{key}": one for key, one in value.items()}
        else:
            found[name] = value
    return found


def shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)
