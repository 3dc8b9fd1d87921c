"""The destination of a run."""

from typing import Protocol


class Sink(Protocol):
    """Accepts written bytes."""

    def write(self, data: memoryview, /) -> object:
        """Write some bytes."""


class Pieces(list[memoryview]):
    """A sink in memory. It copies nothing until all is written; until then, what was written must
    not change.
    """

    write = list.append

    def joined(self) -> bytes:
        """Everything written, copied once; the sink is empty then."""
        data = b"".join(self)
        self.clear()
        return data
