"""Where a run is read from: memory that may be asked for before it is there.

The rows of a run lie in a file that may be far away, or that nobody has checked. Code that reads
some of it asks for these bytes first, for as many as possible at once: a file far away is asked few
times.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]


class Source(Protocol):
    """A file in memory, to be asked before it is read."""

    @property
    def data(self) -> pa.Buffer:
        """All of it."""

    def need(self, begins: Ints, stops: Ints) -> None:
        """Make these spans of bytes readable, or raise what is wrong with them."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A file that is in memory and known to be good."""

    data: pa.Buffer

    def need(self, begins: Ints, stops: Ints) -> None:
        """All of it is there."""
