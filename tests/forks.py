"""Our commands in processes of their own that need not import anything: each is forked from one
process that has imported what commands like it need. To start Python, torch and TRL anew takes
seconds each time, which is most of what a small command takes.
"""

import atexit
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

LIGHT = ("coevolve.cli.main", "coevolve.cli.show", "coevolve.cli.rates", "typer.rich_utils")
LAKE = ("coevolve.domains.lake.domain", "coevolve.domains.registry", "scipy.stats")
TRAINING = (*LAKE, "coevolve.engines.trl.engine", "coevolve.engines.trl.grpo", "coevolve.loop.loop")
NEEDS = {
    **dict.fromkeys(("tasks", "evaluate", "check"), LAKE),
    **dict.fromkeys(("run", "evolve", "resume", "final", "train", "ask"), TRAINING),
    **dict.fromkeys(("diagnose", "report", "skills"), ("duckdb", "pyarrow.parquet", "scipy.stats")),
}
"""What is imported before a command is forked, by its first word."""
ENVIRONMENT = dict(os.environ)
"""Before any test has changed it."""


def serve() -> None:
    """Fork one command for each line of standard input; say its number, then how it ended.

    In a forked process this returns when its command is over.
    """
    codes = [1]  # of what is raised and not caught
    atexit.register(leave, codes)
    while line := sys.stdin.readline():
        asked = json.loads(line)
        prepare((*LIGHT, *NEEDS.get(asked["words"][0], ())))
        gc.collect()
        gc.freeze()  # so that a fork's collections leave shared memory alone
        if (child := os.fork()) == 0:
            become(asked)
            return command(codes)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os._exit(0)


@cache
def prepare(names: tuple[str, ...]) -> None:
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):  # the extra is not installed
            import_module(name)
    if set(LAKE) <= set(names):  # the solver's machine code is loaded when it is first called
        from training import LAKE as small_boards

        from coevolve.core.splits import Split
        from coevolve.domains.registry import get_domain

        lake = get_domain("lake")
        (task,) = lake.generate(lake.space.parse(small_boards), 1, 0, Split.TRAIN)
        assert lake.verify(task, lake.oracle(task)).optimal


def become(asked: dict[str, Any]) -> None:
    """Make this process what a new one would be: its words, folder, environment, and files."""
    for number, file in enumerate(asked["files"]):
        opened = os.open(file, os.O_RDONLY if number == 0 else os.O_WRONLY)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["coevolve", *asked["words"]]
    sys.path.remove(str(Path(__file__).parent))


def command(codes: list[int]) -> None:
    from coevolve.cli.main import main

    try:
        main()
        codes[0] = 0
    except SystemExit as end:
        codes[0] = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


def leave(codes: list[int]) -> None:
    """End after everything else that is done at the end of a process, but do not take apart what
    was imported: that takes longer than most commands, and modules complain when it is shared."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(codes[0])


@cache
def server(_owner: int) -> subprocess.Popen[str]:
    """Of this process; it ends with this one, when its standard input does."""
    tests = Path(__file__).parent
    script = f"import sys; sys.path[0] = {str(tests)!r}; import forks; forks.serve()"
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=ENVIRONMENT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    atexit.register(process.communicate)
    return process


def run(
    words: list[str], cwd: Path, said: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """A command to its end, whatever that is; one that takes too long is killed, and an error."""
    process = server(os.getpid())
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("in", "out", "err")]
        for file, text in zip(files, (said, "", ""), strict=True):
            file.write_text(text, "utf-8")
        asked = {
            "words": words, "files": [*map(str, files)], "cwd": str(cwd),
            "environment": dict(os.environ),
        }  # fmt: skip
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        late = threading.Event()

        def kill() -> None:
            late.set()
            os.kill(child, signal.SIGKILL)

        timer = threading.Timer(timeout_s, kill)
        timer.start()
        try:
            code = int(process.stdout.readline())
        except BaseException:  # of the test, which waits no more: its answer is nobody else's
            os.kill(child, signal.SIGKILL)
            process.kill()
            server.cache_clear()
            raise
        finally:
            timer.cancel()
        output, errors = (file.read_text("utf-8") for file in files[1:])
    if late.is_set():
        raise subprocess.TimeoutExpired(words, timeout_s, output, errors)
    return subprocess.CompletedProcess(words, code, output, errors)
