"""Knobs: the typed numbers that configure a domain's generator.

Everything is a number with a range and a unit, so that one representation serves people (TOML),
engineers (local edits), language models (`describe`) and statistics (each knob names what it
moves). A choice among kinds is a group of shares that sum to one.

Invariant: a `Knobs` value is always valid. `parse` refuses what is not, `project` mends it.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeGuard

from coevolve.core.errors import KnobError
from coevolve.core.names import did_you_mean
from coevolve.core.seeds import derive
from coevolve.core.task import Label

MOST_NAMED = 24
"""Names of knobs in an error."""


@dataclass(frozen=True)
class Knob:
    """One number. `moves` names the statistic of generated tasks that it raises when raised."""

    name: str
    low: float
    high: float
    default: float
    unit: str
    moves: str
    """What the knob means, as the statistic of the tasks that follows it."""
    integer: bool = False
    group: str | None = None
    """Members of a group are shares that sum to one."""
    label: tuple[str, Label] | None = None
    """For a share: the bucket label, and its value, that its tasks carry."""
    harder: int = 0
    """1 if raising it makes tasks harder, -1 if easier, 0 if neither is known."""
    shown: bool = False
    """Whether tasks show its value: the statistic that it moves is about the same number."""

    @property
    def held(self) -> bool:
        """Whether it can only have one value."""
        return self.low == self.high

    @property
    def prefix(self) -> str:
        """The part of its name before the dot: what it hangs on."""
        return self.name.partition(".")[0]

    @property
    def suffix(self) -> str:
        """The part of its name after the dot: what kind of knob it is."""
        return self.name.rpartition(".")[2]


def shares(
    label: str,
    defaults: Mapping[str, float],
    meaning: str,
    suffix: str = "",
    harder: Mapping[str, int] | None = None,
) -> list[Knob]:
    """A group of shares, one for each value of a label; `meaning` says which tasks these are."""
    return [
        Knob(
            f"{value}{suffix}.share", 0, 1, share, "share of tasks",
            f"share of tasks {meaning.format(value)}", group=f"{label}s", label=(label, value),
            harder=(harder or {}).get(value, 0),
        )
        for value, share in defaults.items()
    ]  # fmt: skip


def alike(values: Iterable[str]) -> dict[str, float]:
    """The same share for all values."""
    found = list(values)
    return dict.fromkeys(found, 1 / len(found))


def pick(
    rng: random.Random, values: Mapping[str, float], names: Iterable[str], suffix: str = ""
) -> str:
    """One of a group, by its shares."""
    known = list(names)
    return rng.choices(known, [values[f"{name}{suffix}.share"] for name in known])[0]


def around(rng: random.Random, value: float) -> int:
    """A whole number beside `value`, equal to it in the mean."""
    return int(value) + (rng.random() < value % 1)


def draws(rng: random.Random, mean: float, most: int) -> int:
    """A number from 0 to `most` with this mean."""
    return sum(rng.random() < mean / most for _ in range(most))


Rule = Callable[[dict[str, float]], str | None]
Mend = Callable[[dict[str, float]], None]


def is_number(value: object) -> TypeGuard[float]:
    """Whether a knob could have it: a finite number, and no truth value."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


