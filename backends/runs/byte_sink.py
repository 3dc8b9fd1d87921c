"""The destination of a run."""

from typing import Protocol


class Sink(Protocol):
    """Accepts written bytes."""

    def write(self, data: memoryview, /) -> object:
        """Write some bytes."""
