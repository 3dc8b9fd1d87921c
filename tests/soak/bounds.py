"""The growth, and the longest batch, that a soak run may have."""

from dataclasses import dataclass

LONGEST = 3.0
"""The longest batch may be so many times the median one."""


@dataclass(frozen=True)
class Bounds:
    """The growth over the second half that is still called flat."""

    sizes: float
    """Of keys, bytes and files."""
    memory: float
    time: float
    """Of batches; what else the machine does is in it."""
    longest: float
    """Times the median batch."""


FULL = Bounds(sizes=0.05, memory=0.05, time=0.25, longest=LONGEST)
BRIEF = Bounds(sizes=0.4, memory=0.5, time=1.0, longest=10)
"""In half a minute a JVM is still warming up; what grows with every batch grows by 0.67."""
