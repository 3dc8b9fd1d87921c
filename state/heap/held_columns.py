"""Columns as they were at one moment, shared with the table that goes on writing to them.

A page of rows is copied before it is first written again, by the one who writes, or when the
snapshot reads it. Which thread comes first does not matter: a reader that finds a page saved after
it read the shared one takes the saved one.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.state.batch_values import Column

PAGE: Final = 1 << 12
"""Rows that are copied at once."""


class Held:
    """What a snapshot holds, until it is released; another thread may do that.

    Attributes:
        released: nobody reads it any more.
    """

    def __init__(self) -> None:
        """Held."""
        self.released = False

    def release(self) -> None:
        """Let go: writers need not keep anything from now on."""
        self.released = True


class HeldColumns(Held):
    """Columns of one length."""

    def __init__(self, columns: Sequence[Column], count: int) -> None:
        """The first rows of these columns as they are now; a column may be empty instead."""
        super().__init__()
        self._columns, self._count = columns, count
        self._saved: list[list[Any] | None] = [None] * -(-count // PAGE)

    def save(self, numbers: Positions) -> None:
        """Keep the pages of these rows, which are about to be written."""
        touched = np.zeros(len(self._saved), dtype=np.bool_)
        touched[numbers[(numbers >= 0) & (numbers < self._count)] // PAGE] = True
        for page in np.flatnonzero(touched).tolist():
            if self._saved[page] is None:
                self._saved[page] = self._read(page)

    def _read(self, page: int) -> list[Any]:
        rows = slice(page * PAGE, min((page + 1) * PAGE, self._count))
        return [column[rows].copy() for column in self._columns]

    def take(self) -> list[Column]:
        """The columns, once; they are released."""
        for page, saved in enumerate(self._saved):
            if saved is None:
                read = self._read(page)
                if self._saved[page] is None:
                    self._saved[page] = read
        self.release()
        empty = [column[:0] for column in self._columns]
        pages = [empty, *(page for page in self._saved if page is not None)]
        return [np.concatenate(parts) for parts in zip(*pages, strict=True)]
