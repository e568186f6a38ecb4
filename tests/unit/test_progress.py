"""What is told of a comparison while it runs: by the files in its folders alone."""

import json
from pathlib import Path

import pytest
from arms import comparison

from coevolve.cluster import compare
from coevolve.cluster.compare import Progress


def write(folder: Path, number: int, place: str, phase: str, seconds: float) -> None:
    path = folder / place / f"{phase}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {"number": number, "place": place, "phase": phase, "seconds": seconds, "payload": {}}
    path.write_text(json.dumps(values))


def test_phases_are_told_once_with_the_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(compare.time, "monotonic", lambda: clock[0])
    jobs = {tmp_path / job.name: job for job in comparison().jobs()[1:]}
    fixed, frontier = jobs
    write(fixed, 1, "run", "base", 5.0)  # by an earlier command
    said: list[tuple[str, float | None]] = []
    progress = Progress(jobs, lambda line, left: said.append((line, left)))
    progress.look()
    assert said == []
    write(fixed, 3, "versions/00", "train", 20.0)
    write(frontier, 2, "run", "base", 2.0)
    clock[0] = 22.0
    progress.look()
    progress.look()
    # Of fixed one training is ahead, of frontier two; nothing is known of other phases yet.
    assert said[0] == ("fixed/seed-0: versions/00, train, 20.0 s", pytest.approx(3 * 20 * 22 / 20))
    assert said[1] == ("frontier/seed-0: run, base, 2.0 s", pytest.approx(3 * 20 * 22 / 22))
    assert len(said) == 2
    progress.end(fixed, "finished")
    progress.end(frontier, "failed: no memory")
    assert said[-1] == ("frontier/seed-0: failed: no memory", 0.0)
