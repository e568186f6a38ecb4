"""Valid plans per CPU second that pymapf's conflict checker passes.

`pymapf.find_first_conflict` is what the library validates its own solvers' output with
(`Solution.is_valid` is a call of it).  A valid plan makes it look at every pair of agents at every
time, for a shared cell or a swap.  It does not look at obstacles, at whether moves are to
neighbouring cells, or at starts and goals: nothing in pymapf checks those in a plan.

Choices that favour pymapf: the function is called directly, and plans are parsed and turned into
its own types (a dict of lists of cell tuples) before the clock starts.

The plans file is a JSON list of objects; only "paths" is read: for each agent, its [row, column]
at every time from 0 on.
"""

import json
from pathlib import Path

from peer_clock import argument_parser, pin_to_one_core, print_report, rate
from pymapf import find_first_conflict

Paths = dict[str, list[tuple[int, int]]]


def read_plans(file: Path) -> list[Paths]:
    """The paths of every plan in the file, as pymapf takes them."""
    return [
        {str(agent): [(row, col) for row, col in path] for agent, path in enumerate(plan["paths"])}
        for plan in json.loads(file.read_text())
    ]


def check_verdicts(plans: list[Paths]) -> None:
    """Make sure that every plan passes, and that one with two agents in one place would not."""
    if any(find_first_conflict(paths) is not None for paths in plans):
        raise SystemExit("a plan has a conflict; only valid plans may be timed")
    first = next(iter(plans[0].values()))
    if find_first_conflict({"one": first, "other": first}) is None:
        raise SystemExit("the checker passed a plan with a conflict")


def main() -> None:
    """Check the verdicts, measure, and print the report."""
    parser = argument_parser(__doc__)
    parser.add_argument("--plans", type=Path, required=True, help="JSON file of valid plans")
    arguments = parser.parse_args()
    pin_to_one_core()
    plans = read_plans(arguments.plans)
    check_verdicts(plans)

    def chunk() -> int:
        for paths in plans:
            find_first_conflict(paths)
        return len(plans)

    settings = {
        "plans": len(plans),
        "agents": len(plans[0]),
        "steps": max(map(len, plans[0].values())) - 1,
    }
    rates = {"find_first_conflict": rate(chunk, arguments.seconds)}
    print_report("pymapf", settings, rates)


if __name__ == "__main__":
    main()
