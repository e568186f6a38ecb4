"""What a policy sees of a task."""

from coevolve.core.rollout import Message
from coevolve.core.task import Task
from coevolve.domains.swe.calls import write_call
from coevolve.domains.swe.places import is_made
from coevolve.domains.swe.work import unfold

FIRST = 40
"""Files that are listed in the beginning."""


def rules() -> str:
    """The tools and how to call them."""
    examples = (
        (write_call("list", path=""), "the files of a folder"),
        (write_call("search", text="def pop", path="src"), "the lines that hold a text"),
        (write_call("read", path="a.py", first=1, count=80), "lines of a file"),
        (
            write_call("edit", path="a.py", old="i < n", new="i <= n"),
            "replace a text that is in the file exactly once",
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
    asked = f"{task.data['issue']}\n\nYou have {unfolded.work.turns} turns. Python files:\n{listed}"
    return (Message(role="system", content=rules()), Message(role="user", content=asked))
