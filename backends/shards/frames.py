"""Frames of `over`: the rows of a life that a row's aggregates include.

As in SQL, a ROWS frame counts single rows, and a RANGE frame includes all rows with the same time
(peers) together.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, take, to_arrow
from idlestate.backends.runs.value_order import order_keys
from idlestate.retention.lives import DividedLives

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_UNBOUNDED = "unbounded"


class FrameUnit(StrEnum):
    """The unit of a frame."""

    ROWS = "rows"
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows that a row's aggregates include: up to the row itself, or up to its last peer.

    Attributes:
        unit: whether rows with the same time count one by one or together.
        size: the number of rows, including the row itself, or milliseconds before its time; None:
            all rows of the life.
    """

    unit: FrameUnit = FrameUnit.RANGE
    size: int | None = None

    def __str__(self) -> str:
        return f"{self.unit} {_UNBOUNDED if self.size is None else self.size}"

    @classmethod
    def parse(cls, text: str) -> "Frame":
        """Read it back.

        Raises:
            ValueError: the text is not a frame.
        """
        unit, size = text.split(" ")
        return cls(FrameUnit(unit), None if size == _UNBOUNDED else int(size))

    def lasts(self, life: Ints, t_ms: Ints) -> Ints:
        """The last row of each row's frame.

        Args:
            life, t_ms: life and time of each row, both ascending.
        """
        n = len(life)
        if self.unit is FrameUnit.ROWS:
            return np.arange(n)
        is_last = np.ones(n, dtype=bool)
        is_last[:-1] = (life[1:] != life[:-1]) | (t_ms[1:] != t_ms[:-1])
        return np.minimum.accumulate(np.where(is_last, np.arange(n), n)[::-1])[::-1]

    def sizes(self, life: Ints, t_ms: Ints, lasts: Ints) -> Ints:
        """The number of rows in the bounded frames that end with these rows."""
        assert self.size is not None
        if self.unit is FrameUnit.ROWS:
            upto: Ints = np.minimum(lasts - np.searchsorted(life, life[lasts]) + 1, self.size)
            return upto
        # Where each frame begins: the position of its first time among all times, before equal
        # ones.
        frames, n = len(lasts), len(life)
        is_row = np.repeat([False, True], [frames, n])
        times_ms = np.concatenate([t_ms[lasts] - self.size, t_ms])
        order = np.lexsort((is_row, times_ms, np.concatenate([life[lasts], life])))
        first = np.empty(frames + n, dtype=np.int64)
        first[order] = np.cumsum(is_row[order])
        sizes: Ints = lasts - first[:frames] + 1
        return sizes

    def stays(self, life: Ints, t_ms: Ints) -> Flags:
        """Which rows are in the frame of their life's last row; no other row can count later."""
        stops = np.append(np.flatnonzero(np.diff(life)), len(life) - 1)
        sizes = self.sizes(life, t_ms, stops)
        found: Flags = np.arange(len(life)) > np.repeat(stops - sizes, np.diff(stops, prepend=-1))
        return found


WHOLE_LIFE = Frame()
"""The frame of OVER without one in SQL."""


def row_order(walk: DividedLives, records: int, t_ms: Ints, columns: list[Field]) -> Ints:
    """The rows of a walk, with records of the same time in order of their values.

    Args:
        walk: how stored lives and records fall into lives.
        records: how many records there are.
        t_ms: their times.
        columns: sort columns for records with the same time, the most important first.

    Returns:
        `walk.source` reordered. The order of records with equal values is not defined.
    """
    stored = len(walk.source) - records
    is_record = walk.source >= stored
    life = life_of_rows(walk)[is_record]
    is_tied = np.zeros(records, dtype=bool)
    is_tied[1:] = (life[1:] == life[:-1]) & (t_ms[1:] == t_ms[:-1])
    group = np.cumsum(~is_tied)
    is_tied[:-1] |= is_tied[1:]
    tied = np.flatnonzero(is_tied)
    if not len(tied):
        return walk.source
    keys = [key for column in columns for key in order_keys(_at(column, tied))]
    source, order = walk.source.copy(), np.arange(records)
    order[tied] = tied[np.lexsort((*reversed(keys), group[tied]))]
    source[is_record] = stored + order
    return source


def life_of_rows(walk: DividedLives) -> Ints:
    """The life of each row of a walk whose records are all writes."""
    sizes = np.diff(np.append(walk.life_start, len(walk.source)))
    return np.repeat(np.arange(len(walk.life_start)), sizes)


def _at(column: Field, rows: Ints) -> pa.Array:
    return to_arrow(take(column, rows))
