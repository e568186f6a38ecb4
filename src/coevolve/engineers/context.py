"""What a model that engineers environments is shown: modules of text, put together by name.

F failures, G guideline, H history, S own earlier explanation, T training, C cases: each turns a
view into text about one thing, within a budget of characters. Invariant: the whole keeps to its
budget, no module is crowded out by another, and outside of fences stand our own words only.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coevolve.core.fence import cut, fenced
from coevolve.core.names import lookup
from coevolve.domains.knobs import Knobs
from coevolve.engineers.base import Past, Refused, View
from coevolve.engineers.breakdown import among, breakdown, failures, labels_of, rate, reason
from coevolve.engineers.cases import choose_cases
from coevolve.engineers.signals import counted, standing
from coevolve.evaluation.tally import str_key
from coevolve.harness.harness import OWN_REWARD
from coevolve.harness.recipe import Recipe
from coevolve.store.cells import pooled

CHARACTERS_PER_TOKEN = 4
NOTE_CHARACTERS = 2_000
KNOBS_CHARACTERS = 60_000
CASES = 4
ANSWER_CHARACTERS = 600
TASK_CHARACTERS = 1_200
REFUSED_CHARACTERS = 400
"""Of each part of what is told about a refused proposal."""
SEEN = 5e-4
"""Knobs that differ by less are shown alike."""
BOOKKEEPING = ("round", "rounds", "steps")
FORMULA = "formula"
"""What a reward is made of stands beside it."""

GUIDELINE = """\
How to choose the next tasks:
- A task teaches only if it is solved sometimes. Tasks that always fail give no signal, and neither
  do tasks that never fail.
- So give more room to tasks solved between about 20 % and 80 % of the time. Take room from tasks
  that are nearly always solved, but keep some of them, or they are forgotten.
- Do not pile into tasks that are never solved: back off, and make them easier until some succeed.
- Change few things, each by enough to show, and leave alone what works. If nothing looks clearly
  better, change nothing. Trust a rate only as far as its n allows.
