"""What a policy sees of a task: the rules, and an issue that gives away more or less."""

from coevolve.core.rollout import Message
from coevolve.core.task import Task
from coevolve.domains.swe.calls import write_call
from coevolve.domains.swe.places import is_made
from coevolve.domains.swe.work import CALLS, Work, unfold

FIRST = 40
"""Files that are listed in the beginning."""
LEVELS = ("what is seen", "the tests", "the files", "the functions", "the lines")
"""What each level of the hint adds to an issue."""


def rules() -> str:
    """The tools and how to call them."""
    examples = (
        (write_call("list", path=""), "the files of a folder"),
        (write_call("search", text="def pop", path="src"), "the lines that hold a text"),
        (write_call("read", path="a.py", first=1, count=80), "lines of a file"),
        (
            write_call("edit", path="a.py", line=12, old="i < n", new="i <= n"),
            "replace a text that is in the line exactly once; without a line, in the file",
        ),
        (write_call("run", command="python -m pytest -q"), "a shell command at the root"),
        (write_call("submit"), "hand the work in; this ends it"),
    )
    shown = "\n\n".join(f"{meaning}:\n{call}" for call, meaning in examples)
    return (
        "You mend faults in a Python repository. You work on a copy of it with tools, over several "
        "turns. Call a tool by writing a block with one JSON object; its answer comes as the next "
        "message. Several blocks in one turn are done in order.\n\n"
        f"{shown}\n\n"
        "Change the code, not the tests: hidden tests decide, and must all pass in the end. "
        "Nothing counts before it is submitted."
    )


def chat(task: Task) -> tuple[Message, ...]:
    """The rules, then the issue."""
    unfolded = unfold(task)
    files = [name for name in sorted(unfolded.given) if name.endswith(".py") and not is_made(name)]
    listed = "\n".join(files[:FIRST]) + ("\n..." if len(files) > FIRST else "")
    calls = f" and {unfolded.work.calls} tool calls" if unfolded.work.calls < CALLS else ""
    asked = (
        f"{task.data['issue']}\n\nYou have {unfolded.work.turns} turns{calls}. Python files:\n"
        f"{listed}"
    )
    return (Message(role="system", content=rules()), Message(role="user", content=asked))


def issue(work: Work) -> str:
    """What somebody who met the faults would write; for a commit, what somebody wrote."""
    if work.commit is not None:
        return work.commit.statement
    package = work.source.partition("==")[0].rpartition("/")[2]
    many = len(work.faults) > 1
    lines = [f"{package} does not behave as it should.", "", "What is seen:"]
    lines += [f"- {message}" if message else "- a test fails" for message in work.seen]
    if work.hint >= 1:
        lines += ["", f"Hidden tests that fail: {', '.join(test_names(work)[:6])}."]
    faults = sorted(work.faults, key=lambda fault: (fault.path, fault.line))
    if work.hint >= 2:
        where = []
        for fault in faults:
            place = fault.path
            if work.hint >= 3:
                place += f", in {fault.function}"
            if work.hint >= 4:
                place += f", line {fault.line}"
            where.append(place)
        lines += [
            "",
            f"The fault{'s are' if many else ' is'} in: {'; '.join(dict.fromkeys(where))}.",
        ]
    elif many:
        lines += ["", f"There are {len(work.faults)} faults."]
    return "\n".join(lines)


def test_names(work: Work) -> list[str]:
    """Short names of the hidden tests, each once."""
    names = (name.partition("[")[0].rpartition("::")[2] for name in work.fail)
    return list(dict.fromkeys(names))
