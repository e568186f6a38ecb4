"""What a run has spent.

Invariant: it is summed from the ledger alone, so a resumed run counts nothing twice and forgets
nothing but the seconds of a try that was killed outright.
"""

from pydantic import ValidationError

from coevolve.core.errors import LedgerError
from coevolve.harness.budget import Spent
from coevolve.store.ledger import Ledger


def spent_so_far(ledger: Ledger) -> Spent:
    """The sum of `spent` over all recorded events."""
    total = Spent()
    for number, value in ledger.members("spent"):
        try:
            total += Spent.model_validate(value)
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(map(str, ("spent", *problem["loc"])))
            raise LedgerError(
                f"event {number} of {ledger.folder}: {place} is {problem['input']!r:.80} "
                f"({problem['msg']}); record what `Spent(...).model_dump()` gives"
            ) from None
    return total
