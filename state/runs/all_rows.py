"""Reads all rows of runs: by key group for snapshots, or in portions."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import layout_of
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import LOWEST_HASH, Runs
from idlestate.retention.policy import FOREVER_MS
from idlestate.state.byte_layout import MERGED
from idlestate.state.descriptors import StateKind
from idlestate.state.key_groups import ALL_GROUPS, KeyGroupRange
from idlestate.state.runs import cell_bytes
from idlestate.state.runs.cell_bytes import Items, split_map
from idlestate.state.runs.entry_rows import markers_in, parts_of, stored_entries
from idlestate.state.runs.working_set import GROUP_BITS
from idlestate.state.state_schema import StateSchema
from idlestate.state.table import Row

AT_ONCE: Final = 1 << 16
"""Rows that are read together."""


def cells_of(rows: Rows, runs: Runs, family: str) -> pa.BinaryArray:
    """The column of a state in rows of these runs."""
    cells = rows.payload[[column.id for column in runs.schema.columns].index(family)]
    assert isinstance(cells, pa.Array)
    return cells


def portions(runs: Runs) -> Iterator[Rows]:
    """All rows in order of place, in portions."""
    since: int | None = LOWEST_HASH
    while since is not None:
        rows, since = runs.open_rows(since, AT_ONCE)
        if len(rows):
            yield rows


def of_groups(runs: Runs, groups: KeyGroupRange) -> Iterator[Rows]:
    """The rows of key groups, in portions of whole groups."""
    since: int | None = groups.first << GROUP_BITS
    end = min((groups.last + 1 << GROUP_BITS) - 1, FOREVER_MS)
    parts: list[Rows] = []
    while since is not None and since <= end:
        rows, since = runs.open_rows(since, AT_ONCE)
        parts += [rows] if len(rows) else []
        is_last = since is None or since > end
        if not parts or (not is_last and _group(since) == _group(int(parts[0].hashes[0]))):
            continue
        whole = Rows.gathered(parts)
        edge = end + 1 if since is None or is_last else _group(since) << GROUP_BITS
        cut = int(np.searchsorted(whole.hashes, edge - 1, side="right"))
        if cut:
            yield whole.slice(0, cut)
        parts = [whole.slice(cut, len(whole))] if cut < len(whole) else []


def _group(place: int | None) -> int:
    return (place or 0) >> GROUP_BITS


def state_rows(
    runs: Runs, schema: StateSchema, entries: Runs | None
) -> Callable[[KeyGroupRange], Iterator[Row]]:
    """The rows of a state as a part of a snapshot, with those of its second table."""

    def rows(groups: KeyGroupRange) -> Iterator[Row]:
        for some in of_groups(runs, groups):
            cells = cells_of(some, runs, schema.family)
            there = cells.is_valid()
            prefixes, cells = some.keys[0].filter(there), cells.filter(there)
            order = pc.array_sort_indices(prefixes)
            prefixes, cells = prefixes.take(order), cells.take(order)
            if schema.kind is StateKind.MAP:
                yield from _map_rows(prefixes, cells, entries)
            elif schema.kind is StateKind.LIST:
                yield from _list_rows(schema, prefixes, cells, entries)
            else:
                yield from map(Row, prefixes.to_pylist(), cells.to_pylist())

    return rows


def _map_rows(
    prefixes: pa.BinaryArray, cells: pa.BinaryArray, entries: Runs | None
) -> Iterator[Row]:
    each = zip(prefixes.to_pylist(), cells, markers_in(cells).marked.tolist(), strict=True)
    for prefix, cell, is_large in each:
        found = _large(entries, prefix) if is_large else split_map(cell)
        if not found:
            yield Row(prefix, b"")
        for user_key, value in found:
            yield Row(prefix + user_key, value)


def _list_rows(
    schema: StateSchema, prefixes: pa.BinaryArray, cells: pa.BinaryArray, entries: Runs | None
) -> Iterator[Row]:
    each = zip(
        prefixes.to_pylist(), cells.to_pylist(), markers_in(cells).marked.tolist(), strict=True
    )
    for prefix, cell, is_large in each:
        value = cell
        if is_large:
            values = pa.array([value for _, value in _large(entries, prefix)], pa.binary())
            items = cell_bytes.decode(replace(schema.layout, kind=StateKind.VALUE), values)
            whole = Items(np.array([len(values)]), items.cells)
            value = cell_bytes.encode(schema.layout, whole, np.array([True]))[0].as_py()
        yield Row(prefix + MERGED, value)


def _large(entries: Runs | None, prefix: bytes) -> list[tuple[bytes, bytes]]:
    """The user keys and row values of a large list or map, in the order of their bytes."""
    assert entries is not None
    _, _, found = stored_entries(entries, pa.array([prefix], pa.binary()))
    names, user_keys = parts_of(found.field("row"))
    values = found.field("cell").to_pylist()
    each = zip(names.to_pylist(), user_keys.to_pylist(), values, strict=True)
    return sorted((user_key, value) for name, user_key, value in each if name == prefix)


def timer_rows(runs: Runs) -> Callable[[KeyGroupRange], Iterator[Row]]:
    """The timers of a queue as a part of a snapshot."""
    return lambda groups: (Row(row, b"") for row in sorted_timers(all_timers(runs), groups))


def all_timers(runs: Runs) -> pa.BinaryArray:
    """The rows of all stored timers."""
    parts = [rows.keys[0] for rows in portions(runs)]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.binary())


def sorted_timers(rows: pa.BinaryArray, groups: KeyGroupRange = ALL_GROUPS) -> Iterator[bytes]:
    """The timers of key groups, in the order of their rows."""
    if not len(rows):
        return
    data, starts, _ = layout_of(rows)
    group = data[starts].astype(np.int64) << 8 | data[starts + 1]
    rows = rows.filter(pa.array((group >= groups.first) & (group <= groups.last)))
    rows = rows.take(pc.array_sort_indices(rows))
    for at in range(0, len(rows), AT_ONCE):
        yield from rows[at : at + AT_ONCE].to_pylist()
