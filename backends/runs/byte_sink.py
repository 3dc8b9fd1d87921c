"""Where a run is written to."""

from typing import Protocol


class Sink(Protocol):
    """What can be written to."""

    def write(self, data: memoryview, /) -> object:
        """Take in some bytes."""
