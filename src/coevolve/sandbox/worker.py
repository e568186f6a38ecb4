"""What runs inside a sandbox: a process that takes one job over its standard input.

It is sent as text after `codec.py`, so it imports nothing of this package, and nothing that is slow
to load. Three jobs: `judge` runs one program on many inputs, each in a forked child of its own;
`check` runs test code whose candidate is somewhere else; `exec` becomes any command.

Invariant: it holds no secret. A program that takes it over learns the inputs it would be given
anyway, and can say nothing that it could not have printed.
"""

import marshal
import posix as os  # `os` itself takes a tenth of the time in which an interpreter starts
import resource
import sys
import time

import _signal
from coevolve.sandbox.codec import encode

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module `typing` is slow to load
    from collections.abc import Callable
    from typing import Any

    Job = dict[str, Any]

JOB, REPLY = 60, 61
"""Where the two pipes to the outside are kept, out of the way of a program's own files."""
READY = b"ready"
OK, TIME, MEMORY, OUTPUT, PROCESSES, KILLED = range(6)


def read_exactly(count: int) -> bytes:
    parts = []
    while count:
        part = os.read(JOB, min(count, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def receive() -> "Any":
    """The next message from outside, which is trusted."""
    return marshal.loads(read_exactly(int.from_bytes(read_exactly(4), "big")))


def send(data: bytes) -> None:
    write_all(REPLY, len(data).to_bytes(4, "big") + data)


def write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def limit(job: "Job") -> None:
    """Limits that every process of the job inherits; nothing can lift them again."""
    memory = job["memory_mb"] << 20
    limits = {
        resource.RLIMIT_AS: (memory, memory),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_NOFILE: (job["open_files"], job["open_files"]),
    }
    if job["walled"]:  # elsewhere it would count all processes of the user
        limits[resource.RLIMIT_NPROC] = (job["processes"] + 1,) * 2
    for which, pair in limits.items():
        resource.setrlimit(which, pair)


def limit_run(cpu_s: int, file_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))


def control(*words: "int | bytes") -> None:
    """The system call `prctl`, for which Python has no name; bytes are passed by their address."""
    import _ctypes  # all of `ctypes` takes ten times as long to load

    found: Any = _ctypes
    if not PRCTL:
        PRCTL.append(found.dlsym(found.dlopen(None, 2), "prctl"))
    if found.call_function(PRCTL[0], words):
        raise OSError("the kernel refuses a limit")


PRCTL: "list[int]" = []


def hide() -> None:
    """Keep other processes from this one's memory and files, and from those of its children until
    they become another program; and let none of them gain a right."""
    control(4, 0, 0, 0, 0)
    control(38, 1, 0, 0, 0)


def confine(calls: bytes) -> None:
    """Add a filter of system calls, for this process and all that it starts."""
    if calls:
        begin = id(calls) + bytes.__basicsize__ - 1
        control(22, 2, (len(calls) // 8).to_bytes(8, "little") + begin.to_bytes(8, "little"))


def unblock() -> None:
    """Give a child the signals that the worker keeps from itself."""
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGCHLD,))


def judge(job: "Job") -> None:
    """Run a program once for every input that comes."""
    while True:
        attempt(job, receive())


def attempt(job: "Job", request: "Job") -> None:
    """One run in a forked child, reported to the outside."""
    files = [os.memfd_create(name) for name in ("input", "output", "error", "value")]
    write_all(files[0], request["stdin"])
    os.lseek(files[0], 0, 0)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        for target, source in enumerate(files[:3]):
            os.dup2(source, target)
        for file in (*files[:3], JOB, REPLY, job["report"]):
            os.close(file)
        os.setsid()
        limit_run(job["cpu_s"], job["output_bytes"])
        unblock()
        confine(job["calls"])
        try:
            play(job["source"], request, files[3])
        finally:
            os._exit(1)  # not even a broken program gets back to the loop above
    status, usage, late = wait(child, job["wall_s"])
    if job["walled"]:
        sweep()
    seconds, cpu_s = time.monotonic() - began, usage.ru_utime + usage.ru_stime
    output, error, value = (contents(file, job["output_bytes"]) for file in files[1:])
    for file in files:
        os.close(file)
    ended = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    if max(len(output), len(error), len(value)) >= job["output_bytes"]:
        stop = OUTPUT
    elif value.startswith(b"!MemoryError"):
        stop = MEMORY
    elif value.startswith((b"!BlockingIOError: [Errno 11]", b"!RuntimeError: can't start new th")):
        stop = PROCESSES
    elif late or ended == -_signal.SIGXCPU or cpu_s >= job["cpu_s"]:
        stop = TIME
    else:
        stop = KILLED if ended < 0 else OK
    texts = (output, error[-4096:], value)
    facts = (stop, ended, int(seconds * 1e6), int(cpu_s * 1e6), *map(len, texts))
    send(" ".join(map(str, facts)).encode() + b"\n" + b"".join(texts))


def contents(file: int, most: int) -> bytes:
    """What a file holds, read from its beginning however the program left it."""
    size = min(os.fstat(file).st_size, most)
    parts, at = [], 0
    while at < size:
        part = os.pread(file, size - at, at)
        if not part:
            break
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def wait(child: int, wall_s: float) -> tuple[int, resource.struct_rusage, bool]:
    """Status and usage of a child, which is killed when its time on the clock is over."""
    deadline = time.monotonic() + wall_s
    late = False
    while True:
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        left = deadline - time.monotonic()
        if ended is not None or left <= 0:
            late = ended is None
            break
        _signal.sigtimedwait((_signal.SIGCHLD,), left)
    try:
        os.killpg(child, 9)
    except OSError:
        pass
    os.kill(child, 9)
    _, status, usage = os.wait4(child, 0)
    return status, usage, late


def sweep() -> None:
    """Kill whatever a run has left behind: everybody in here but this process and process 1."""
    try:
        os.kill(-1, 9)
    except OSError:
        pass  # there is nobody


def play(source: bytes, request: "Job", value: int) -> None:
    """Run the program in this very process, as if it had been started alone."""
    module = type(sys)("__main__")
    module.__dict__["__builtins__"] = __builtins__
    module.__name__ = "__main__" if request["call"] is None else "answer"
    sys.modules[module.__name__] = module
    sys.argv = ["answer.py"]
    compiled = False
    try:
        exec(source, module.__dict__)  # `compile` would first build all types of syntax trees
        compiled = True
        if request["call"] is not None:
            found = eval(request["call"], module.__dict__)(*request["arguments"])
            write_all(value, b"=" + encode(found).encode())
        finish(0)
    except SystemExit as ending:
        if request["call"] is not None:
            write_all(value, f"!SystemExit: {ending.code!r:.40}".encode("utf-8", "replace"))
        if ending.code is not None and not isinstance(ending.code, int):
            print(ending.code, file=sys.stderr)
        finish(1 if isinstance(ending.code, str) else int(ending.code or 0) & 255)
    except BaseException as error:
        shown = error.__traceback__.tb_next if error.__traceback__ else None
        if shown is None and not compiled:  # nothing of the program has run
            line = getattr(error, "lineno", None)
            reason = getattr(error, "msg", None) or str(error) or type(error).__name__
            message = f"!!{reason} (line {line})" if line else f"!!{reason}"
        else:
            message = f"!{type(error).__name__}: {error!s:.300}"
        try:
            write_all(value, message.encode("utf-8", "replace"))
        except OSError:
            pass
        sys.excepthook(type(error), error.with_traceback(shown), shown)
        finish(1)


def finish(code: int) -> None:
    """Leave as the interpreter would, but without taking everything down piece by piece first,
    which takes ten times as long as most programs do."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    if "atexit" in sys.modules:
        sys.modules["atexit"]._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError as error:
        os.write(2, f"OSError: {error.strerror}\n".encode())
        code = 120
    os._exit(code)


class Tally:
    """Counts what assertions find."""

    def __init__(self) -> None:
        self.passed = self.failed = 0
        self.first = ""

    def record(self, question: "Callable[[], object]") -> None:
        try:
            holds = bool(question())
            problem = "" if holds else "AssertionError: a test does not hold"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            self.failed += 1
            self.first = self.first or problem
        else:
            self.passed += 1


def check(job: "Job") -> None:
    """Run test code; every call of the candidate is a message to the outside and back."""
    import ast

    limit_run(job["cpu_s"], job["file_bytes"])
    tally = Tally()

    def candidate(*arguments: object) -> object:
        send(b"?" + encode(arguments).encode())
        answer = receive()
        if answer["error"]:
            name, _, message = answer["error"].partition(": ")
            kind: Any = getattr(__import__("builtins"), name, None)
            known = isinstance(kind, type) and issubclass(kind, Exception)
            raise kind(message) if known else RuntimeError(answer["error"])
        return answer["value"]

    class Counted(ast.NodeTransformer):
        def visit_Assert(self, node: ast.Assert) -> ast.stmt:
            question = ast.parse("__record(lambda: 0)").body[0]
            question.value.args[0].body = node.test  # type: ignore[attr-defined]
            return ast.copy_location(question, node)

    space: Job = {"__name__": "tests", "__record": tally.record}
    problem = ""
    try:
        exec(compile(job["context"], "context.py", "exec", dont_inherit=True), space)
        tree = ast.fix_missing_locations(Counted().visit(ast.parse(job["test"])))
        exec(compile(tree, "test.py", "exec", dont_inherit=True), space)
        space["check"](candidate)
    except BaseException as error:  # whatever the tests do wrong is for the outside to know
        problem = f"{type(error).__name__}: {error}"
    report = (tally.passed, tally.failed, tally.first[:300], problem[:300])
    send(b"!" + encode(report).encode())


def become(job: "Job") -> None:
    """Run any command; its exit code becomes this process's."""
    os.chdir(job["folder"])
    for name, data in job["files"].items():
        for at in [at for at, mark in enumerate(name) if mark == "/"]:
            try:
                os.mkdir(name[:at])
            except FileExistsError:
                pass
        with open(name, "wb") as target:
            target.write(data)
    source = os.memfd_create("input")
    write_all(source, job["stdin"])
    os.lseek(source, 0, 0)
    job["stdin"] = b""
    child = os.fork()
    if child == 0:
        os.dup2(source, 0)
        os.dup2(REPLY, 1)
        for file in (source, JOB, REPLY, job["report"]):
            os.close(file)
        os.setsid()
        limit_run(job["cpu_s"], job["file_bytes"])
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
            _signal.signal(number, _signal.SIG_DFL)
        unblock()
        confine(job["calls"])
        command, reason = job["argv"][0], "not found"
        folders = [""] if "/" in command else [f"{path}/" for path in job["env"]["PATH"].split(":")]
        for folder in folders:
            try:
                os.execve(folder + command, job["argv"], job["env"])
            except FileNotFoundError:
                continue
            except OSError as error:
                reason = str(error.strerror)
        os.write(2, f"cannot run {command}: {reason}\n".encode())
        os._exit(127)
    for file in (source, JOB, 1, REPLY, 2):  # what a program could open through /proc
        os.close(file)
    _, status, usage = os.wait4(child, 0)
    os.write(job["report"], str(usage.ru_utime + usage.ru_stime).encode())
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def main() -> None:
    os.dup2(0, JOB, inheritable=False)
    os.dup2(1, REPLY, inheritable=False)
    nothing = os.open("/dev/null", os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGCHLD,))
    send(READY)
    job = receive()
    hide()
    limit(job)
    {"judge": judge, "check": check, "exec": become}[job["kind"]](job)


if __name__ == "__main__":
    main()
