"""A task, an answer to it and what the tests found, for a terminal and as a picture."""

from collections.abc import Iterator
from difflib import unified_diff

from coevolve.core.rollout import Outcome
from coevolve.core.task import Task
from coevolve.domains.lines import svg_of
from coevolve.domains.swe.work import unfold


def draw_text(task: Task, outcome: Outcome | None) -> str:
    return "\n".join(lines(task, outcome)) + "\n"


def lines(task: Task, outcome: Outcome | None) -> Iterator[str]:
    """The issue, what was broken, and the verdict."""
    unfolded = unfold(task)
    yield from task.data["issue"].split("\n")
    yield ""
    yield f"{len(unfolded.work.fail)} hidden tests of {unfolded.total} fail; the faults, mended:"
    for path, whole in unfolded.mended.items():
        before, after = unfolded.given[path].decode(), whole.decode()
        shown = unified_diff(before.split("\n"), after.split("\n"), path, path, lineterm="", n=1)
        yield from shown
    if outcome is not None:
        told = outcome.details
        yield ""
        for call in told["calls"]:
            mark = "+" if call["ok"] else "-"
            yield f"{mark} turn {call['turn']}: {call['tool']} {call.get('path', '')}".rstrip()
        yield f"{told['fixed']} of {told['fail_to_pass']} fixed, {told['lost']} lost"
        yield f"{'+ solved' if outcome.valid else '- ' + str(outcome.failure)}"


def draw_svg(task: Task, outcome: Outcome | None) -> str:
    """The same lines as a picture."""
    return svg_of(lines(task, outcome))
