"""`coevolve status`: where a run stands."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coevolve.cli.resume import Run
from coevolve.cli.run import AsJson
from coevolve.core.errors import CoevolveError, UserError
from coevolve.core.names import typed

if TYPE_CHECKING:
    from coevolve.dashboard.answers import Answers
    from coevolve.store.ledger import Ledger

COUNTED = ("phases", "counts")
"""Facts about a run that are for scripts only."""
UNFINISHED = {"broken off": "", "failed": "", "waiting": "nobody runs it: answer, then "}
"""States in which a run without a process needs one, and what comes first."""


def status(folder: Run, as_json: AsJson = False) -> None:
    """Show where a run stands: its state, what it gained, what is left, and time by phase."""
    from coevolve.cli.show import visible
    from coevolve.dashboard.facts import plain
    from coevolve.dashboard.web.folders import RunFolder
    from coevolve.dashboard.web.summary import read
    from coevolve.store.ledger import INTERRUPTED, Ledger
    from coevolve.store.lineage import plan_of

    if not folder.is_dir():
        raise UserError(f"{folder} is not the folder of a run; `coevolve list` shows the runs")
    with Ledger.open(folder, broken=True) as ledger:
        faults = ledger.faults()
        facts, summary = ledger.summary(), read(RunFolder(folder.name, folder), ledger)
        answers, engineers = answered(ledger), plan_of(ledger).engineers
    if as_json:
        print(json.dumps({**plain(summary), **facts, "faults": faults, "answers": plain(answers)}))
        return
    for line in answers.lines if answers else ():
        print(visible(line))
    seconds = [f"{key} {n:,.0f}" for key, n in facts["seconds"].items() if n >= 0.5]
    lines = {**facts, "seconds": ", ".join(seconds) or None, **summary.lines()}
    for name, value in lines.items():
        if name not in COUNTED:
            print(f"{name:12} {'-' if value is None else value}")
    for fault in faults:
        print(f"{'record':12} {fault}")
    broken_off = facts["state"] in UNFINISHED or summary.reason == INTERRUPTED
    if facts["process"] is None and broken_off:
        print(f"{'next':12} {UNFINISHED.get(facts['state'], '')}{goes_on(folder, engineers)}")


def goes_on(folder: Path, engineers: Sequence[str]) -> str:
    """The words that a person types to go on with a run."""
    from coevolve.loop.create import in_python, strangers

    return f"in Python, {in_python(folder)}" if strangers(engineers) else typed("resume", folder)


def answered(ledger: "Ledger") -> "Answers | None":
    """Whether it learned and whether engineers helped; None where the record cannot be read, which
    is told beside."""
    from coevolve.dashboard.answers import answers_of
    from coevolve.store.lineage import lineage_of
    from coevolve.store.tables import space_of

    try:
        lineage = lineage_of(ledger)
        return answers_of(lineage, space_of(lineage))
    except (CoevolveError, ValueError, IndexError):
        return None
