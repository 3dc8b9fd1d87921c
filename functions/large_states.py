"""Converts the large lists and maps of a batch from rows of lives to contents of cells, and
back.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.fields import Field
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.shards.entry_markers import Marker
from idlestate.backends.shards.function_state_columns import StateColumns
from idlestate.backends.shards.state_entries import ChangedEntries, Edits, StateEntries
from idlestate.functions.large_contents import LargeContent, LargeList, LargeMap
from idlestate.functions.read_ahead import ReadAhead
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]

ROW_BYTES: Final = 1 << 14
"""A list or map that needs more bytes than this in the row becomes large, and stays large until it
is empty.

Measured on maps of 1,000 entries (28 KB): the table makes a put 5 times as fast, and reading a
whole map 1.7 times as slow.
"""


class LargeState:
    """The large lists or maps of one state in one batch of a shard.

    Attributes:
        changed: the changes to write to its table; None if there are none.
    """

    def __init__(self, state: StateColumns, runs: Runs, batch_id: int) -> None:
        """Take the table of the state."""
        self._state = state
        self._entries = StateEntries(state, runs)
        self._reads = ReadAhead(self._entries)
        self._next_owner = batch_id << 32  # it is higher in later batches
        self._opened: dict[int, int] = {}
        self.changed: ChangedEntries | None = None

    def opened(self, contents: Sequence[Any], hashes: Ints) -> list[Any]:
        """Contents with markers replaced by what cells use.

        Args:
            contents, hashes: the content and hash of each key.
        """
        make = LargeList if self._state.key_type is None else LargeMap
        found = list(contents)
        for at, each in enumerate(contents):
            if each.__class__ is Marker:
                key_hash = self._opened[each.owner] = int(hashes[at])
                self._reads.add(each, key_hash)
                found[at] = make(each, key_hash, self._reads, stamped=self._state.stamped)
        return found

    def plain(self, contents: Sequence[Any]) -> Sequence[Any]:
        """Contents without large ones, for the columns of rows."""
        return [None if isinstance(each, LargeContent) else each for each in contents]

    def closed(self, fields: list[Field], contents: Sequence[Any], hashes: Ints) -> list[Field]:
        """The columns of rows with markers of large contents; `changed` has the entries.

        Args:
            fields: the columns of `plain`.
            contents, hashes: as in `opened`, after the batch.
        """
        edits, is_large = Edits(), np.zeros(len(contents), dtype=bool)
        is_large[self._too_long(fields)] = True
        many = is_large.copy()
        large = dict[int, LargeContent]()
        for at, each in enumerate(contents):
            if isinstance(each, LargeContent):
                large[at], is_large[at] = each, True
                self._opened.pop(each.marker.owner)
        for at in np.flatnonzero(is_large).tolist():
            if at in large:
                large[at].changes(edits)
            else:
                self._move_out(edits, contents[at], int(hashes[at]))
        if not edits.markers and not self._opened:
            return fields
        self.changed, markers = self._entries.changed(
            edits, list(self._opened), list(self._opened.values())
        )
        cells: list[bytes | None] = [None] * len(contents)
        for at, marker in zip(np.flatnonzero(is_large).tolist(), markers, strict=True):
            cells[at] = (large[at].after(marker) if at in large else marker).cell()
        if many.any():
            gone = pa.array(many)
            fields = [pc.if_else(gone, pa.scalar(None, pa.binary()), part) for part in fields]
        return [*fields[:-1], pa.array(cells, pa.binary())]

    def _too_long(self, fields: Sequence[Field]) -> npt.NDArray[np.bool_]:
        """Which contents need too many bytes in the row."""
        size: Any = 0
        for each in fields[:-1]:
            size = size + pc.binary_length(each).fill_null(0).to_numpy(zero_copy_only=False)
        found: npt.NDArray[np.bool_] = size > ROW_BYTES
        return found

    def _move_out(self, edits: Edits, content: Any, key_hash: int) -> None:
        """Move all entries of a content from the row to the table."""
        names, items, count = content, content, len(content)
        if self._state.key_type is None:
            names = range(count)
        else:
            items = content.values()
        latest_ms, values, stamps_ms = NEVER_MS, list(items), [0] * count
        if self._state.stamped:
            values, stamps_ms = map(list, zip(*items, strict=True))
            latest_ms = max(stamps_ms)
        edits.markers.append(Marker(self._next_owner, 0, 0, latest_ms))
        edits.hashes.append(key_hash)
        edits.sizes.append(count)
        edits.keys += names
        edits.values += values
        edits.stamps_ms += stamps_ms
        edits.at_end += [True] * count
        edits.horizons_ms += [NEVER_MS] * count
        self._next_owner += 1
