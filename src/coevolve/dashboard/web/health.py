"""Diagnostics of a run, worked out beside the server, and the rollouts behind each reading.

The suite takes seconds and gigabytes on a large run, so a process of its own is asked, one at a
time. Invariant: no page waits for it; until it is done, a page says so.
"""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from coevolve.core.splits import Split
from coevolve.dashboard.web.folders import RunFolder, Stamp
from coevolve.diagnostics.connection import Answer, Locked
from coevolve.diagnostics.health import behind_sql
from coevolve.diagnostics.views import Evidence, connect
from coevolve.harness.diagnostic import Diagnostic
from coevolve.store.layout import parts_of, sound, sums_of

LONGEST_S = 900
AGAIN = 10.0
"""What took a while is asked again only after so many times as long."""


@dataclass
class Checkup:
    """What is known of one run."""

    health: dict[str, Any] | None = None
    error: str = ""
    stamp: Stamp = ()
    began: float = 0.0
    ended: float = 0.0
    busy: bool = False


class Checkups:
    """Asks for the health of runs in the background."""

    def __init__(self) -> None:
        self.turn, self.one_at_a_time = Lock(), Lock()
        self.known: dict[str, Checkup] = {}
        self.processes: set[subprocess.Popen[bytes]] = set()

    def of(self, run: RunFolder, stamp: Stamp) -> Checkup:
        """What is known now; asks if that is out of date."""
        with self.turn:
            asked = self.known.setdefault(run.name, Checkup())
            cost = asked.ended - asked.began
            rested = time.monotonic() - asked.ended > AGAIN * cost
            if not asked.busy and asked.stamp != stamp and (rested or asked.health is None):
                asked.busy, asked.stamp, asked.began = True, stamp, time.monotonic()
                Thread(target=self.work, args=(run, asked), daemon=True).start()
        return asked

    def work(self, run: RunFolder, asked: Checkup) -> None:
        with self.one_at_a_time:
            asked.began = time.monotonic()
            command = [sys.executable, "-m", "coevolve", "diagnose", str(run.folder), "--json"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.processes.add(process)
            try:
                out, err = process.communicate(timeout=LONGEST_S)
                if process.returncode:
                    lines = err.decode("utf-8", "replace").strip().splitlines()
                    asked.error = (
                        lines[-1].removeprefix("error: ") if lines else "it gave no answer"
                    )
                else:
                    asked.health, asked.error = json.loads(out), ""
            except (subprocess.TimeoutExpired, ValueError) as error:
                process.kill()
                asked.error = f"the diagnostics gave no answer: {error}"[:300]
            finally:
                self.processes.discard(process)
                asked.ended, asked.busy = time.monotonic(), False

    def close(self) -> None:
        for process in list(self.processes):
            process.kill()


def behind(folder: Path, diagnostic: Diagnostic, version: int, limit: int) -> Answer:
    """The rollouts of a version behind a reading; opens the files of this version only."""
    parts = [part for part in parts_of(folder, (Split.TRAIN, Split.DEV)) if part.version == version]
    whole, broken = sound(folder, parts, sums_of(folder))
    evidence = Evidence(folder, whole, broken, [], [])
    sql = behind_sql(diagnostic, version, limit)
    if not diagnostic.built_in:
        with Locked(evidence) as locked:
            return locked.ask(sql)
    with connect(evidence, threads=1) as connection:
        result = connection.execute(sql)
        columns = [column[0] for column in result.description or ()]
        return Answer(columns, [list(row) for row in result.fetchall()])
