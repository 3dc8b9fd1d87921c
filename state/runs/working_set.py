"""The working set: rows of the keys that were touched since rows were last written back.

A row belongs to a key and namespace, which `row_keys.py` encodes as its prefix. It has a column per
state. When a prefix is touched for the first time, it is looked up in the runs, once for all
states, and numbered; from then on, its number identifies it. A batch of prefixes is looked up
together.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Flags, Positions, layout_of
from idlestate.backends.runs.byte_index import ABSENT, ByteIndex, grown
from idlestate.backends.runs.changed_rows import WrittenRows, changed_rows
from idlestate.backends.runs.entry_places import upper_bits
from idlestate.backends.runs.fields import is_valid
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.runs.table_schema import Column, TableSchema
from idlestate.state.codec import codec_for
from idlestate.state.key_batch import KeyBatch
from idlestate.state.row_keys import KeyLayout

MOST_ROWS: Final = 1 << 18
"""Rows in memory before they are written back."""

GROUP_BITS: Final = 48
"""Bits of the hash in a row's place, below its key group: a group is one range of rows."""

BYTES: Final = codec_for(pa.binary())
KEYS: Final = (("row", pa.binary()),)


class RowAddress(NamedTuple):
    """A row in memory."""

    prefix: bytes
    number: int


def column(family: str) -> Column:
    """The column of a state."""
    return Column(family, pa.array([None], pa.binary()))


def places_of(prefixes: pa.BinaryArray) -> Positions:
    """The places of rows in a run: by key group, then by hash."""
    found: Positions = groups_of(prefixes) << GROUP_BITS | upper_bits(prefixes, GROUP_BITS)
    return found


def groups_of(rows: pa.BinaryArray) -> Positions:
    """The key groups of rows, with which all rows begin."""
    data, starts, _ = layout_of(rows)
    found: Positions = data[starts].astype(np.int64) << 8 | data[starts + 1]
    return found


