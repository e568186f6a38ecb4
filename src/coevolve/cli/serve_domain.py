"""`coevolve serve-domain`: our domains for others."""

from typing import Annotated

import typer

from coevolve.core.errors import UserError


def serve_domain(
    domain: Annotated[str, typer.Argument(help="Name of a domain.")],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 8000,
    sessions: Annotated[int, typer.Option(min=1, help="Most episodes at the same time.")] = 64,
    memory_mb: Annotated[int, typer.Option(min=1, help="Memory that the server declares.")] = 4_096,
    episode_timeout_s: Annotated[
        float, typer.Option(min=0.1, help="Most seconds of an episode that the server declares.")
    ] = 60.0,
) -> None:
    """Serve a domain as an OpenEnv environment, until you stop it.

    A reset takes `seed`, `split`, `knobs` and `style`; the verdict stands in the last observation.
    Whoever knows COEVOLVE_ORACLE_TOKEN, if it is set, may also ask for the scripts' answers.
    """
    from coevolve.cli.show import notes
    from coevolve.core.server import listen
    from coevolve.domains.openenv.declaration import Resources, token
    from coevolve.domains.registry import get_domain

    chosen = get_domain(domain)
    try:
        from coevolve.domains.openenv.server import make_app, serve
    except ImportError as error:
        raise UserError(
            f"serving a domain needs {error.name}: pip install 'coevolve[openenv]'"
        ) from None
    app = make_app(
        chosen, sessions, Resources(memory_mb=memory_mb, episode_timeout_s=episode_timeout_s)
    )
    with listen(host, port) as where:
        shown = f"[{host}]" if ":" in host else host
        print(f"http://{shown}:{where.getsockname()[1]}", flush=True)
        notes.print(
            f"serving {chosen.name}; scripts are "
            + (
                "played for who knows the token"
                if token()
                else "kept: COEVOLVE_ORACLE_TOKEN is not set"
            ),
            highlight=False,
        )
        serve(app, where, sessions)
