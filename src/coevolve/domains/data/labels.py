"""Labels of rows, from columns or made, and the knobs that are their shares."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.errors import UserError
from coevolve.core.task import Label, Task
from coevolve.domains.data.judges import field
from coevolve.domains.data.rows import Row
from coevolve.domains.knobs import Knob, KnobSpace

MOST_VALUES = 12
"""Of a label; rarer ones are called `other`."""
OTHER, NONE = "other", "none"
LENGTHS = ("short", "middle", "long")
RATES = {"never": 0.0, "seldom": 0.35, "often": 0.65, "mostly": 1.0}
"""Labels of how often a policy solved a task: up to so much of its attempts."""
MOST_STEPS = 8


def knob_name(label: str, value: Label) -> str:
    word = "".join(one if one.isalnum() else "_" for one in str(value).lower())
    return f"{label}_{word}.share"


def space_of(rows: Sequence[Mapping[str, Label]]) -> KnobSpace:
    """A share for each value of each label, as in the data; rows that were never asked have no
    rate, and come whatever rates are wanted."""
    knobs = []
    for label in rows[0]:
        counted = Counter(row[label] for row in rows)
        if label == "rate" and counted.keys() <= {*RATES, OTHER}:
            del counted[OTHER]
        values = sorted(counted, key=order_of(label, counted))
        if len(values) < 2:
            continue
        middle, group, n = (len(values) - 1) / 2, plural(label), counted.total()
        for place, value in enumerate(values):
            ordered = label in ("length", "steps", "rate")
            way = (place > middle) - (place < middle) if ordered else 0
            knobs.append(
                Knob(
                    knob_name(label, value), 0, 1, counted[value] / n, "share of tasks",
                    f"share of tasks whose {label} is {value}", group=group,
                    label=(label, value), harder=-way if label == "rate" else way,
                )
            )  # fmt: skip
    return KnobSpace(tuple(knobs))


def plural(label: str) -> str:
    if label.endswith("y") and label[-2:-1] not in "aeiou":
        return f"{label[:-1]}ies"
    return label if label.endswith("s") else f"{label}s"


def order_of(label: str, values: Collection[Label]) -> Callable[[Label], Any]:
    """How the values of a label are ordered; a column may have the name of one that is made."""
    ordered = {"length": list(LENGTHS), "rate": list(RATES)}.get(label, [])
    if set(values) <= set(ordered):
        return lambda value: ordered.index(str(value))
    return lambda value: (isinstance(value, str), value)


def labels_of(
    rows: Sequence[tuple[str, Row]],
    tasks: Sequence[Task],
    questions: Sequence[str],
    chosen: Mapping[str, str],
) -> list[dict[str, Label]]:
    """The labels of every row: columns that are named, or else how long it is, how many steps its
    solution has and which file it is from, where these tell anything."""
    found: list[dict[str, Label]] = [{} for _ in rows]

    def put(name: str, values: Sequence[Label]) -> None:
        usual = dict(Counter(values).most_common(MOST_VALUES))
        if 2 * sum(usual.values()) < len(values):
            raise UserError(
                f"labels: {name} has {len(set(values)):,} values, most of them rare; name a column "
                f"with up to {MOST_VALUES}"
            )
        if len(usual) > 1:
            for own, value in zip(found, values, strict=True):
                own[name] = value if value in usual else OTHER

    for name in filter(None, chosen.get("labels", "").split(",")):
        if not any(row.get(name) is not None for _, row in rows):
            field(rows[0][1], (), name, "label")
        put(name, [NONE if row.get(name) is None else str(row[name]) for _, row in rows])
    if "rates" in chosen:
        put("rate", rates(chosen["rates"], questions))
    if not any(found):
        cuts = sorted(map(len, questions))
        ends = [cuts[len(cuts) * part // 3] for part in (1, 2)]
        put("length", [LENGTHS[sum(len(text) > end for end in ends)] for text in questions])
        solutions = [str(task.data.get("solution") or "") for task in tasks]
        put("steps", [min(text.count("<<"), MOST_STEPS) for text in solutions])
        put("file", [Path(where.partition(",")[0]).name.partition(".")[0] for where, _ in rows])
    if not any(found):
        found = [{"length": LENGTHS[0]} for _ in rows]  # all alike
    return found


def rates(folder: str, questions: Sequence[str]) -> list[Label]:
    """How often each task was solved in an evaluation that `coevolve evaluate -o` has kept."""
    from pyarrow import parquet

    files = sorted(Path(folder).rglob("*.parquet"))
    if not files:
        raise UserError(f"rates = {folder}: no evaluation is there; make one with `coevolve "
                        "evaluate -d data:FILE -p POLICY -n 8 -o FOLDER`")  # fmt: skip
    tried: dict[str, list[bool]] = {}
    for file in files:
        for row in parquet.read_table(file, columns=["messages", "valid"]).to_pylist():
            asked = [one["content"] for one in row["messages"] if one["role"] == "user"]
            tried.setdefault(asked[0] if asked else "", []).append(bool(row["valid"]))
    if not any(question in tried for question in questions):
        raise UserError(f"rates = {folder}: none of these rows was asked there")
    found: list[Label] = []
    for question in questions:
        own = tried.get(question, [])
        rate = sum(own) / len(own) if own else -1.0
        found.append(next((name for name, end in RATES.items() if 0 <= rate <= end), OTHER))
    return found
