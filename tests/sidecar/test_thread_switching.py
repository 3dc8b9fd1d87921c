"""Threads of the sidecar do not compute for long while another one waits."""

import subprocess
import sys

PROGRAM = """
import sys
from idlestate.sidecar.core.thread_switching import take_short_turns

before = sys.getswitchinterval()
take_short_turns()
print(sys.getswitchinterval() <= before / 5)
"""


def test_turns_are_shorter_than_python_s_own() -> None:
    words = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
