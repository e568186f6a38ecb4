"""`coevolve fsck`: is the folder of a run what was recorded?"""

import json

import typer

from coevolve.cli.resume import Run
from coevolve.cli.run import AsJson
from coevolve.core.errors import UserError


def fsck(folder: Run, as_json: AsJson = False) -> None:
    """Check the folder of a run for damage.

    This checks the chain of events, payloads, evidence, checkpoints and copies. It names what is
    damaged and the command that makes it again. The exit code is 1 if anything is damaged.
    """
    from coevolve.cli.show import visible
    from coevolve.store.fsck import fsck as check

    if not folder.is_dir():
        raise UserError(f"{folder} is not the folder of a run; `coevolve list` shows the runs")
    found = check(folder.resolve())
    if as_json:
        faults = [one._asdict() for one in found.faults]
        print(json.dumps({**found._asdict(), "run": folder.name, "faults": faults}))
    else:
        for fault in found.faults:
            print(visible(fault.problem))
        print(f"{found.events} events, {found.files} files, {len(found.faults)} faults")
    if found.faults:
        raise typer.Exit(1)
