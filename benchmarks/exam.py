"""The exam as a run asks it: what a taught policy proposes, the middle of its answers, on lessons.

    python benchmarks/exam.py [--model pocket] [--lessons 300]

`coevolve evaluate --domain engineering` asks once per lesson; an engineer in a run is asked often.
"""

import argparse
from statistics import mean

from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.engineering.domain import outcome_of, view_of
from coevolve.engineering.engineer import TaughtEngineer
from coevolve.evaluation.seeds import student
from coevolve.policies.local import LocalPolicy


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--lessons", type=int, default=300)
    arguments = parser.parse_args()
    domain = get_domain("engineering")
    engineer = TaughtEngineer("policy", LocalPolicy(arguments.model))
    tasks = domain.generate(domain.space.defaults(), arguments.lessons, 0, Split.DEV)
    found = []
    for task in tasks:
        view = view_of(task)
        proposal = engineer.propose(view, 0)[0]
        found.append(outcome_of(task, view, proposal.patch.value if proposal.patch else {}))
    middle, reach = student([one.reward for one in found])
    print(
        f"reward {middle:.2f} [{middle - reach:.2f}, {middle + reach:.2f}], "
        f"valid {mean(one.valid for one in found):.0%}, "
        f"harm {mean(one.failure == 'harm' for one in found):.0%}, n {len(found)}"
    )


if __name__ == "__main__":
    main()
