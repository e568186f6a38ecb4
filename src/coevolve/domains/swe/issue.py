"""The issue: what somebody who met the faults would write, giving away more or less."""

from coevolve.domains.swe.work import Work

LEVELS = ("what is seen", "the tests", "the files", "the functions", "the lines")
"""What each level of the hint adds."""


def issue(work: Work) -> str:
    """The text of the issue."""
    package = work.source.partition("==")[0].rpartition("/")[2]
    many = len(work.faults) > 1
    lines = [f"{package} does not behave as it should.", "", "What is seen:"]
    lines += [f"- {message}" if message else "- a test fails" for message in work.seen]
    if work.hint >= 1:
        lines += ["", f"Hidden tests that fail: {', '.join(test_names(work)[:6])}."]
    faults = sorted(work.faults, key=lambda fault: (fault.path, fault.line))
    if work.hint >= 2:
        where = []
        for fault in faults:
            place = fault.path
            if work.hint >= 3:
                place += f", in {fault.function}"
            if work.hint >= 4:
                place += f", line {fault.line}"
            where.append(place)
        lines += [
            "",
            f"The fault{'s are' if many else ' is'} in: {'; '.join(dict.fromkeys(where))}.",
        ]
    elif many:
        lines += ["", f"There are {len(work.faults)} faults."]
    return "\n".join(lines)


def test_names(work: Work) -> list[str]:
    """Short names of the hidden tests, each once."""
    names = (name.partition("[")[0].rpartition("::")[2] for name in work.fail)
    return list(dict.fromkeys(names))
