"""How a command ends that leaves work behind."""

import subprocess
import sys

import pytest

from coevolve.core.leaving import leave

LEFT = """
import atexit, time
from coevolve.core.leaving import beside, leave
beside(lambda: time.sleep(60))
atexit.register(lambda: print("ended in its own time"))
print("said")
leave(SystemExit({code!r}))
"""


@pytest.mark.parametrize(
    ("code", "status", "words"), [(3, 3, ""), (None, 0, ""), ("went wrong", 1, "went wrong\n")]
)
def test_work_left_behind_does_not_hold_up_the_end(code, status, words):
    command = [sys.executable, "-c", LEFT.format(code=code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, "said\n", words)


def test_without_any_the_end_is_as_usual():
    leave(SystemExit(3))
