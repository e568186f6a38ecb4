"""`coevolve ask`: one task, what a policy answers to it, and why the verdict is what it is.

Invariant: what a model wrote reaches a terminal without its control characters.
"""

import json
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevolve.cli import choice
from coevolve.core.errors import UserError

if TYPE_CHECKING:
    from coevolve.core.rollout import Message, Rollout
    from coevolve.core.task import Task
    from coevolve.domains.base import Domain


def ask(
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            "-p",
            help=f"A script of the domain, pocket, smollm2, {choice.OTHERS}.",
        ),
    ] = "oracle",
    domain: Annotated[str, typer.Option("--domain", "-d", help="See `coevolve domains`.")] = "lake",
    tasks: Annotated[
        Path | None, typer.Option(help="A JSONL file of tasks. Default: one is generated.")
    ] = None,
    number: Annotated[int, typer.Option(min=1, help="Which task to show, from 1.")] = 1,
    split: Annotated[str, typer.Option(help="train, dev or gate. Default: dev.")] = "",
    knob: choice.KnobValues = None,
    samples: choice.Samples = 1,
    temperature: choice.Temperature = None,
    max_tokens: choice.MaxTokens = 4096,
    style: choice.Style = "",
    seed: choice.Seed = 0,
    device: choice.Device = "",
    picture: Annotated[
        Path | None, typer.Option(help="Draw the first answer into this .svg or .gif file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Show one task: the prompt, a policy's answer, the verdict and the oracle's answer.

    Examples: coevolve ask -p pocket -k size6.data_ratio=1;  coevolve ask --tasks t.jsonl --number 3
    """
    from coevolve.cli.show import notes
    from coevolve.domains.registry import get_domain
    from coevolve.evaluation.attempts import attempts

    chosen = get_domain(domain)
    choice.check_policy(chosen, policy)
    choice.check_style(chosen, style)
    fresh = "" if tasks else "dev"
    listed = choice.find_tasks(chosen, "", tasks, split or fresh, number, knob, seed)
    if len(listed.tasks) < number:
        raise UserError(
            f"{listed.name} has {len(listed.tasks)} tasks; --number {number} is not among them"
        )
    task = listed.tasks[-1]
    settings = choice.Settings(samples, temperature, max_tokens, seed, style, device)
    sampling = settings.sampling(scripted=policy in chosen.scripts)
    with choice.opened(policy, chosen, settings) as (member, used):
        found = list(attempts(chosen, member, [task], sampling, style=used, samples=samples))
    if as_json:
        shown = as_object(chosen, task, found, used)
        drawn = sampling.model_dump(include={"temperature", "max_tokens", "seed"})
        print(json.dumps({"policy": policy, **drawn, **shown}))
    else:
        print_task(chosen, task, used, found[0])
        for rollout in found:
            print_attempt(chosen, task, rollout, policy, samples)
        print(f"--- the oracle\n{chosen.oracle(task, used)}")
    if picture:
        chosen.picture(task, found[0].messages[-1].content, picture)
        notes.print(f"drew {picture}")


def as_object(domain: "Domain", task: "Task", found: "list[Rollout]", style: str) -> dict[str, Any]:
    """Everything about the task and the attempts, as plain JSON values."""
    prompt = asked(found[0])
    return {
        "domain": domain.name,
        "style": style,
        "task": task.model_dump(mode="json"),
        "prompt": [message.model_dump() for message in prompt],
        "attempts": [
            {
                "answer": rollout.messages[-1].content,
                "turns": [message.model_dump() for message in rollout.messages[len(prompt) :]],
                **rollout.outcome.model_dump(mode="json"),
                "meaning": meaning(domain, rollout),
                "stop": str(rollout.stop),
                "prompt_tokens": rollout.prompt_tokens,
                "completion_tokens": rollout.completion_tokens,
                "mean_logprob": rollout.mean_logprob,
                "seconds": rollout.seconds,
            }
            for rollout in found
        ],
        "oracle": domain.oracle(task, style),
    }


def meaning(domain: "Domain", rollout: "Rollout") -> str | None:
    """What the failure class of an attempt means, None for a valid answer."""
    from coevolve.domains import capture

    failure = rollout.outcome.failure
    return None if failure is None else capture.meaning(domain, failure)


def asked(rollout: "Rollout") -> "list[Message]":
    """What a policy was asked, in its own wording."""
    return list(takewhile(lambda message: message.role != "assistant", rollout.messages))


def is_text(domain: "Domain", task: "Task", rollout: "Rollout") -> bool:
    """Whether a drawing of the task is what the policy was asked, once more."""
    return domain.draw(task).strip() in asked(rollout)[-1].content


def print_task(domain: "Domain", task: "Task", style: str, rollout: "Rollout") -> None:
    """The task as people see it, where that is more than its text, and as a policy does."""
    labels = ", ".join(f"{name} {value}" for name, value in task.bucket.items())
    print(f"{task.id}  ({task.split}: {labels})")
    if not is_text(domain, task, rollout):
        print(domain.draw(task))
    for message in asked(rollout):
        print(f"--- {message.role} ({style})\n{message.content}")


def print_attempt(
    domain: "Domain", task: "Task", rollout: "Rollout", policy: str, samples: int
) -> None:
    """What was said, the answer drawn where it can be, and its verdict."""
    from coevolve.cli.show import visible
    from coevolve.domains.capture import draw

    outcome, text = rollout.outcome, rollout.messages[-1].content
    which = f", sample {rollout.sample + 1} of {samples}" if samples > 1 else ""
    for message in rollout.messages[len(asked(rollout)) :]:
        who = f"{policy}{which}" if message.role == "assistant" else message.role
        print(f"--- {who}\n{visible(message.content)}")
    drawn = draw(domain, task, text)
    if drawn != domain.draw(task) and not is_text(domain, task, rollout):
        print(visible(drawn))
    verdict = "optimal" if outcome.optimal else "valid" if outcome.valid else "invalid"
    # Adding 0 turns -0 into 0.
    parts = ", ".join(f"{name} {value + 0.0:g}" for name, value in outcome.components.items())
    print(f"--- verdict\n{verdict}, reward {outcome.reward:g} ({parts})")
    if outcome.failure is not None:
        print(f"failure  {outcome.failure}: {meaning(domain, rollout)}")
    for name, value in outcome.details.items():
        if value is not None:
            print(f"{name}  {visible(str(value))}")
    if rollout.completion_tokens:
        speed = f"{rollout.completion_tokens} tokens in {rollout.seconds:.2f} s"
        print(f"answer  {speed}, stopped by {rollout.stop}")
