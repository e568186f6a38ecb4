"""`coevolve fsck`: is the folder of a run what was recorded?"""

import json

import typer

from coevolve.cli.resume import Run
from coevolve.cli.run import AsJson
from coevolve.core.errors import UserError


def fsck(folder: Run, as_json: AsJson = False) -> None:
    """Check all of a run's folder: the chain of events, payloads, evidence, checkpoints, copies.
    Names what is damaged and the command that makes it again; the exit code is 1 if anything is.
    """
    from coevolve.cli.show import visible
    from coevolve.store.fsck import fsck as check

    if not folder.is_dir():
        raise UserError(f"{folder} is no folder of a run; runs are kept under runs/")
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