class KnobSpace:
    """All knobs of a domain, and how to get valid values for them.

    `rule` may name a combination that cannot exist; `mend` moves values to the nearest that can.
    """

    def __init__(
        self, knobs: tuple[Knob, ...], rule: Rule | None = None, mend: Mend | None = None
    ) -> None:
        self.knobs = {knob.name: knob for knob in knobs}
        self.groups: dict[str, list[str]] = {}
        for knob in knobs:
            if knob.group:
                self.groups.setdefault(knob.group, []).append(knob.name)
        self.rule = rule or (lambda values: None)
        self.mend = mend or (lambda values: None)

    def defaults(self) -> "Knobs":
        return self.parse({})

    def parse(self, changes: Mapping[str, float]) -> "Knobs":
        """The defaults with `changes`, checked: unknown names and bad values are errors.

        A group of which any member is named takes zero for the members that are not.
        """
        values = {name: knob.default for name, knob in self.knobs.items()}
        values.update(self.whole(changes))
        for name, value in changes.items():
            values[name] = self.check(name, value)
        for group, members in self.groups.items():
            total = math.fsum(values[name] for name in members)
            if abs(total - 1.0) > 1e-6:
                raise KnobError(
                    f"the shares of '{group}' sum to {total:.6g}; make them sum to 1 "
                    f"(now: {', '.join(f'{n} = {values[n]:g}' for n in members if values[n])})"
                )
        if problem := self.rule(values):
            raise KnobError(problem)
        return Knobs(self, values)

    def whole(self, changes: Mapping[str, float]) -> dict[str, float]:
        """`changes`, with zero for every other member of a group that they name a member of."""
        named = [members for members in self.groups.values() if any(n in changes for n in members)]
        return {**{name: 0.0 for members in named for name in members}, **changes}

    @property
    def kinds(self) -> list[str]:
        """The names of the knobs, those that differ by a number as one; not all, where many."""
        found = {
            "".join("N" if number else "".join(part) for number, part in groupby(name, str.isdigit))
            for name in self.knobs
        }
        return [*sorted(found)[:MOST_NAMED], *["..."][: len(found) > MOST_NAMED]]

    def check(self, name: str, value: float) -> float:
        """One value, or an error that names the knob, the value and its range."""
        if name not in self.knobs:
            hint = did_you_mean(name, list(self.knobs))
            raise KnobError(f"unknown knob '{name}'{hint} Known: {', '.join(self.kinds)}")
        knob = self.knobs[name]
        if not is_number(value) or not knob.low <= value <= knob.high:
            raise KnobError(
                f"{name} = {value!r} is not a number from {knob.low:g} to {knob.high:g} "
                f"({knob.unit})"
            )
        if knob.integer and value != int(value):
            raise KnobError(f"{name} = {value!r} is not a whole number")
        return float(value)

    def project(self, changes: Mapping[str, object], base: "Knobs | None" = None) -> "Knobs":
        """The nearest valid knobs: never fails, whatever a model wrote.

        Unknown names and values that are no finite numbers are left as in `base` (or the
        defaults); the rest is clipped, rounded, and shares are scaled to sum to one.
        """
        values = dict(base or self.defaults())
        for name, value in changes.items():
            knob = self.knobs.get(name)
            if knob is None or not is_number(value):
                continue
            clipped = float(min(max(value, knob.low), knob.high))
            values[name] = float(round(clipped)) if knob.integer else clipped
        self.normalise(values)
        self.mend(values)
        self.normalise(values)
        return Knobs(self, values)

    def normalise(self, values: dict[str, float]) -> None:
        """Scale each group of shares to sum to one; a group of zeros goes back to its defaults."""
        for members in self.groups.values():
            total = math.fsum(values[name] for name in members)
            for name in members:
                share = values[name] / total if total > 0 else self.knobs[name].default
                values[name] = share

    def held(self, names: Iterable[str], values: Mapping[str, float]) -> "KnobSpace":
        """The same space with some knobs, and whole groups of shares, held at their values."""
        held: set[str] = set()
        for name in names:
            if name in self.knobs and (group := self.knobs[name].group):
                raise KnobError(f"'{name}' cannot be held alone: hold '{group}', all its shares")
            held |= {*self.groups.get(name, [name])}
        for name in held:
            self.check(name, values.get(name, 0.0))
        if not held:
            return self
        return KnobSpace(
            tuple(
                replace(knob, low=values[name], high=values[name]) if name in held else knob
                for name, knob in self.knobs.items()
            ),
            self.rule,
            self.mend,
        )

    def random(self, seed: int) -> "Knobs":
        """Knobs drawn at random; shares that are zero by default stay zero."""
        rng = random.Random(derive(seed, "knobs"))
        values: dict[str, float] = {}
        for name, knob in self.knobs.items():
            if knob.group:
                values[name] = rng.expovariate(1.0) if knob.default > 0 else 0.0
            elif knob.integer:
                values[name] = knob.default
            else:
                values[name] = rng.uniform(knob.low, knob.high)
        self.normalise(values)
        return self.project(values)


