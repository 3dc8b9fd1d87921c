"""What is given back is kept: arrays that are made again and again touch no fresh pages."""

import subprocess
import sys

PROGRAM = """
import resource, sys
import numpy as np
from idlestate.backends.runs.memory_allocator import keep_memory

if sys.argv[1] == "kept":
    keep_memory()
arrays = [np.ones(1 << 17) for _ in range(8)]
del arrays
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    arrays = [np.ones(1 << 17) for _ in range(8)]
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(words: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, words], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_kept_memory_is_used_again() -> None:
    # 8 MB twenty times over are some 40,000 pages.
    assert faults("kept") < 1000


def test_kept_objects_are_passed_over() -> None:
    program = """
import gc
from idlestate.backends.runs.memory_allocator import keep_objects

before = len(gc.get_objects())
keep_objects()
print(len(gc.get_objects()) < before / 10, gc.get_freeze_count() > before / 2)
"""
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
