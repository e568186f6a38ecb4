"""Entry point: `coevolve`. One capture point turns errors into one clear line and exit code 2."""

import os
import signal
import sys
from importlib import import_module
from typing import Annotated

import typer

from coevolve import __version__
from coevolve.cli.complete import offer
from coevolve.core.errors import CoevolveError
from coevolve.core.exit import leave
from coevolve.core.names import typed
from coevolve.core.system import NEEDS_POSIX, POSIX_MODULES

COMMANDS = (
    "tasks", "run", "evolve", "resume", "status", "list", "diff", "export", "fsck", "diagnose",
    "scorecard", "skills", "approve", "revise", "abort", "compare", "final", "cost", "null",
    "gallery", "report", "serve", "train", "evaluate", "ask", "pocket", "small-policy", "convert",
    "check", "validate", "domains", "new-domain", "serve-domain", "check-server", "doctor",
)  # fmt: skip
"""In the order of the help. Each is a module of this package that has a function of the same name,
or an `app` of several."""

CONTINUES = {"run", "evolve", "resume", "compare", "final", "train", "small-policy"}
"""Commands that go on, after a kill, from where they were."""
KEEPS = {"evaluate", "null"}
"""The same, where a folder is named that keeps what they have."""

SERVES = {"serve", "serve-domain"}
"""Those that run until they are interrupted."""

app = typer.Typer(
    name="coevolve",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""The outer loop of LLM reinforcement learning.

Start here:

coevolve doctor                   check this machine

coevolve ask --policy pocket      see one task and an answer

coevolve run                      rounds: train, judge, redesign tasks

coevolve evolve                   a tree: change the harness

coevolve serve runs               watch runs in a browser

coevolve new-domain mine          start a domain of your own

coevolve COMMAND --help           options and examples
""",
)
for name in COMMANDS:
    word = name.replace("-", "_")
    module = import_module(f"coevolve.cli.{word}")
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name)
    else:
        offer(getattr(module, word))
        app.command(name)(getattr(module, word))


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"coevolve {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Options of every command."""


def main() -> None:
    """Run the command line, and end it in one piece."""
    try:
        run()
    except SystemExit as end:
        leave(end)
        raise


def run() -> None:
    """The command; errors of ours end it without a traceback."""
    stopped: list[int] = []

    def stop(number: int, _frame: object) -> None:
        """Unwind, so that worker processes and partial files go too."""
        stopped.append(number)
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        try:
            app()
        finally:
            if stopped:  # whatever it broke off complains in its own words, or calls it a failure
                if line := how_to_go_on(sys.argv[1:]):
                    print(line, file=sys.stderr)
                sys.exit(128 + stopped[0])
            if sys.stdout:  # there is none where it was closed
                sys.stdout.flush()
    except CoevolveError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        from coevolve.cli.doctor import extra_for

        name = (error.name or "").partition(".")[0]
        if name in POSIX_MODULES:
            print(f"error: this {NEEDS_POSIX}", file=sys.stderr)
            sys.exit(2)
        if not (extra := extra_for(name)):
            raise
        print(f"error: this needs {name}: pip install 'coevolve[{extra}]'", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # whoever read has seen enough
        drop_output()
        sys.exit(1)
    except Exception as error:
        from coevolve.core.disk import disk_trouble

        if not (line := disk_trouble(error)):
            raise
        drop_output()
        print(f"error: {line}", file=sys.stderr)
        sys.exit(2)


def how_to_go_on(words: list[str]) -> str:
    """What is said of a command that was interrupted."""
    name = next((word for word in words if not word.startswith("-")), "")
    kept = any(word.startswith(("-o", "--output")) for word in words)
    if name in CONTINUES or (name in KEEPS and kept):
        return f"stopped; this goes on from where it was: {typed(*words)}"
    return "" if name in SERVES else "stopped"


def drop_output() -> None:
    """What is left to be written to it is lost."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
