"""The lineage: which version grew from which, what each changed, and what was decided about it.

Rounds are a lineage without branches. Invariant: what is shown of a version is what its phases
recorded; a phase that is not there leaves its part of the page out.
"""

import json
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.dashboard.decisions import verdict_of
from coevolve.dashboard.facts import Facts
from coevolve.dashboard.headline import best_words
from coevolve.dashboard.levels import knobs_by_round
from coevolve.dashboard.proposals import written
from coevolve.dashboard.record import Record
from coevolve.dashboard.web.places import Place
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.dashboard.web.telling import Line, as_text, diff
from coevolve.dashboard.web.tree import Node, layout
from coevolve.evidence.lineage import versions_of
from coevolve.ledger.payload import flat

SIZES = 400
"""Characters of a number's name or value that is shown."""


def show(site: Site, address: Address) -> Page:
    """The tree with its table, or one version."""
    place = address.run
    assert place is not None
    record = site.record(place)
    nodes = site.of(place, "nodes", lambda: nodes_of(record))
    if not address.rest:
        values = {
            "nodes": nodes,
            "best": written(best_words(record, [node.version for node in nodes])),
            "tree": layout(nodes),
            "problems": record.problems,
        }
        return Page("web/lineage.html", f"{place.name}: lineage", values)
    found = [node for node in nodes if str(node.version) == address.rest]
    if not found:
        raise Missing(f"run {place.name} has no version {address.rest:.40}")
    values = site.of(place, ("version", found[0].version), lambda: version(site, place, found[0]))
    return Page("web/version.html", f"{place.name}: version {address.rest}", values)


def nodes_of(record: Record) -> list[Node]:
    """Every version of which anything is recorded."""
    try:
        rows = {row["version"]: row for row in versions_of(record.folder)}
    except (CoevolveError, KeyError, TypeError, OSError) as error:
        record.trouble(f"the versions cannot be read from the ledger: {error}")
        rows = {}
    numbers = {number for number, _ in record.phases if number is not None} | rows.keys()
    return [node_of(record, number, rows.get(number, {})) for number in sorted(numbers)]


def node_of(record: Record, number: int, row: dict[str, Any]) -> Node:
    patched, gate = record.payload(number, "patch"), record.payload(number, "gate")
    verdict = verdict_of(gate)
    tested = record.payload(number, "backtest") if "patch" in phases_of(record, number) else {}
    word = verdict.word or row.get("verdict") or patched.get("verdict") or ""
    if not word and tested.get("passed") is False:
        word = "rejected"
    patch = patched.get("patch") or {}
    parent = patched["parent"] if "parent" in patched else row.get("parent")
    return Node(
        version=number,
        parent=parent,
        merged=tuple(patched.get("merged") or ()),
        verdict=str(word),
        reason=written(verdict.words or tested.get("words") or row.get("reason") or ""),
        author=written(patched.get("author") or patch.get("author") or row.get("engineer") or ""),
        factor=written(
            patch.get("factor", "") if patch else "knobs" if number and not patched else ""
        ),
        hypothesis=written(patch.get("hypothesis", "")),
        change=verdict.change,
        phases=tuple(phases_of(record, number)),
    )


def phases_of(record: Record, number: int) -> list[str]:
    return [str(phase) for at, phase in record.phases if at == number]


def version(site: Site, place: Place, node: Node) -> dict[str, Any]:
    """Everything about one version."""
    record, facts = site.record(place), site.facts(place)
    number = node.version
    gate = record.payload(number, "gate")
    tree = "patch" in node.phases
    patched = record.payload(number, "patch")
    tested = record.payload(number if tree else number - 1, "backtest")
    alarms = gate.get("blocking") or gate.get("alarms") or gate.get("blocking_alarms") or ()
    return {
        "node": node,
        "problems": facts.problems,
        "changed": harness_diff(record, node) if tree else knobs_diff(record, node),
        "patch": {
            name: written(value)
            for name, value in (patched.get("patch") or {}).items()
            if name not in ("value", "hypothesis") and value not in (None, "")
        },
        "skill": written(spelled(patched.get("skill"))),
        "digest": written(patched.get("digest", "")),
        "explanation": explanation(facts, node),
        "backtest": {
            "words": written(tested.get("words", "")),
            "chosen": written(tested.get("chosen", "")),
            "passed": tested.get("passed"),
            "numbers": numbers_of(tested, ("prediction", "measures")),
            "choice": next((r.choice for r in facts.rounds if r.number == number - 1), None)
            if not tree
            else None,
            "of": number if tree else number - 1,
        }
        if tested
        else None,
        "gate": verdict_of(gate) if gate else None,
        "gate_numbers": numbers_of(gate, tuple(k for k in gate if k not in SHOWN)),
        "alarms": [written(spelled(alarm)) for alarm in alarms],
        "rates": next(((r.dev, r.gate) for r in facts.rounds if r.number == number), (None, None)),
        "trained": next((r.trained for r in facts.rounds if r.number == number), None),
        "events": [
            (phase, record.phases[number, phase].number)
            for phase in node.phases
            if (number, phase) in record.phases
        ],
    }


