"""How a command ends that leaves work behind."""

import subprocess
import sys

import pytest

LEFT = """
import atexit, time
from coevolve.core.exit import beside, leave
beside(lambda: time.sleep({seconds})).join(0.2 if {seconds} else 20)
atexit.register(lambda: print("ended in its own time"))
print("said")
leave(SystemExit({code!r}))
"""


def ended(seconds, code):
    """How a process ended that left work of so many seconds behind, if it lasts."""
    command = [sys.executable, "-c", LEFT.format(seconds=seconds, code=code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("code", "status", "words"), [(3, 3, ""), (None, 0, ""), ("went wrong", 1, "went wrong\n")]
)
def test_work_left_behind_does_not_hold_up_the_end(code, status, words):
    assert ended(600, code) == (status, "said\n", words)


def test_work_that_is_over_changes_nothing():
    assert ended(0, 3) == (0, "said\nended in its own time\n", "")
