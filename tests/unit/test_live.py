"""What a run shows while it runs."""

import io
from pathlib import Path

import pytest
from pretended import make_run
from rich.console import Console

from coevolve.cli import live, show
from coevolve.engines.base import Progress


def progress(step: int, **metrics: float) -> Progress:
    return Progress(step, 8, {"reward": 0.5, "valid": 0.62, "dead": 0.25, **metrics}, 30.0)


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)


def written(where: Console) -> str:
    assert isinstance(where.file, io.StringIO)
    return where.file.getvalue()


def test_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal, as_json, kind in (
        (False, False, live.Plain), (True, True, live.Plain), (True, False, live.Panel),
    ):  # fmt: skip
        monkeypatch.setattr(show, "notes", console(terminal))
        assert type(live.view_of(as_json)) is kind


def test_four_lines_a_stage() -> None:
    where = console(False)
    view = live.Plain(where)
    for step in range(1, 9):
        view.tell(progress(step))
    view.say("version 0: kept [all]")
    lines = written(where).splitlines()
    assert lines[0] == "step 2/8  reward 0.500  valid 62%  dead 25%"
    assert len(lines) == 5
    assert lines[-1] == "version 0: kept [all]"


def test_long_stages_do_not_wait_for_their_first_quarter() -> None:
    where = console(False)
    view = live.Plain(where)
    for _ in range(2):
        for step in range(1, 13):
            view.tell(progress(step)._replace(steps=40))
    steps = [line.split()[1] for line in written(where).splitlines()]
    assert steps == ["2/40", "10/40", "10/40"]


def test_lines_say_how_long_a_run_still_takes(tmp_path: Path) -> None:
    where = console(False)
    view = live.Plain(where)
    run = make_run(tmp_path / "run", scripts=("prioritised", "random"))

    def looking(line: str) -> None:
        view.say(line)
        view.tell(progress(2))

    run.say = looking
    view.run(run)
    assert "valid 62%  dead 25%  run at least" in written(where)
    assert "training begins with these tasks: 50 % tasks with 3x3 boards, 50 %" in written(where)


def test_the_panel_follows_a_run_and_leaves_it_alone(tmp_path: Path) -> None:
    where = console(True)
    view = live.Panel(where)
    run = make_run(tmp_path / "run", scripts=("prioritised", "random"))
    seen = []

    def looking(line: str) -> None:
        view.say(line)
        view.tell(progress(1, tokens=500.0, seconds=0.5))
        view.tell(progress(2, tokens=1500.0, seconds=0.5))
        shown = console(True)
        shown.print(view.render())
        seen.append(written(shown))

    run.say = looking
    best = view.run(run).best
    assert best
    assert best.version == 0
    first = seen[3]  # after what the untrained policy solves
    for words in ("test: frontier on lake", "version 0 · training · 0 of 2 versions judged",
                  "step 2/8", "valid 62%",
                  "dead groups 25%", "2,000 tokens/s", "stage 0:30 left", "run at least",
                  "training; no change: the start"):  # fmt: skip
        assert words in first
    assert "reverted" in written(where)
    assert view.where() == "done"


def test_time_left_is_counted_from_what_phases_took() -> None:
    seconds = {"base": 10.0, "train": 60.0, "dev": 20.0, "gate": 30.0}
    summary = {"phase": None, "seconds": seconds, "phases": dict.fromkeys(seconds, 1)}
    left = live.run_left(3, summary, 0.0, None)
    assert left == (2 * (60 + 20 + 30), False)  # nobody has proposed yet
    seconds |= {"propose": 2.0, "backtest": 8.0}
    summary["phases"] = dict.fromkeys(seconds, 1)
    assert live.run_left(3, summary, 0.0, None) == (2 * 110 + 10, True)
    summary["phase"] = "train"
    assert live.run_left(3, summary, 45.0, None) == (110 + 15 + 50 + 10, True)
    assert live.run_left(3, summary, 45.0, 25.0) == (110 + 25 + 50 + 10, True)
    first = {"phase": "train", "seconds": {"base": 10.0}, "phases": {"base": 1}}
    assert live.run_left(2, first, 20.0, 40.0) == (40 + 60 + 2 * 10, False)


def test_words_of_a_model_reach_no_terminal_as_commands() -> None:
    where = console(True)
    live.Plain(where).say("policy: 1 of 1 proposals cannot be used: \x1b[2J[/red]")
    assert "\\x1b[2J[/red]" in written(where)
    panel = live.Panel(where)
    panel.say("\x1b[2J")
    assert list(panel.decisions) == ["\\x1b[2J"]


def test_long_work_is_told_of_where_no_bar_can_move(monkeypatch: pytest.MonkeyPatch) -> None:
    notes, clock = console(terminal=False), [0.0]
    monkeypatch.setattr(show, "notes", notes)
    monkeypatch.setattr(show.time, "monotonic", lambda: clock[0])
    for _ in show.progress(range(10), 10, "pocket"):
        clock[0] += 25.0
    assert written(notes) == (
        "pocket: 3 of 10, 2:55 left\npocket: 6 of 10, 1:40 left\npocket: 9 of 10, 0:25 left\n"
    )
    for _ in show.progress(range(3), 0, "building"):  # nobody knows how many
        clock[0] += 60.0
    assert written(notes).endswith("left\nbuilding: 1\nbuilding: 2\nbuilding: 3\n")


def test_short_work_is_not_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = console(terminal=False)
    monkeypatch.setattr(show, "notes", notes)
    assert list(show.progress(range(5), 5, "pocket")) == [0, 1, 2, 3, 4]
    assert written(notes) == ""
