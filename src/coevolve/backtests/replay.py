"""The training of a version as columns, so that it can be rewarded and filtered anew.

Invariant: every column is what training saw, in its order: the same facts give the same rewards,
the same groups the same advantages, the same steps the same filters. Rows of other splits are left
out, wherever they lie.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import compute, parquet

from coevolve.core.rollout import StopReason
from coevolve.core.splits import Split
from coevolve.evaluation.shape import Facts, Shaped, coded, product, recorded
from coevolve.harness.code import is_code
from coevolve.harness.expression import Numbers, expression
from coevolve.harness.filters import Columns, Filter, Memory, codes_of, grouped, weights
from coevolve.harness.reward import SHORT, short_after
from coevolve.store.layout import parts_of, sound, sums_of
from coevolve.store.rollouts import SCHEMA

COLUMNS = (
    "step", "sample", "messages", "reward", "components", "valid", "optimal", "stop",
    "completion_tokens", "mean_logprob", "entropy", "failure", "details",
)  # fmt: skip
"""Of a file of rollouts: those that are needed here."""


class Stored(NamedTuple):
    """The rollouts of a training stage, in the order in which it drew them."""

    step: NDArray[np.int64]
    group: NDArray[np.int64]
    """0, 1, 2: rollouts that were compared with each other share one, and lie side by side."""
    facts: dict[str, Numbers]
    """Every name that a reward may use."""
    logprob: Numbers
    """Mean log-probability of the tokens, nan where it is unknown."""
    entropy: Numbers
    table: pyarrow.Table | None = None
    """All else of them, for rewards that are functions."""

    @property
    def n(self) -> int:
        return len(self.step)

    @property
    def groups(self) -> int:
        return int(self.group[-1]) + 1 if self.n else 0

    def rewards(self, text: str) -> Numbers:
        """What training would use under a reward."""
        if is_code(text):
            return self.coded(text).values
        found: Numbers = np.broadcast_to(expression(text).value(self.facts), (self.n,))
        return found

    def coded(self, source: str, backwards: bool = False) -> Shaped:
        """What a reward makes of them, one after another, or from the last to the first."""
        return self.asked(source, "reward", self.facts, backwards)

    def weighed(self, codes: list[str], rewards: Numbers, backwards: bool = False) -> Shaped:
        """What functions make of them that weigh rollouts, under rewards."""
        if not codes:
            return Shaped(np.ones(self.n))
        known = {**self.facts, **grouped(self.group, rewards, self.facts["valid"])}
        return product([self.asked(code, "weight", known, backwards) for code in codes])

    def asked(
        self, source: str, name: str, known: Mapping[str, Numbers], backwards: bool
    ) -> Shaped:
        places = range(self.n - 1, -1, -1) if backwards else range(self.n)
        found = coded(source, (self.facts_at(place, known) for place in places), name)
        return found._replace(values=found.values[::-1]) if backwards else found

    def facts_at(self, place: int, known: Mapping[str, Numbers]) -> Facts:
        """One rollout, as training gives it to a function."""
        assert self.table is not None
        row = self.table.slice(place, 1).to_pylist()[0]
        numbers = {name: float(column[place]) for name, column in known.items()}
        messages = [(one["role"], one["content"]) for one in row["messages"]]
        details = json.loads(row["details"] or "{}")
        components = dict(row["components"])
        return numbers | recorded(components, row["failure"], row["stop"], messages, details)

    def weights(self, filters: tuple[Filter, ...], rewards: Numbers) -> Numbers:
        """How much training would learn from each rollout, step by step."""
        weight, memory = self.weighed(codes_of(filters), rewards).values.copy(), Memory()
        for rows in rows_of(self.step):
            columns = Columns(
                self.group[rows],
                rewards[rows],
                self.facts["truncated"][rows] > 0,
                self.facts["tokens"][rows].astype(np.int64),
                self.facts["turns"][rows].astype(np.int64),
                weight[rows],
            )
            weight[rows], memory = weights(filters, columns, memory)
        return weight


def rows_of(step: NDArray[np.int64]) -> Iterator[slice]:
    """The rows of each step."""
    starts = np.flatnonzero(np.diff(step, prepend=-1))
    for start, end in zip(starts, np.append(starts, len(step))[1:], strict=True):
        yield slice(int(start), int(end))


def read_stored(folder: Path, version: int | None, components: Mapping[str, object]) -> Stored:
    """What a version of a run drew in training; files that cannot be read are left out."""
    parts = [part for part in parts_of(folder) if (part.version, part.source) == (version, "train")]
    files = [file for part in sound(folder, parts, sums_of(folder))[0] for file in part.files]
    own = compute.field("split") == str(Split.TRAIN)
    tables = [parquet.read_table(file, columns=list(COLUMNS), filters=own) for file in files]
    empty = SCHEMA.empty_table().select(COLUMNS)
    return columns_of(pyarrow.concat_tables([*tables, empty]).combine_chunks(), components)


def columns_of(table: pyarrow.Table, components: Mapping[str, object]) -> Stored:
    """A table of rollouts as columns of numbers."""
    known = {name: numbers(table[name]) for name in ("reward", "valid", "optimal")}
    facts = {name: named(table, name) for name in components} | known
    step, tokens = numbers(table["step"]).astype(np.int64), numbers(table["completion_tokens"])
    facts |= {
        "tokens": tokens,
        "short": short_in(step, tokens),
        "turns": turns_in(table),
        "truncated": numbers(compute.equal(table["stop"], str(StopReason.LENGTH))),
    }
    return Stored(
        step,
        np.cumsum(numbers(table["sample"]) == 0) - 1,
        facts,
        numbers(table["mean_logprob"]),
        numbers(table["entropy"]),
        table,
    )


def short_in(step: NDArray[np.int64], tokens: Numbers) -> Numbers:
    """The fact `short` as each step found it."""
    found, short = np.full(len(step), SHORT), SHORT
    for rows in rows_of(step):
        found[rows] = short
        short = short_after(short, tokens[rows])
    return found


def numbers(values: Any) -> Numbers:
    """Numbers or truths; nan for what is unknown."""
    found: Numbers = compute.cast(values, pyarrow.float64()).to_numpy(zero_copy_only=False)
    return found


def named(table: pyarrow.Table, name: str) -> Numbers:
    """A reward component; 0 where an outcome has none of that name, as in training."""
    found = np.zeros(len(table))
    done = 0
    for chunk in table["components"].chunks:
        rows = compute.list_parent_indices(chunk.cast(ENTRIES)).to_numpy() + done
        entries = chunk.keys.to_numpy(zero_copy_only=False) == name
        found[rows[entries]] = chunk.items.to_numpy(zero_copy_only=False)[entries]
        done += len(chunk)
    return found


ENTRIES = pyarrow.list_(
    pyarrow.struct(
        [
            pyarrow.field("key", pyarrow.string(), nullable=False),
            pyarrow.field("value", pyarrow.float64()),
        ]
    )
)
"""A map of components as the list that it is stored as."""


def turns_in(table: pyarrow.Table) -> Numbers:
    """How often the policy spoke."""
    messages = table["messages"].combine_chunks()
    rows = compute.list_parent_indices(messages).to_numpy()
    roles = compute.list_flatten(messages).field("role")
    spoken = rows[numbers(compute.equal(roles, "assistant")) > 0]
    return np.bincount(spoken, minlength=len(table)).astype(np.float64)