SHOWN = ("keep", "verdict", "words", "change", "broken", "spent", "alarms", "blocking", "best",
         "blocking_alarms", "valid", "n")  # fmt: skip


def harness_diff(record: Record, node: Node) -> list[tuple[str, Any]]:
    """The factors in which the harness differs from its parent's, each as a diff."""
    own = record.payload(node.version, "patch").get("harness") or {}
    before = (
        record.payload(node.parent, "patch").get("harness") or {} if node.parent is not None else {}
    )
    if not before:
        return []
    names = dict.fromkeys([*leaves(before), *leaves(own)])
    old, new = leaves(before), leaves(own)
    return [
        (written(name), diff(as_text(old.get(name, "")), as_text(new.get(name, ""))))
        for name in names
        if old.get(name) != new.get(name)
    ]


def leaves(harness: dict[str, Any]) -> dict[str, Any]:
    """Settings by their dotted names; knobs stay together, as they are one factor."""
    inner = {name: value for name, value in harness.items() if name != "knobs"}
    return {"knobs": harness.get("knobs", {}), **flat(inner)}


def knobs_diff(record: Record, node: Node) -> list[tuple[str, Any]]:
    """The knobs of a round beside those of the version that it grew from."""
    knobs = knobs_by_round(record)
    if node.version >= len(knobs) or node.version == 0:
        return []
    own, before = knobs[node.version], knobs[node.parent if node.parent is not None else 0]
    used = {knob.name for one in (own, before) for knob in one.in_use()}
    changed = {name: pair for name, pair in own.difference(before).items() if name in used}
    lines = [
        Line(kind, f"{sign} {name} = {value:.6g}")
        for name, pair in changed.items()
        for kind, sign, value in zip(("removed", "added"), "-+", pair, strict=True)
    ]
    return [("knobs in use", tuple(lines))] if lines else []


def explanation(facts: Facts, node: Node) -> str:
    """In rounds: what the engineer said whose knobs a version was trained on."""
    for one in facts.rounds:
        if one.number == node.version - 1:
            for attempt in reversed(one.attempts):
                for said in attempt.said:
                    if said.engineer == node.author and said.explanation:
                        return said.explanation
    return ""


def numbers_of(payload: dict[str, Any], names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Members of a payload as lines of a table, whatever they are; an estimate is one line."""
    chosen = {name: payload[name] for name in names if payload.get(name) not in (None, "", [], {})}
    chosen |= chosen.pop("measures", {})
    lines = []
    for name, value in flat(estimates(chosen)).items():
        text = f"{value:.4g}" if isinstance(value, float) else spelled(value)
        spaced = name.replace("_", " ").replace(".", ", ")
        lines.append((written(spaced)[:SIZES], written(text)[:SIZES]))
    return lines[:80]


def estimates(value: Any) -> Any:
    """The same, every measured value in words, with its n and its interval where it has one."""
    if not isinstance(value, dict):
        return value
    if not value.keys() >= {"value", "n"}:
        return {name: estimates(member) for name, member in value.items()}
    low, high = value.get("low"), value.get("high")
    within = "" if low is None or high is None else f" [{low:.4g}, {high:.4g}]"
    return f"{value['value']:.4g}{within} n {value['n']:,}"


def spelled(value: Any) -> str:
    """A value in words: an alarm by its own."""
    if isinstance(value, dict) and "words" in value:
        return str(value["words"])
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
