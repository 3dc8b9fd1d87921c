"""The source of a run: memory whose content must be requested before it is read.

The rows of a run are in a file that may be remote or not yet verified. Code requests the bytes that
it will read, as many as possible at once, so that a remote file needs few requests.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]


class Source(Protocol):
    """A file in memory, whose bytes must be requested before they are read."""

    @property
    def data(self) -> pa.Buffer:
        """All of it."""

    def need(self, begins: Ints, stops: Ints) -> None:
        """Make these spans of bytes readable, or raise an error if they are damaged."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A file that is in memory and known to be good."""

    data: pa.Buffer

    def need(self, begins: Ints, stops: Ints) -> None:
        """Does nothing: all bytes are readable."""
