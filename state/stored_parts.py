"""Reads the parts of a snapshot on disk, whichever backend wrote it."""

from collections.abc import Callable, Iterator
from typing import Any

from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.row_keys import KeyLayout
from idlestate.state.snapshot_files import SnapshotInfo, read_rows
from idlestate.state.snapshot_parts import TIMERS, Part
from idlestate.state.state_schema import StateSchema
from idlestate.state.table import Row


def stored_parts(info: SnapshotInfo, keys: KeyLayout) -> Iterator[Part]:
    """The parts of a snapshot on disk."""
    if info.is_native:
        # Only restoring files of RocksDB needs its library.
        from idlestate.state.rocksdb.rocksdb_snapshot import native_parts  # noqa: PLC0415

        yield from native_parts(info, keys)
        return
    for record in info.states:
        schema = None if record["kind"] == TIMERS else StateSchema.from_json(record)
        yield Part(record["name"], schema, _reader(info, record))


def _reader(info: SnapshotInfo, record: dict[str, Any]) -> Callable[[KeyGroupRange], Iterator[Row]]:
    def rows(groups: KeyGroupRange) -> Iterator[Row]:
        return read_rows(info.folder / record["file"], record["blocks"], groups)

    return rows
