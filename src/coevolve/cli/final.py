"""`coevolve final`: what a run has won, on tasks that decided nothing."""

from pathlib import Path
from typing import Annotated

import typer

from coevolve.cli.run import AsJson


def final(
    folder: Annotated[Path, typer.Argument(help="Folder of a run that has ended.")],
    tasks: Annotated[int, typer.Option(min=8, help="How many test tasks.")] = 1_000,
    as_json: AsJson = False,
) -> None:
    """Measure a run on the test split, once.

    The untrained policy, version 0 and the last policy answer tasks that no decision has used. The
    result is recorded, and every later call shows the same.
    """
    from coevolve.cli.show import notes, out
    from coevolve.loop.final import ENDS
    from coevolve.start import final as open_test
    from coevolve.store.ledger import Ledger

    with Ledger.open(folder.resolve()) as ledger:
        if (earlier := ledger.find("phase/run/final")) is not None:
            count = earlier.payload["tasks"]
            other = f"; --tasks {tasks} changes nothing" if count != tasks else ""
            words = f"measured once and for all, with {count:,} tasks, at {earlier.time}{other}"
            notes.print(words, highlight=False)
        elif ledger.state() in ENDS:  # others are refused
            most = f"{tasks:,} test tasks each, or as many as there are"
            words = f"asking three policies {most}; this may take minutes"
            notes.print(words, highlight=False)
    found = open_test(folder, tasks)
    if as_json:
        print(found.model_dump_json())
        return
    if found.words:
        out.print(found.words, highlight=False, soft_wrap=True)
    rows = (("untrained", found.first), ("version 0", found.root), ("at the end", found.last))
    for name, facts in rows:
        if facts is None:  # recorded before it was asked for
            continue
        for metric, rate in facts.rates.items():
            out.print(
                f"{name:10} {metric:7} {100 * rate.rate:.1f} "
                f"[{100 * rate.low:.1f}, {100 * rate.high:.1f}] % of {rate.n:,}  "
                f"{facts.policy}",
                highlight=False,
                soft_wrap=True,
            )
    gains = (("since the untrained policy", found.change), ("since version 0", found.beyond))
    for words, changes in gains:
        for metric, change in changes.items():
            out.print(
                f"{words}, {metric}: {100 * change.mean:+.1f} "
                f"[{100 * change.low:+.1f}, {100 * change.high:+.1f}] points, "
                f"n {change.n:,} tasks",
                highlight=False,
            )
