"""Columns at one moment, shared with a table that continues to write to them.

A page of rows is copied by the writer before its first change, or when the snapshot reads it. The
order of threads does not matter: if a page was saved after a reader read the shared one, the reader
uses the saved page.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.state.batch_values import Column

PAGE: Final = 1 << 12
"""Rows that are copied together."""


class Held:
    """The part of a table that a snapshot holds until it is released, maybe by another thread.

    Attributes:
        released: whether reading has ended.
    """

    def __init__(self) -> None:
        """Start held."""
        self.released = False

    def release(self) -> None:
        """Release it: writers need not save pages from now on."""
        self.released = True


class HeldColumns(Held):
    """Columns of one length."""

    def __init__(self, columns: Sequence[Column], count: int) -> None:
        """Take the first rows of these columns at this moment; a column may be empty instead."""
        super().__init__()
        self._columns, self._count = columns, count
        self._saved: list[list[Any] | None] = [None] * -(-count // PAGE)

    def save(self, numbers: Positions) -> None:
        """Save the pages of these rows, which are about to be written."""
        touched = np.zeros(len(self._saved), dtype=np.bool_)
        touched[numbers[(numbers >= 0) & (numbers < self._count)] // PAGE] = True
        for page in np.flatnonzero(touched).tolist():
            if self._saved[page] is None:
                self._saved[page] = self._read(page)

    def _read(self, page: int) -> list[Any]:
        rows = slice(page * PAGE, min((page + 1) * PAGE, self._count))
        return [column[rows].copy() for column in self._columns]

    def take(self) -> list[Column]:
        """The columns, once; releases them."""
        for page, saved in enumerate(self._saved):
            if saved is None:
                read = self._read(page)
                if self._saved[page] is None:
                    self._saved[page] = read
        self.release()
        empty = [column[:0] for column in self._columns]
        pages = [empty, *(page for page in self._saved if page is not None)]
        return [np.concatenate(parts) for parts in zip(*pages, strict=True)]
