"""Before and after: gate tasks that the first policy failed and the best version solves.

Invariant: a picture reaches a page only if every element and attribute of it is known to be still;
otherwise the task and its answers are shown as text.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from xml.etree import ElementTree

from coevolve.core.errors import CoevolveError
from coevolve.core.rollout import Rollout
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.dashboard.numbers import labels
from coevolve.dashboard.record import Record
from coevolve.dashboard.tasks import held_out
from coevolve.dashboard.text import written
from coevolve.domains.base import Domain
from coevolve.domains.capture import draw
from coevolve.domains.turns import has_turns
from coevolve.engineers.cases import choose_cases
from coevolve.evaluation.clusters import Part, rate_over
from coevolve.evaluation.statistics import Rate

MOST_BOARDS = 6
SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {
    "svg", "g", "title", "desc", "rect", "circle", "ellipse", "line", "path", "polyline",
    "polygon", "text", "tspan", "animate", "animateTransform",
}  # fmt: skip
ATTRIBUTES = {
    "attributeName", "begin", "calcMode", "class", "cx", "cy", "d", "dur", "fill", "fill-opacity",
    "font-family", "font-size", "font-weight", "height", "keySplines", "keyTimes", "opacity",
    "points", "r", "repeatCount", "role", "rx", "ry", "stroke", "stroke-dasharray",
    "stroke-linecap", "stroke-linejoin", "stroke-opacity", "stroke-width", "text-anchor",
    "transform", "type", "values", "viewBox", "width", "x", "x1", "x2", "y", "y1", "y2",
}  # fmt: skip
"""Neither loads anything nor runs anything."""


class Picture(NamedTuple):
    """An answer to a task: a film, or else text."""

    svg: str
    text: str


class Pair(NamedTuple):
    """One task, failed before and solved after."""

    task_id: str
    labels: str
    failure: str
    reason: str
    prompt: str
    before: Picture
    after: Picture


class Boards(NamedTuple):
    """What changed on the gate, and a few tasks to look at."""

    fixed: Rate
    """Of the tasks that the first policy failed, those that succeed now."""
    lost: Rate
    """Of the tasks that it solved, those that fail now."""
    pairs: tuple[Pair, ...]


def boards_of(record: Record, before: list[Rollout], after: list[Rollout]) -> Boards | None:
    """Compare two sets of gate rollouts; None if there is nothing to compare."""
    now = {(one.task_id, one.sample): one for one in after}
    both = [(one, now[key]) for one in before if (key := (one.task_id, one.sample)) in now]
    if not both:
        return None
    failed = [pair for pair in both if not pair[0].outcome.valid]
    solved = [pair for pair in both if pair[0].outcome.valid]
    fixed = [pair for pair in failed if pair[1].outcome.valid]
    return Boards(
        rate_over([Part(one.task_id, later.outcome.valid, 1) for one, later in failed]),
        rate_over([Part(one.task_id, not later.outcome.valid, 1) for one, later in solved]),
        pairs_of(record, fixed) if fixed else (),
    )


def pairs_of(record: Record, fixed: list[tuple[Rollout, Rollout]]) -> tuple[Pair, ...]:
    """Some of the tasks, chosen to differ in how they failed and in their labels."""
    by_id: dict[str, tuple[Rollout, Rollout]] = {}
    for before, after in fixed:  # of several attempts at a task the first
        by_id.setdefault(before.task_id, (before, after))
    chosen = choose_cases([before for before, _ in by_id.values()], MOST_BOARDS, 0)
    tasks = held_out(record, Split.GATE)
    found = []
    for case in chosen:
        before, after = by_id[case.task_id]
        task = tasks.get(case.task_id)
        found.append(
            Pair(
                case.task_id,
                labels(case.labels),
                written(case.failure),
                written(case.details.get("reason", "")),
                "" if task else written(case.task),
                drawn(record.domain, task, answer_of(before)),
                drawn(record.domain, task, answer_of(after)),
            )
        )
    return tuple(found)


def answer_of(rollout: Rollout) -> str:
    return next((m.content for m in reversed(rollout.messages) if m.role == "assistant"), "")


def drawn(domain: Domain | None, task: Task | None, answer: str | None) -> Picture:
    """An answer, or a task alone, as the domain draws it: as SVG where it can, in letters where it
    cannot."""
    said = written(answer or "")
    if domain is None or task is None or has_turns(domain):  # one answer of several says little
        return Picture("", said or (written(asked(domain, task)) if domain and task else ""))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "picture.svg"
        try:
            domain.picture(task, answer, path)
            svg = still(path.read_text("utf-8"))
        except (CoevolveError, OSError, ValueError, NotImplementedError):
            svg = ""
    if svg:
        return Picture(svg, said)
    text = asked(domain, task) if answer is None else draw(domain, task, answer)
    return Picture("", written(text))


def asked(domain: Domain, task: Task) -> str:
    """What a policy is told of a task, but for the rules."""
    return domain.prompt(task)[-1].content


def still(text: str) -> str:
    """An SVG that may stand in a page, empty if anything in it could load or run."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return ""
    for element in root.iter():
        if element.tag.removeprefix(SVG) not in ELEMENTS or not ATTRIBUTES.issuperset(
            element.attrib
        ):
            return ""
        if any("url(" in value for value in element.attrib.values()):
            return ""
        element.tag = element.tag.removeprefix(SVG)
    return ElementTree.tostring(root, encoding="unicode")
