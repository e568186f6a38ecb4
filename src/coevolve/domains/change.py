"""What a patch or a version changes, as a sentence for people.

Invariant: it is told from the values before and after, never from what an engineer says of them.
"""

import json
from collections.abc import Mapping

from coevolve.domains.knobs import Knob, Knobs, KnobSpace
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch, flat
from coevolve.harness.version import Version

MOST = 3
"""Changes of knobs that are told; the others are counted."""
TASKS = "tasks"
FIRST = 8
"""Knobs of the start that are told."""


def version_words(version: Version, before: Harness, space: KnobSpace | None) -> str:
    """What sets a version apart from its parent, whose harness is given."""
    if version.patch:
        return patch_words(version.patch, before, space)
    if version.merged:
        return f"versions {' and '.join(map(str, version.merged))} merged"
    if version.number == 0:
        return "no change: the start"
    return "no change: a control" if version.control else "no change: more training"


def patch_words(patch: Patch, before: Harness, space: KnobSpace | None) -> str:
    """What a patch makes of a harness; without the space of its knobs, how many it names."""
    old, new = flat(before).get(patch.factor), patch.value
    if patch.factor != "knobs":
        name = patch.factor.removeprefix("recipe.").replace("_", " ")
        if isinstance(old, int | float) and isinstance(new, int | float):
            return f"{name} {brief(old)} → {brief(new)}"
        return f"{name}: {brief(new)}, before: {brief(old)}"
    if not isinstance(new, Mapping):
        return "knobs that cannot be read"
    if space is None:
        return f"{len(new)} knobs"
    start = space.project(before.knobs)
    return knob_words(start, space.project(new, start))


def knob_words(before: Knobs, after: Knobs, most: int = MOST) -> str:
    """The largest changes from one setting of the knobs to another: of shares, and of what hangs on
    them as far as its share goes. What hangs on several shares and moves alike is one change."""
    used = {knob.name: knob for one in (before, after) for knob in one.in_use()}
    pairs = {name: pair for name, pair in after.difference(before).items() if name in used}
    owners = {one.prefix: one.name for one in before.space.knobs.values() if one.group}
    sizes, alike = dict[str, float](), dict[tuple[str, bool], list[str]]()
    for name, (old, new) in pairs.items():
        knob = used[name]
        owner = None if knob.group else owners.get(knob.prefix)
        share = max(before[owner], after[owner]) if owner else 1.0
        sizes[name] = share * abs(new - old) / (knob.high - knob.low)
        alike.setdefault((knob.suffix if owner else name, new > old), []).append(name)
    ranked = sorted(alike.values(), key=lambda names: -sum(sizes[name] for name in names))
    told = list[str]()
    for names in ranked[:most]:
        name = max(names, key=lambda one: sizes[one])
        words = one_change(used[name], *pairs[name])
        if any(f" {TASKS} " in one for one in told):  # "more tasks with 4 agents, fewer with 2"
            words = words.replace(f" {TASKS} ", " ", 1)
        told.append(f"{words} and {len(names) - 1} like it" if len(names) > 1 else words)
    rest = sum(map(len, ranked[most:]))
    told += [f"and {rest} more change{'s' * (rest > 1)}"] if rest else []
    return ", ".join(told) or "no knob that is in use"


def start_words(knobs: Knobs) -> str:
    """The knobs in use that are not what the domain would take by itself."""
    own = [knob for knob in knobs.in_use() if knobs[knob.name] != knob.default]
    told = [at(knob, knobs[knob.name]) for knob in own[:FIRST]]
    told += [f"and {len(own) - FIRST} more"] if len(own) > FIRST else []
    return ", ".join(told) or "the usual ones of the domain"


def at(knob: Knob, value: float) -> str:
    """What one knob stands at."""
    if knob.unit.startswith("share"):
        return f"{100 * value:.3g} % {knob.moves.removeprefix('share of ')}"
    return f"{knob.moves} {value:.3g}"


def one_change(knob: Knob, old: float, new: float) -> str:
    """One knob, by what it moves."""
    numbers = f"({values(knob, old, new)})"
    what = knob.moves.removeprefix("mean ")
    for start in ("share of ", "number of "):
        if what.startswith(start):
            return f"{'more' if new > old else 'fewer'} {what.removeprefix(start)} {numbers}"
    return f"{knob.moves} {'raised' if new > old else 'lowered'} {numbers}"


def values(knob: Knob, old: float, new: float) -> str:
    """Before and after, in as many digits as set them apart."""
    share = knob.unit.startswith("share")
    scale, unit = (100, " %") if share else (1, "")
    for digits in range(4):
        pair = [f"{scale * value:.{digits}f}" for value in (old, new)]
        if pair[0] != pair[1] and (share or abs(new - old) >= 1 or digits):
            break
    return f"{pair[0]}{unit} → {pair[1]}{unit}"


def brief(value: object, most: int = 80) -> str:
    """A value of the harness in a few characters."""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[:most]}…"
