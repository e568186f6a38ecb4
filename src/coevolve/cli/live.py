"""What `coevolve run` shows while it runs: a panel on a terminal, plain lines anywhere else.

Invariant: the view only reads. It follows the ledger and the callbacks of the run, and nothing in
the run depends on it.
"""

import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coevolve.cli.show import PLAIN, clock, metric_words, visible
from coevolve.core.errors import LedgerError
from coevolve.store.watch import WORDS

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from coevolve.engines.base import Progress
    from coevolve.loop.run import Run
    from coevolve.store.lineage import Lineage

EVERY_VERSION = ("train", "dev", "gate")
BETWEEN_VERSIONS = ("propose", "backtest")
DECISIONS = 6
NUMBERS = {
    "reward": "reward {:.3f}", "valid": "valid {:.0%}", "dead": "dead {:.0%}",
    "token_accuracy": "token accuracy {:.0%}",
}  # fmt: skip


def view_of(as_json: bool) -> "Plain":
    """A panel on a terminal; lines in a pipe, in a file, and for scripts."""
    from coevolve.cli.show import notes

    return Plain(notes) if as_json or not notes.is_terminal else Panel(notes)


class Plain:
    """Lines on standard error: decisions, and four a stage, with the time that the run still
    takes; of the first stage, one more as soon as that is known."""

    def __init__(self, console: "Console") -> None:
        self.console = console
        self.of: Run | None = None
        self.summary: dict[str, Any] = {}
        self.place: tuple[str | None, str | None] = (None, None)
        self.began = self.phase_began = time.monotonic()
        self.timed = False
        """Whether anybody was told how long it takes."""

    def say(self, line: str) -> None:
        """A decision, or anything else between stages."""
        self.console.print(visible(line), **PLAIN)

    def tell(self, progress: "Progress") -> None:
        """A step of training."""
        self.warn(progress)
        told = progress.step % max(1, progress.steps // 4) == 0
        told |= progress.step > 1 and not self.timed  # the first step also warms up
        if told or progress.step == 1:
            self.look()
        if told:
            self.timed = True
            parts = [f"step {progress.step}/{progress.steps}"]
            parts += [*metric_words(progress.metrics, NUMBERS), self.left(progress.seconds_left)]
            self.console.print("  ".join(filter(None, parts)), highlight=False)

    def warn(self, progress: "Progress") -> None:
        """Say what the first step of a stage gives away."""
        from coevolve.engines.stage import doubt

        plan = self.of.plan if self.of else None
        redesigned = plan is not None and plan.designs and "knobs" in plan.factors
        if words := doubt(progress, redesigned):
            self.say(f"beware: {words}")

    def run(self, run: "Run") -> "Lineage":
        """Run to the end while it is being followed."""
        from coevolve.core.disk import answering
        from coevolve.loop.loop import run_loop

        self.of = run
        with answering(run.ledger.folder, self.say):
            return run_loop(run)

    def look(self) -> None:
        """See in the ledger where the run is."""
        if self.of is None:
            return
        try:
            self.summary = self.of.ledger.summary()
        except LedgerError:  # busy for a moment, or broken, which the run itself will say
            return
        place = (self.summary["place"], self.summary["phase"])
        if place != self.place:
            self.place, self.phase_began = place, time.monotonic()

    def left(self, stage_s: float | None) -> str:
        """What the run still takes, as far as it can be told."""
        if self.of is None or self.summary.get("state") != "running":
            return ""
        passed = time.monotonic() - self.phase_began
        left_s, whole = run_left(self.of.plan.versions, self.summary, passed, stage_s)
        return f"run {'about' if whole else 'at least'} {clock(left_s)} left" if left_s > 0 else ""


class Panel(Plain):
    """A panel that stays in place and tells where the run is."""

    def __init__(self, console: "Console") -> None:
        super().__init__(console)
        self.decisions: deque[str] = deque(maxlen=DECISIONS)
        self.progress: Progress | None = None
        self.speed: float | None = None
        self.tokens = 0.0

    def say(self, line: str) -> None:
        self.decisions.append(visible(line))

    def tell(self, progress: "Progress") -> None:
        self.warn(progress)
        if self.progress is None or progress.step <= self.progress.step:
            self.tokens = 0.0
        drawn = progress.metrics.get("tokens", 0.0) - self.tokens
        self.tokens = progress.metrics.get("tokens", self.tokens)
        seconds = progress.metrics.get("seconds", 0.0)
        self.speed = drawn / seconds if seconds > 0 and drawn > 0 else None
        self.progress = progress

    def run(self, run: "Run") -> "Lineage":
        from rich.live import Live

        self.of = run
        with Live(console=self.console, get_renderable=self.render, refresh_per_second=2):
            lineage = super().run(run)
            self.look()
        return lineage

    def look(self) -> None:
        before = self.place
        super().look()
        if self.place != before and self.place[1] != "train":
            self.progress = None

    def render(self) -> "RenderableType":
        """The panel as it is now."""
        from rich.console import Group
        from rich.panel import Panel as Frame
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        self.look()
        assert self.of is not None
        lines: list[RenderableType] = [Text(self.where(), style="bold")]
        if now := self.progress:
            bar = Table.grid(padding=(0, 1))
            bar.add_row(f"step {now.step}/{now.steps}", ProgressBar(now.steps, now.step, width=40))
            lines += [bar, Text(self.numbers(now))]
        lines.append(Text(self.times(), style="dim"))
        if self.decisions:
            lines += [Text(""), *(Text(f"· {line}", overflow="fold") for line in self.decisions)]
        return Frame(
            Group(*lines), title=Text(self.of.plan.title), title_align="left", border_style="dim"
        )

    def where(self) -> str:
        assert self.of is not None
        planned, (place, phase) = self.of.plan.versions, self.place
        state = str(self.summary.get("state", "new"))
        if state == "waiting":
            return f"waiting for `coevolve approve|revise|abort {self.of.ledger.folder}`"
        if state in ("done", "stopped", "failed"):
            return state
        doing = WORDS.get((phase or "").split("-")[0], phase or "between phases")
        kind, _, number = (place or "versions/00").partition("/")
        done = self.summary.get("phases", {}).get("gate", 0)
        where = f"{kind.removesuffix('s')} {int(number)}" if number else "the first policy"
        return f"{where} · {doing} · {done} of {planned} versions judged"

    def numbers(self, progress: "Progress") -> str:
        parts = metric_words(progress.metrics, {**NUMBERS, "dead": "dead groups {:.0%}"})
        if self.speed:
            parts.append(f"{self.speed:,.0f} tokens/s")
        return "   ".join(parts)

    def times(self) -> str:
        """Time left for the stage and, as far as it can be told, for the run."""
        parts = [f"{clock(time.monotonic() - self.began)} so far"]
        stage_s = None
        if self.progress and self.place[1] == "train":
            stage_s = self.progress.seconds_left
            parts.append(f"stage {clock(stage_s)} left")
        return " · ".join(filter(None, [*parts, self.left(stage_s)]))


def run_left(
    versions: int, summary: Mapping[str, Any], passed: float, stage_s: float | None
) -> tuple[float, bool]:
    """Seconds that a run still takes: phases to come, each as long as it has been so far; the one
    going on has run for `passed` seconds, and if it is training, it says itself how long it will
    take. And whether that is all: every phase to come has been seen once, or is like one that
    has."""
    seconds, counts = summary["seconds"], summary["phases"]
    means = {name: seconds[name] / counts[name] for name in counts}
    now = (summary["phase"] or "").split("-")[0]
    if stage_s is not None:
        means.setdefault("train", passed + stage_s)
    if "base" in means:  # the same number of tasks as any other measurement on the gate
        means.setdefault("gate", means["base"])
    total, whole = 0.0, True
    for name in (*EVERY_VERSION, *BETWEEN_VERSIONS):
        expected = versions if name in EVERY_VERSION else versions - 1
        count = expected - counts.get(name, 0)
        if count > 0 and name == now:
            count -= 1
            known = means.get(name)
            total += stage_s if stage_s is not None else max(0.0, (known or passed) - passed)
            whole = whole and (known is not None or stage_s is not None)
        if count > 0:
            total += count * means.get(name, 0.0)
            whole = whole and name in means
    return total, whole
