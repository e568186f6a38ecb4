"""Write generated tasks to a JSONL file, as `coevolve tasks generate` does, and report the price.

It is a program of its own since peak memory belongs to a process. It prints one JSON object.
"""

import argparse
import json
import time
from pathlib import Path

from plans import make_knobs

from coevolve.core.files import writing
from coevolve.core.splits import Split
from coevolve.domains.lake.generate import CHUNK, generate


def peak_mib() -> float:
    """The most memory this process has had.

    Not `ru_maxrss`: on Linux that begins with the peak of the process that started this one.
    """
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    knobs = make_knobs(0.5)
    for task in generate(knobs, CHUNK, 1, Split.TRAIN):  # loads the compiled code
        task.model_dump_json()
    before = peak_mib()
    begin = time.process_time()
    with writing(arguments.output) as target:
        for task in generate(knobs, arguments.count, 0, Split.TRAIN):
            target.write(task.model_dump_json() + "\n")
    seconds = time.process_time() - begin
    lines = sum(1 for _ in arguments.output.open(encoding="utf-8"))
    report = {"lines": lines, "seconds": seconds, "warm_mib": before, "peak_mib": peak_mib()}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
