"""What a policy sees of a task."""

from coevolve.core.rollout import Message
from coevolve.core.task import Task
from coevolve.domains.code import forms
from coevolve.domains.code.problem import unfold

RULES = """\
You write Python programs. They are judged by hidden tests, some of them edge cases, some of them \
large. Use only the standard library. You may think first; give the whole program in one code \
block at the end:

```python
...
```"""


def chat(task: Task) -> tuple[Message, ...]:
    """The rules, then the task with its examples."""
    return (
        Message(role="system", content=RULES),
        Message(role="user", content=f"{question(task)}\n\n{bounds(task)}"),
    )


def bounds(task: Task) -> str:
    data = task.data
    return f"Each test may take {data['cpu_s']} s of processor time and {data['memory_mb']} MB."


def question(task: Task) -> str:
    """The task in words, with the examples that are shown."""
    data = task.data
    if data["source"] == "humaneval":
        return (
            f"Complete this function; give it whole, with its imports.\n\n{data['prompt'].rstrip()}"
        )
    if data["source"] == "stdin":
        shown = [(case["input"], case["output"]) for case in data["examples"]]
        asked = "Write a Python program that reads standard input and prints the answer."
        return "\n\n".join((data["statement"].strip(), asked, *map(inout, shown)))
    problem, _, examples = unfold(data)
    template, parts = problem.template, [problem.statement()]
    parts.append(forms.ask(data["form"], template.takes, template.gives))
    for example in examples:
        if data["form"] == forms.FUNCTION:
            call = f"solve({', '.join(map(repr, example.values))})"
            parts.append(f"Example: {call} returns {example.wanted!r}")
        else:
            given = forms.write_input(template.takes, example.values)
            parts.append(inout((given, forms.write_output(template.gives, example.wanted))))
    return "\n\n".join(parts)


def inout(pair: tuple[str, str]) -> str:
    return f"Example input:\n{pair[0].rstrip()}\nExample output:\n{pair[1].rstrip()}"
