"""Joins small entries of the log of expired records, to limit their number.

Every batch and every step of a sweep adds an entry per shard, even for few records. Adjacent
entries are therefore joined into one, under a key that belongs to no shard. The records and their
numbers stay the same. A joined entry has the time of its newest part, so that a record may be kept
longer than the retention, by at most the time span of one entry.
"""

from bisect import bisect_left
from collections.abc import Sequence
from uuid import uuid4

import pyarrow as pa

from idlestate.sidecar.core.expired_log import LogEntry
from idlestate.sidecar.core.operator_contents import OperatorContents
from idlestate.sidecar.protocol.transfers import CHUNK_BYTES, stream_of

FULL_ROWS = 4096
"""An entry with this many records is full."""
_LEAST = 16
"""The newest entries, which are still growing, are joined at least this many at a time."""


class ExpiredJoins:
    """Joins the entries of one operator."""

    def __init__(self, state: OperatorContents) -> None:
        """Start without knowledge of the log's entries."""
        self._state = state
        self._done = 0
        """Entries below this number are already joined, or cannot be."""

    def step(self, span_ms: int) -> bool:
        """Join the next entries; return whether there may be more to join.

        Args:
            span_ms: entries that are further apart stay apart.

        Raises:
            DamagedDirectoryError: a value of the log is missing.
        """
        log = self._state.log
        at = bisect_left(log.entries, self._done, key=lambda entry: entry.first)
        group, is_complete = _group(log.entries[at : at + FULL_ROWS], span_ms)
        if not is_complete and len(group) < _LEAST:
            return False
        tables = self._read(group)
        if len(tables) < len(group):
            group, is_complete = group[: len(tables)], True
        if len(group) > 1:
            self._join(group, pa.concat_tables(tables).combine_chunks())
        if is_complete:
            self._done = group[-1].stop
        return is_complete

    def _read(self, group: Sequence[LogEntry]) -> list[pa.Table]:
        """The records of the first entries, as many as fit into one value."""
        found: list[pa.Table] = []
        size = 0
        for entry in group:
            table = self._state.log.stored(entry)
            size += table.nbytes
            if found and (size > CHUNK_BYTES or table.schema != found[0].schema):
                break
            found.append(table)
        return found

    def _join(self, group: Sequence[LogEntry], records: pa.Table) -> None:
        """Replace several entries by one, unless some of them were removed."""
        state = self._state
        key = f"j/{state.uid}/{uuid4().hex}"
        at_ms = max(entry.at_ms for entry in group)
        value = stream_of(records)
        joined = LogEntry(group[0].first, len(records), key, at_ms, len(value))
        with state.lock:
            entries = state.log.entries
            at = bisect_left(entries, joined.first, key=lambda entry: entry.first)
            place = slice(at, at + len(group))
            if entries[place] == group:
                values = {key: value, **state.log.values([joined])}
                state.save(state.record, values=values, removed=state.log.keys(group))
                entries[place] = [joined]


def _group(entries: Sequence[LogEntry], span_ms: int) -> tuple[Sequence[LogEntry], bool]:
    """The first entries to join, and whether they are the last ones."""
    rows = 0
    for at, entry in enumerate(entries):
        is_far = entry.at_ms - entries[0].at_ms > span_ms
        if at and (is_far or entry.rows >= FULL_ROWS):
            return entries[:at], True
        rows += entry.rows
        if rows >= FULL_ROWS:
            return entries[: at + 1], True
    return entries, False