class WorkingSet:
    """Numbered rows.

    Attributes:
        stored: the runs below.
        index: numbers the prefixes.
        dirty: whether each row has changed, by number.
        spill: writes rows back.
    """

    def __init__(
        self,
        keys: KeyLayout,
        stored: Runs,
        spill: Callable[[], None],
        entries: Callable[[], int],
    ) -> None:
        """Start without rows in memory.

        Args:
            keys: the layout of keys.
            stored: the runs.
            spill: writes rows back if there are too many.
            entries: returns the number of rows of second tables in memory.
        """
        self.keys, self.spill, self._entries = keys, spill, entries
        self.reset(stored)

    def reset(self, stored: Runs) -> None:
        """Drop all rows from memory: these runs have them."""
        self.stored = stored
        self.index = ByteIndex()
        self.dirty = np.zeros(0, dtype=np.bool_)
        self._at = np.zeros(0, dtype=np.int64)  # the row's position in the runs
        self._ones: dict[Any, dict[Any, RowAddress]] = {}
        self._starts: list[int] = []
        self._parts: dict[str, list[pa.BinaryArray]] = {
            each.id: [] for each in stored.schema.columns
        }

    def use_columns(self, families: Iterable[str]) -> None:
        """Use these columns: new ones are empty, others are dropped."""
        self.stored = self.stored.with_schema(TableSchema(KEYS, tuple(map(column, families))))
        sizes = np.diff([*self._starts, self.index.count]).tolist()
        self._parts = {
            each.id: self._parts.get(each.id) or [pa.nulls(size, pa.binary()) for size in sizes]
            for each in self.stored.schema.columns
        }

    # -------------------------------------------------------------- touching rows

    def one(self, key: Any, namespace: Any) -> RowAddress:
        """The row of a key."""
        space = self._ones.get(namespace)
        if space is None:
            space = self._ones[namespace] = {}
        found = space.get(key)
        if found is None:
            prefix = self.keys.prefix(key, namespace)
            number = self.index.find_one(prefix, 0)
            if number == ABSENT:
                number = int(self.numbers(pa.array([prefix], pa.binary()))[0])
            found = RowAddress(prefix, number)
            self._ones.setdefault(namespace, {})[key] = found
        return found

    def many(self, keys: KeyBatch, namespace: Any) -> tuple[KeyBatch, Positions]:
        """The rows of keys: their prefixes and numbers."""
        prefixes = self.keys.prefixes(keys, namespace)
        return KeyBatch(BYTES, prefixes), self.numbers(prefixes)

    def numbers(self, prefixes: pa.BinaryArray) -> Positions:
        """The numbers of rows; those not in memory are fetched together."""
        if self.is_full:
            self.spill()
        return self.kept_numbers(prefixes)

    def kept_numbers(self, prefixes: pa.BinaryArray) -> Positions:
        """The same, without writing rows back, however many are in memory."""
        first = self.index.count
        numbers, new = self.index.add(prefixes, 0)
        if len(new):
            self._fetch(self.prefixes(new), first, {})
        return numbers

    @property
    def is_full(self) -> bool:
        """Whether there are too many rows in memory."""
        return self.index.count + self._entries() > MOST_ROWS

    def mark(self, prefixes: pa.BinaryArray) -> None:
        """Note that rows in memory changed."""
        self.dirty[self.index.find(prefixes, 0)] = True

    def put(self, prefixes: pa.BinaryArray, family: str, cells: pa.BinaryArray) -> None:
        """Load rows that are not in memory yet, with given cells for one state."""
        first = self.index.count
        self.index.add(prefixes, 0)
        self._fetch(prefixes, first, {family: cells})
        self.dirty[first:] = True

    def has(self, prefixes: pa.BinaryArray) -> Flags:
        """Whether each row is in memory."""
        found: Flags = self.index.find(prefixes, 0) != ABSENT
        return found

    def prefixes(self, numbers: Positions) -> pa.BinaryArray:
        """The prefixes of rows."""
        return self.index.keys.take(pa.array(numbers)).cast(pa.binary())

    def _fetch(
        self, prefixes: pa.BinaryArray, first: int, instead: Mapping[str, pa.BinaryArray]
    ) -> None:
        """Read rows, numbered from `first` on, from the runs."""
        count = self.index.count
        self.dirty, self._at = grown(self.dirty, count), grown(self._at, count)
        self.dirty[first:] = False
        at = self._at[first:count]
        at[:] = ABSENT
        found: dict[str, pa.BinaryArray] = {}
        if self.stored.runs:
            places = places_of(prefixes)
            order = np.argsort(places)
            at[order], rows = self.stored.look_up(places[order], [prefixes.take(pa.array(order))])
            there = order[at[order] != ABSENT]
            row = np.full(len(at), ABSENT)
            row[there] = np.arange(len(there))
            wanted = pa.array(row, mask=row == ABSENT)
            each = zip(self.stored.schema.columns, rows.payload, strict=True)
            found = {column.id: field.take(wanted) for column, field in each}
        for family, parts in self._parts.items():
            cells = instead.get(family, found.get(family))
            parts.append(pa.nulls(len(at), pa.binary()) if cells is None else cells)
        self._starts.append(first)

    # -------------------------------------------------------------- what was fetched

    def together(self, number: int) -> Positions:
        """The rows that were fetched together with this one."""
        at = bisect_right(self._starts, number)
        end = self._starts[at] if at < len(self._starts) else self.index.count
        return np.arange(self._starts[at - 1], end)

    def cells(self, family: str, numbers: Positions) -> pa.BinaryArray:
        """The cells of rows in the column of a state when they were fetched."""
        parts, starts = self._parts[family], self._starts
        if not len(numbers):
            return pa.array([], pa.binary())
        low, high = int(numbers.min()), int(numbers.max())
        at = bisect_right(starts, low) - 1
        if at + 1 < len(starts) and high >= starts[at + 1]:
            self._gather()
            parts, at = self._parts[family], 0
        return parts[at].take(pa.array(numbers - self._starts[at]))

    def cells_since(self, family: str, first: int) -> Iterator[pa.BinaryArray]:
        """The same for all rows from this number on, in order."""
        at = max(bisect_right(self._starts, first) - 1, 0)
        for start, part in zip(self._starts[at:], self._parts[family][at:], strict=True):
            yield part.slice(max(first - start, 0))

    def _gather(self) -> None:
        for parts in self._parts.values():
            parts[:] = [pa.concat_arrays(parts)]
        self._starts = [0]

    # -------------------------------------------------------------- writing back

    def changed(
        self, cells: Mapping[str, Callable[[Positions], pa.BinaryArray]]
    ) -> WrittenRows | None:
        """The changes to write; None if there are none.

        Args:
            cells: per column a function that returns the current cells of rows.
        """
        numbers = np.flatnonzero(self.dirty[: self.index.count])
        columns = [cells[each.id](numbers) for each in self.stored.schema.columns]
        gone = np.ones(len(numbers), dtype=np.bool_)
        for each in columns:
            gone &= ~is_valid(each)
        prefixes = self.prefixes(numbers)
        places = places_of(prefixes)
        return changed_rows(self.stored, self._at[numbers], gone, prefixes, columns, places)
