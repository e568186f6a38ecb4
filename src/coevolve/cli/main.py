"""Entry point: `coevolve`. One capture point turns errors into one clear line and exit code 2."""

import errno
import os
import signal
import sys
from typing import Annotated

import typer

from coevolve import __version__
from coevolve.cli import (
    approve,
    ask,
    check,
    compare,
    diagnose,
    evaluate,
    evolve,
    final,
    gallery,
    new_domain,
    null,
    pocket,
    report,
    resume,
    scorecard,
    serve,
    serve_domain,
    skills,
    status,
    tasks,
    train,
)
from coevolve.cli import run as run_command
from coevolve.core.errors import CoevolveError
from coevolve.core.exit import leave

app = typer.Typer(
    name="coevolve",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""The outer loop of LLM reinforcement learning.

Start here:

  coevolve run                                             rounds: train, judge, redesign the tasks

  coevolve evolve                                          a tree: change the harness, keep gains

  coevolve tasks generate --count 3 --output tasks.jsonl   make certified tasks

  coevolve tasks show tasks.jsonl                          look at them

  coevolve evaluate --policy greedy                        measure a policy on the benchmark

  coevolve ask --policy pocket                             look at one task and its answer

  coevolve train grpo --policy pocket                      train a small model on two cores

  coevolve compare main --dry-run                          engineers side by side, over seeds

  coevolve serve runs                                      look at runs in a browser

  coevolve check lake                                      put a domain through its paces

  coevolve new-domain mine                                 begin a domain of your own
""",
)
app.add_typer(tasks.app, name="tasks")
app.command("run")(run_command.run)
app.command("evolve")(evolve.evolve)
app.command("resume")(resume.resume)
app.command("status")(status.status)
app.command("diagnose")(diagnose.diagnose)
app.command("scorecard")(scorecard.scorecard)
app.add_typer(skills.app, name="skills")
app.command("approve")(approve.approve)
app.command("revise")(approve.revise)
app.command("abort")(approve.abort)
app.command("compare")(compare.compare)
app.command("final")(final.final)
app.command("null")(null.null)
app.command("gallery")(gallery.gallery)
app.command("report")(report.report)
app.command("serve")(serve.serve)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("ask")(ask.ask)
app.add_typer(pocket.app, name="pocket")
app.command("check")(check.check)
app.command("domains")(check.domains)
app.command("new-domain")(new_domain.new_domain)
app.command("serve-domain")(serve_domain.serve_domain)
app.command("check-server")(serve_domain.check_server)
app.command("doctor")(check.doctor)


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"coevolve {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print it.")
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
        """Unwind as for an interrupt, so that worker processes and partial files go too."""
        stopped.append(number)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    try:
        try:
            app()
        finally:
            if sys.stdout:  # there is none where it was closed
                sys.stdout.flush()
    except CoevolveError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        from coevolve.cli.health import extra_for

        name = (error.name or "").partition(".")[0]
        if not (extra := extra_for(name)):
            raise
        print(f"error: this needs {name}: pip install 'coevolve[{extra}]'", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EPIPE):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is lost
        if error.errno == errno.EPIPE:  # whoever read has seen enough
            sys.exit(1)
        what = error.filename or "the output"
        print(
            f"error: cannot write {what}: {error.strerror}; make room, and run it again",
            file=sys.stderr,
        )
        sys.exit(2)
    except RuntimeError:
        if not stopped:  # a compiler that was stopped half-way complains in its own words
            raise
        sys.exit(128 + stopped[0])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