- Where most groups are live and dev does not rise, more live groups will not help: ask which
  failures are left, and choose tasks that train what they lack."""


def guideline(view: View, budget: int) -> str:
    """Advice that holds for any domain."""
    return cut(GUIDELINE, budget)


def history(view: View, budget: int, default: bool = True) -> str:
    """Knobs and results of past versions and what was refused, newest kept first where the budget
    is short. Without `default`, the first version's knobs are not told, but its result is."""
    texts: list[str] = []
    before: Past | None = None
    for one in view.history:
        untold = not default and one.number == 0
        texts.append(past(view, one, before, untold))
        before = before if untold or one.verdict != "kept" else one
    refused = [refusal(view, one) for one in view.refused if one.patch.factor == "knobs"]
    told = newest(refused, budget // 3, "proposals")
    if told:
        told.insert(0, "Proposed and refused:")
    course = by_version(view)[: budget // 4]
    kept = newest(texts, budget - sum(map(len, told)) - len(course), "versions")
    return under("Versions so far", "\n".join(filter(None, [*kept, course, *told])), budget)


def by_version(view: View) -> str:
    """What became of every kind of dev task that a share steers, from version to version."""
    tried = [one for one in view.history if one.dev]
    if len(tried) < 2:
        return ""
    names = {knob.label[0] for knob in view.space.knobs.values() if knob.label}
    lines = []
    for label in (name for name in labels_of(view, tried[-1]) if name in names):
        values = sorted({cell.labels[label] for cell in tried[-1].dev if label in cell.labels},
                        key=str_key)  # fmt: skip
        cells = {value: [pooled(among(one.dev, label, [value])) for one in tried]
                 for value in values}  # fmt: skip
        lines += [
            f"{label} {value}: {', '.join(str(cell.valid) for cell in found)} of {found[-1].n}"
            for value, found in cells.items()
            if len({cell.n for cell in found}) == 1
        ]
    numbers = ", ".join(str(one.number) for one in tried)
    return f"Valid on dev after versions {numbers}: {'; '.join(lines)}" if lines else ""


def under(heading: str, text: str, budget: int) -> str:
    """What others wrote or named, under words of ours."""
    return f"{heading}:\n{fenced(text, budget - len(heading) - 10)}"


def newest(texts: Sequence[str], budget: int, what: str) -> list[str]:
    """As many of the last texts as there is room for, at least one, and how many are left out."""
    kept: list[str] = []
    for text in reversed(texts):
        if kept and sum(map(len, kept)) + len(text) + 100 > budget:
            return [f"({len(texts) - len(kept)} earlier {what} left out)", *kept]
        kept.insert(0, text)
    return kept


def past(view: View, finished: Past, before: Past | None, untold: bool = False) -> str:
    """One version: its knobs, or what changed in them since the one that it grew from, and its
    result."""
    knobs = view.space.project(finished.knobs)
    if untold:
        values = "the start, before any change"
    elif before is None:
        values = ", ".join(f"{k.name} = {brief(knobs[k.name])}" for k in knobs.in_use())
    else:
        values = differences(view.space.project(before.knobs), knobs)
    dev = pooled(finished.dev)
    failed = f"; failures: {failures(dev)}" if dev.failures else ""
    became = "taken back" + reason(finished) if finished.verdict == "reverted" else "kept"
    trained = f"in training {counted(pooled(finished.train))}; " if finished.train else ""
    # Whether groups of dev are dead tells little: they have other sizes than those of training.
    on_dev = f"on dev {rate(dev)} valid, {dev.optimal} optimal{failed}" if dev.n else ""
    result = f"{trained}{on_dev}; {became}"
    bet = f"\n  {cut(finished.bet, REFUSED_CHARACTERS)}" if finished.bet else ""
    return f"- version {finished.number}: {values or 'no change'}{bet}\n  result: {result}"


def differences(before: Knobs, after: Knobs) -> str:
    """What changed, without knobs that are idle before and after."""
    used = {knob.name for knobs in (before, after) for knob in knobs.in_use()}
    changes = {name: one for name, one in after.difference(before).items() if name in used}
    return ", ".join(f"{name} {brief(old)} → {brief(new)}" for name, (old, new) in changes.items())


def brief(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def refusal(view: View, one: Refused) -> str:
    """A proposal of knobs that was not trained: what was asked for, what it came to, and why."""
    before = view.space.project(one.before.knobs)
    asked = view.space.project(one.asked, before) if isinstance(one.asked, Mapping) else None
    after = view.space.project(one.harness.knobs)
    came = differences(before, after)
    wanted = differences(before, asked) if asked and far(asked, after) else ""
    cut_back = f"{cut(wanted, REFUSED_CHARACTERS)}; cut back to reach: " if wanted else ""
    words = cut(one.words, REFUSED_CHARACTERS)
    return f"- {cut_back}{cut(came, REFUSED_CHARACTERS) or 'no change'}\n  {words}"


def far(asked: Knobs, after: Knobs) -> bool:
    return any(abs(old - new) > SEEN for old, new in asked.difference(after).values())


def explanation(view: View, budget: int) -> str:
    """What was said when knobs were last changed, and when a proposal was last refused, by the
    engineer itself or another."""
    told = [
        (past.engineer, f"the knobs of version {past.number}", past.explanation)
        for past in view.history
        if past.explanation
    ][-1:]
    told += [
        (one.patch.author, "a proposal that was refused", one.patch.hypothesis)
        for one in view.refused
    ][-1:]
    if not told:
        return "You have not explained an earlier choice."
    room = min(budget // len(told) - 1, 2_000)
    return "\n".join(
        under(f"Your own explanation of {what}", said, room)
        if who == view.reader
        else under(f"What another engineer said of {what}", f"{who[:40]}: {said}", room)
        for who, what, said in told
    )


def bookkeeping(view: View, budget: int) -> str:
    """Where the training stands, what it rewards and where answers end, as far as is known."""
    rounds, steps = view.training.get("rounds"), view.training.get("steps")
    done = 1 + view.training.get("round", view.last.number)
    of = "" if rounds is None else f" of {rounds}"
    each = "" if steps is None else f", with {steps} steps each"
    last = " The next is the last." if rounds is not None and done + 1 == rounds else ""
    lines = [f"Rounds done: {done}{of}{each}{unusual(view)}.{last}"]
    if reward := view.training.get("reward"):
        formula = reward.get(FORMULA, OWN_REWARD)
        own = formula == OWN_REWARD
        parts = "; ".join(
            f"{name}: {text}"
            for name, text in reward.items()
            if name != FORMULA and (own or name in formula)
        )
        made = "the domain's own" if own else formula
        lines.append(under("Reward", f"{made}{f' ({parts})' if parts else ''}", budget))
    if most := view.training.get("recipe", {}).get("max_tokens"):
        lines.append(f"Answers are cut off after {int(most)} tokens.")
    return cut("\n".join(lines), budget)


def unusual(view: View) -> str:
    """How often tasks and rollouts are learned from, and the schedule, where they are not as by
    default."""
    recipe = Recipe(**view.training.get("recipe", {}))
    words = {
        "epochs": f"{recipe.epochs} epochs (passes over the tasks of a round)",
        "redraw": f"dead groups drawn again up to {recipe.redraw} times (out of the same rollouts: "
        "fewer steps)",
        "iterations": f"{recipe.iterations} updates on each batch of rollouts",
        "schedule": f"a {recipe.schedule} schedule of the learning rate",
    }
    told = [
        said for name, said in words.items() if name in recipe.model_dump(exclude_defaults=True)
    ]
    return "".join(f", {said}" for said in told)


def training(view: View, budget: int) -> str:
    """Everything about the training: bookkeeping, reward and recipe."""
    rest = {name: value for name, value in view.training.items() if name not in BOOKKEEPING}
    lines = [f"- {name}: {value}" for name, value in flat(rest)]
    everything = under("All of it", "\n".join(lines), budget)
    return cut(f"{bookkeeping(view, budget)}\n{everything}", budget)


def flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name in sorted(values, key=str):
        value = values[name]
        inner = isinstance(value, dict)
        found += flat(value, f"{prefix}{name}.") if inner else [(f"{prefix}{name}", value)]
    return found


def cases(view: View, budget: int) -> str:
    """A few failures as they were."""
    finished = standing(view)
    chosen = choose_cases(finished.cases, CASES, finished.number)
    if not chosen:
        return "There are no failures to show."
    text = f"{len(chosen)} of {len(finished.cases)} failures."
    for number, case in enumerate(chosen, 1):
        labels = ", ".join(f"{name} {value}" for name, value in sorted(case.labels.items()))
        what = f"{case.failure} ({labels}): {str(case.details)[:300]}"
        added = (
            f"\n\nFailure {number}:\n{fenced(what, ANSWER_CHARACTERS)}\nTask:\n"
            f"{fenced(case.task, TASK_CHARACTERS)}\nAnswer:\n"
            f"{fenced(case.answer, ANSWER_CHARACTERS)}"
        )
        if len(text) + len(added) > budget - 60:
            return f"{text}\n\n({len(chosen) - number + 1} more left out)"
        text += added
    return text


Module = Callable[[View, int], str]
MODULES: dict[str, Module] = {
    "F": breakdown,
    "G": guideline,
    "H": history,
    "H:no-default": lambda view, budget: history(view, budget, default=False),
    "S": explanation,
    "T:bookkeeping": bookkeeping,
    "T:full": training,
    "C": cases,
}

V4 = ("F", "G", "H:no-default")
VARIANTS: dict[str, tuple[str, ...]] = {
    "V1": ("F",),
    "V2": ("F", "G"),
    "V3": ("F", "G", "H"),
    "V4": V4,
    "V5": (*V4, "S"),
    "V6": (*V4, "T:bookkeeping"),
    "V6-full-T": (*V4, "T:full"),
    "V6-cases": (*V4, "T:bookkeeping", "C"),
}
"""The paper's combinations, of which V6 did best there, and V6 with concrete failures."""


def modules_of(names: Sequence[str]) -> tuple[str, ...]:
    """Modules by name, each once; the name of a variant stands for its modules."""
    known = {**{name: (name,) for name in MODULES}, **VARIANTS}
    found = [one for name in names for one in lookup("context module", name, known)]
    return tuple(dict.fromkeys(found))


def compose(names: Sequence[str], view: View, budget_tokens: int = 3_000) -> str:
    """The named modules one after the other, within a budget of approximate tokens.

    Each module may use an equal part; what short ones leave over goes to the longer ones.
    """
    modules = [MODULES[name] for name in modules_of(names)]
    left = budget_tokens * CHARACTERS_PER_TOKEN - 2 * len(modules)
    texts = [module(view, left) for module in modules]
    shortest = sorted(range(len(modules)), key=lambda place: len(texts[place]))
    for done, place in enumerate(shortest):
        part = left // (len(modules) - done)
        if len(texts[place]) > part:
            texts[place] = cut(modules[place](view, part), part)
        left -= len(texts[place])
    return "\n\n".join(texts)


def remark(view: View) -> list[str]:
    """What a person asks for, if anybody does."""
    if not view.note:
        return []
    note = fenced(view.note, NOTE_CHARACTERS)
    if not view.returned:
        return [f"A person has a remark:\n{note}"]
    returned = fenced(view.returned, NOTE_CHARACTERS)
    return [f"Proposed was:\n{returned}\n\nA person asks to revise that:\n{note}"]
