"""`coevolve check-server`: is an OpenEnv server, ours or anybody's, as it should be?"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coevolve.core.errors import CoevolveError

if TYPE_CHECKING:
    from coevolve.domains.openenv.domain import ServedDomain

ELSEWHERE = {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
"""What a second server of ours is started with, to see whether verdicts hang on it."""


def check_server(
    address: Annotated[str, typer.Argument(help="http://HOST:PORT of an OpenEnv server.")],
    count: Annotated[int, typer.Option(min=2, help="Episodes with a known solution.")] = 8,
    solutions: Annotated[
        Path | None,
        typer.Option(help='Full solutions: lines of {"reset": {"seed": 1}, "actions": [{...}]}.'),
    ] = None,
    full_reward: Annotated[
        float | None, typer.Option(help="What a solution earns, if the server does not say.")
    ] = None,
    other: Annotated[
        str, typer.Option(help="The same environment elsewhere. Default: ours is started.")
    ] = "",
    episode_timeout_s: Annotated[
        float | None, typer.Option(help="Most seconds of an episode, if it is not declared.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Make the checks that OpenEnv's `validate` leaves out. The exit code is 1 if one fails."""
    from coevolve.cli.show import notes, out, show_finding
    from coevolve.domains.openenv import semantics, trials
    from coevolve.domains.openenv.declaration import Resources
    from coevolve.domains.openenv.domain import open_server

    results = []
    with ExitStack() as stack:
        domain = open_server(address)
        stack.callback(domain.close)
        if full_reward is not None:
            domain.full_reward = full_reward
        declared = domain.declared.resources if domain.declared else Resources()
        if episode_timeout_s is not None:
            declared = declared.model_copy(update={"episode_timeout_s": episode_timeout_s})
        second = stack.enter_context(elsewhere(domain, other))
        subject = semantics.Subject(
            domain, trials.solutions(domain, count, solutions), second, declared
        )
        status = stack.enter_context(notes.status("checking"))
        for result in semantics.examine(subject):
            results.append(result)
            status.update(f"checking: {result.check_id} done")
            if not as_json:
                state = "FAIL" if result.status == "fail" else result.status
                show_finding(state, result.check_id, result.evidence)
    counts = {kind: sum(r.status == kind for r in results) for kind in ("pass", "fail", "skip")}
    if as_json:
        verdict = "fail" if counts["fail"] else "pass"
        found = [{**result._asdict(), "evidence": [result.evidence]} for result in results]
        print(json.dumps({"target": address, "verdict": verdict, "results": found}))
    else:
        summed = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)
        out.print(f"{len(results)} checks: {summed}", highlight=False)
    if counts["fail"]:
        raise typer.Exit(1)


@contextmanager
def elsewhere(domain: "ServedDomain", other: str) -> Iterator["ServedDomain | None"]:
    """The environment in a second place: at an address, or started here where it is ours."""
    from coevolve.cli.show import notes
    from coevolve.domains.openenv.domain import open_server
    from coevolve.domains.openenv.trials import started

    with ExitStack() as stack:
        if not other and domain.declared is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            try:
                other = stack.enter_context(started(domain.kind, env=ELSEWHERE, cwd=folder))
            except CoevolveError as error:
                notes.print(f"no second server: {error}", highlight=False)
        if not other:
            yield None
            return
        second = open_server(other)
        stack.callback(second.close)
        yield second
