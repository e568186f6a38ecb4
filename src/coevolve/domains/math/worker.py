"""The process that asks math-verify: pairs of LaTeX in, verdicts out, one line of JSON each.

Run by `symbolic`, which ends it when it takes too long. Only the LaTeX parser is used: the one for
plain expressions evaluates Python. Memory is limited, since a short formula can fill any machine.
"""

import json
import os
import resource
import sys

MEMORY = 4 << 30


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries that print must not be read as verdicts
    import logging

    from math_verify import LatexExtractionConfig, parse, verify

    logging.disable(logging.CRITICAL)

    def read(latex: str) -> list[object]:
        found: list[object] = parse(
            f"${latex}$", [LatexExtractionConfig()], fallback_mode="no_fallback",
            parsing_timeout=0,
        )  # fmt: skip
        return found

    def say(value: object) -> None:
        replies.write(json.dumps(value) + "\n")
        replies.flush()

    say("ready")
    for line in sys.stdin:
        gold, answer = json.loads(line)
        try:
            known = read(gold)
            say(bool(known) and bool(verify(known, read(answer), timeout_seconds=0)))
        except (Exception, RecursionError, MemoryError):  # any formula may break the library
            say(False)


if __name__ == "__main__":
    main()
