"""`coevolve serve`: the dashboard over a folder of runs."""

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from coevolve.core.errors import UserError

TOKEN = "COEVOLVE_TOKEN"
"""Environment variable: what a browser elsewhere has to know."""
FEWEST = 16
MOST, PATIENCE_S = 256, 20.0
"""Connections at a time, and how long each may take to ask, or to take in an answer."""


def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="[RUNS_FOLDER]", help="Folder that holds runs.")
    ] = Path("runs"),
    host: Annotated[
        str, typer.Option(help="Address to listen at. Any other than this machine's needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 8642,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Watch runs in a browser, and answer runs that wait for a person.

    Only this machine can reach the server. Any other --host needs a token, which is read from
    COEVOLVE_TOKEN, or generated and printed. Pages load nothing from elsewhere.
    """
    from coevolve.core.server import listen
    from coevolve.core.server import serve as served
    from coevolve.dashboard.web.app import make_app
    from coevolve.dashboard.web.guard import LOCAL, is_local

    try:
        import uvicorn  # noqa: F401
    except ImportError:
        raise UserError("the dashboard needs uvicorn: pip install 'coevolve[serve]'") from None
    token = "" if is_local(host) else chosen_token()
    name = f"[{host}]" if ":" in host else host
    app = make_app(folder, token, (*LOCAL, name.lower()))
    listening = listen(host, port)
    place = listening.getsockname()[1]
    address = f"http://{name}:{place}/" + (f"?token={token}" if token else "")
    print(f"serving {folder} at {address} (Ctrl-C ends it)", flush=True)
    if show:
        typer.launch(address)
    served(app, listening, MOST, PATIENCE_S, ws="none")


def chosen_token() -> str:
    """The token of the environment, or a new one."""
    token = os.environ.get(TOKEN, "")
    if token and len(token) < FEWEST:
        raise UserError(f"{TOKEN} has {len(token)} characters; use at least {FEWEST}")
    return token or secrets.token_urlsafe(24)
