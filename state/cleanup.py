"""Removal of expired values: in steps during accesses, in sweeps, in snapshots and in compactions.

They treat lists differently, as in Flink:

    step, sweep    removes expired elements anywhere in the list
    snapshot       removes the expired elements at the start of the list
    compaction     the same, but each append that is not merged yet is treated alone
"""

from collections.abc import Callable, Iterator
from itertools import chain, dropwhile, repeat
from typing import Final

from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS
from idlestate.state.batch_values import Stored
from idlestate.state.byte_layout import MERGED, NO_VALUE, ValueLayout
from idlestate.state.descriptors import StateKind
from idlestate.state.table import Row, Table, Walk
from idlestate.state.ttl_layer import Ttl


def cut(items: list[Stored], ttl: Ttl, now_ms: int) -> list[Stored]:
    """The list without the expired elements at its start."""
    return list(dropwhile(lambda item: ttl.expired(item, now_ms), items))


class IncrementalStep:
    """Cleanup during accesses: each access pays for visiting a few keys.

    The keys are visited in portions, since visiting one key costs as much as visiting a hundred
    together. Between portions, a step only advances an iterator.

    Attributes:
        step: called by each access.
    """

    PORTION: Final = 1024

    def __init__(self, table: Table, ttl: Ttl, size: int) -> None:
        """Steps of this many keys."""
        self._table, self._ttl, self._size = table, ttl, size
        self._walk: Walk | None = None
        self.step: Callable[[], object] = chain.from_iterable(self._portions()).__next__
        self._begun_ms = ttl.clock_ms()
        self._oldest_ms = self._begun_ms if table.is_blank() else NEVER_MS

    def _portions(self) -> Iterator[Iterator[None]]:
        """Yield for accesses that only count; visit a portion once enough accesses have been
        counted.
        """
        accesses = max(self.PORTION // self._size, 1)
        while True:
            if not self._go(accesses * self._size):
                self._go(accesses * self._size)
            yield repeat(None, accesses)

    def _go(self, limit: int) -> int:
        """Visit keys; return their number.

        The walk ends at the end of the table. The next one starts when the oldest remaining
        timestamp can have expired; before that, it would find nothing.
        """
        now = self._ttl.clock_ms()
        horizon = self._ttl.horizon_ms(now)
        self._begun_ms = min(self._begun_ms, now)  # the clock may have been set back
        if self._walk is None:
            if horizon < min(self._oldest_ms, self._begun_ms):
                return limit
            self._walk = self._table.walk()
            self._oldest_ms, self._begun_ms = FOREVER_MS, now
        visit = self._walk.visit(limit, horizon)
        self._oldest_ms = min(self._oldest_ms, visit.oldest_ms)
        if visit.done:
            self._walk = None
        return visit.seen


class SnapshotFilter:
    """Leaves expired values out of the rows of a snapshot.

    Args:
        layout: the layout of the state's values.
        ttl: its rule.
        now_ms: the time of the asynchronous phase.
        marks_entries: replace an expired map entry by a null marker, as in RocksDB's savepoints,
            instead of removing it.
    """

    def __init__(self, layout: ValueLayout, ttl: Ttl, now_ms: int, *, marks_entries: bool) -> None:
        self._layout = layout
        self._now_ms = now_ms
        self._ttl = ttl
        self._marks = marks_entries

    def __call__(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The remaining rows."""
        layout, ttl, now = self._layout, self._ttl, self._now_ms
        for row in rows:
            if not row.value:
                continue  # an empty map
            if layout.kind is StateKind.LIST:
                items = cut(layout.decode_items(row.value), ttl, now)
                if items:
                    yield Row(row.key, layout.encode_items(items))
            elif not ttl.expired(layout.decode(row.value), now):
                yield row
            elif self._marks and layout.kind is StateKind.MAP:
                yield Row(row.key, NO_VALUE)


class CompactionFilter:
    """Filters the rows of lists in RocksDB one by one.

    The clock is read again after some rows, as in Flink's filter.
    """

    def __init__(self, layout: ValueLayout, ttl: Ttl, query_time_after: int) -> None:
        """A filter for rows of this layout."""
        self._layout = layout
        self._ttl = ttl
        self._each = max(query_time_after, 1)
        self._rows = 0
        self._now_ms = 0

    def _now(self) -> int:
        if self._rows % self._each == 0:
            self._now_ms = self._ttl.clock_ms()
        self._rows += 1
        return self._now_ms

    def merge(self, rows: list[Row]) -> list[Stored]:
        """The rows of one list, the merged row first, as one list without expired elements."""
        now, kept = self._now(), []
        for row in rows:
            kept += cut(self._layout.decode_items(row.value), self._ttl, now)
        return kept


def lists_in(rows: Iterator[Row], end_of_prefix: Callable[[bytes], int]) -> Iterator[list[Row]]:
    """Rows of list state, grouped by list."""
    together: list[Row] = []
    prefix = b""
    for row in rows:
        start = row.key[: end_of_prefix(row.key)]
        if together and start != prefix:
            yield together
            together = []
        prefix = start
        together.append(row)
    if together:
        yield together


def merged_row(together: list[Row], value: bytes) -> Row:
    """One row for a list."""
    return Row(together[0].key[: -len(MERGED)] + MERGED, value)
