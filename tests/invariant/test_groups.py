"""Control groups around sandboxes: the kernel holds what all processes use together."""

from pathlib import Path

import pytest

from coevolve.sandbox import group
from coevolve.sandbox.bubblewrap import PYTHON
from coevolve.sandbox.limits import Limits
from coevolve.sandbox.pool import close_pools
from coevolve.sandbox.run import run

HERE = pytest.mark.skipif(
    group.parent() is None, reason="no control groups of version 2 can be made here"
)
SEVERAL = """
import os, time
for _ in range(8):
    if not os.fork():
        held = bytearray(24 << 20)
        held[::4096] = b"x" * len(held[::4096])
        time.sleep(60)
time.sleep(60)
"""
"""None of them holds much, and all together too much, before anybody looks."""
BUSY = """
import os
for _ in range(40):
    if not os.fork():
        sum(range(2_000_000))
        os._exit(0)
"""
"""Children that nobody waits for, and that are gone before anybody looks."""


@pytest.fixture(autouse=True)
def walls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are there with and without a wall."""
    monkeypatch.setenv("COEVOLVE_SANDBOX", "none")
    close_pools()


@HERE
def test_memory_of_all_processes_is_held_by_the_kernel() -> None:
    ran = run([PYTHON, "-c", SEVERAL], limits=Limits(memory_mb=96, wall_s=30))
    assert ran.stop == "memory"
    assert ran.seconds < 20


@HERE
def test_time_of_processes_that_nobody_waited_for_is_counted() -> None:
    ran = run([PYTHON, "-c", BUSY], limits=Limits(cpu_s=60, wall_s=60, processes=100))
    assert ran.stop == "ok"
    alone = run([PYTHON, "-c", "sum(range(2_000_000))"])
    assert ran.cpu_s > 10 * (alone.cpu_s - run([PYTHON, "-c", ""]).cpu_s)


@HERE
def test_groups_are_gone_with_their_sandboxes() -> None:
    above = group.parent()
    assert above
    run([PYTHON, "-c", ""])
    close_pools()
    assert not list(above.glob(f"{group.PREFIX}-*"))


def test_what_the_kernel_says_is_read(tmp_path: Path) -> None:
    one = group.Group(tmp_path)
    one.limit(128 << 20)
    assert (tmp_path / "memory.max").read_text() == "134217728"
    (tmp_path / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 3\n")
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\n")
    one.look()
    assert (one.full, one.cpu_s) == (True, 2.5)


def test_without_a_controller_of_memory_there_is_no_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "ROOT", tmp_path)
    group.parent.cache_clear()
    try:
        assert group.enclose([]) is None
    finally:
        group.parent.cache_clear()
    assert not list(tmp_path.iterdir())