class Knobs(Mapping[str, float]):
    """Valid values for all knobs of a space: an immutable mapping from name to number."""

    def __init__(self, space: KnobSpace, values: Mapping[str, float]) -> None:
        self.space = space
        self.values_by_name = dict(values)

    def __getitem__(self, name: str) -> float:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __repr__(self) -> str:
        return f"Knobs({self.difference(self.space.defaults())})"

    @property
    def name(self) -> str:
        """The same for the same values."""
        return f"{derive(0, *(f'{name}={value!r}' for name, value in self.items())):016x}"

    def difference(self, other: "Knobs") -> dict[str, tuple[float, float]]:
        """What changed from `other` to this: name → (before, after)."""
        return {
            name: (other[name], value)
            for name, value in self.values_by_name.items()
            if abs(other[name] - value) > 1e-12
        }

    def in_use(self) -> list[Knob]:
        """Knobs that matter now: without zero shares and what hangs on them.

        The part of a name before the dot ties knobs to a share: `size8.hole_ratio` is idle while
        the group member that starts with `size8.` is zero.
        """
        knobs = self.space.knobs.values()
        idle = {knob.prefix for knob in knobs if knob.group and self[knob.name] == 0}
        return [knob for knob in knobs if knob.prefix not in idle]

    def closed(self, group: str) -> list[str]:
        """The shares of a group that are zero, and could be opened."""
        members = map(self.space.knobs.__getitem__, self.space.groups[group])
        return [knob.name for knob in members if self[knob.name] == 0 and not knob.held]

    def describe(self, target: Mapping[str, float] | None = None) -> str:
        """The knobs as a list for a language model: value, range, unit and what each one moves;
        and what that is in the tasks of a `target`, as far as that is known."""
        lines, known = [], target or {}
        for knob in self.in_use():
            if knob.held:
                continue
            kind = f"share of {knob.group}" if knob.group else knob.unit
            mean = "" if knob.group else " on average"
            aimed = f"; in the target {known[knob.name]:.3g}{mean}" if knob.name in known else ""
            lines.append(
                f"- {knob.name} = {self[knob.name]:.4g} "
                f"(from {knob.low:g} to {knob.high:g}, {kind}): {knob.moves}{aimed}"
            )
        for group, members in self.space.groups.items():
            if all(self.space.knobs[name].held for name in members):
                continue
            shut = in_runs(self.closed(group), members, known)
            closed = f" Closed (0) now, and may be opened: {', '.join(shut)}."
            lines.append(f"The shares of {group} sum to 1.{closed if shut else ''}")
        return "\n".join(lines)


def in_runs(names: list[str], order: list[str], known: Mapping[str, float]) -> list[str]:
    """Names with what is known of them; of three and more that follow one another, and of which
    nothing is known, the first and the last."""
    found: list[list[str]] = []
    places = {name: place for place, name in enumerate(order)}
    for name in names:
        last = found[-1][-1] if found else None
        plain = not known.get(name)
        if last and plain and not known.get(last) and places[name] == places[last] + 1:
            found[-1].append(name)
        else:
            found.append([name])
    told = []
    for run in found:
        if len(run) > 2:
            told.append(f"{run[0]} to {run[-1]}")
        else:
            told += [
                f"{name} (in the target {known[name]:.3g})" if known.get(name) else name
                for name in run
            ]
    return told
