"""The way in: `open_backend`."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

import pyarrow as pa

from idlestate.state.backend import KeyedStateBackend
from idlestate.state.errors import StateError
from idlestate.state.heap.heap_backend import HeapKeyedStateBackend
from idlestate.state.key_groups import (
    DEFAULT_MAX_PARALLELISM,
    KeyGroupRange,
    key_group_range,
)
from idlestate.state.settings import BackendSettings
from idlestate.timers.clock import Clock, SystemClock

Place = str | PathLike[str]


def open_backend(
    kind: Literal["heap", "rocksdb"],
    path: Place | None = None,
    *,
    max_parallelism: int = DEFAULT_MAX_PARALLELISM,
    key_type: pa.DataType | None = None,
    namespace_type: pa.DataType | None = None,
    groups: KeyGroupRange | None = None,
    clock: Clock | None = None,
    restore: Sequence[Place] = (),
) -> KeyedStateBackend:
    """Open keyed state; use it in a `with` statement, or close it.

    Args:
        kind: where state lives: in this process's memory, or in RocksDB.
        path: the folder of RocksDB's files, made where there is none; heap takes none.
        max_parallelism: key groups there are, for good: 1 to 32768.
        key_type: Arrow type of keys, strings when not said.
        namespace_type: Arrow type of namespaces, strings when not said.
        groups: the key groups held here, all when not said.
        clock: whose time counts, the machine's when not said.
        restore: folders of snapshots to begin with, of either kind of backend; what they hold of
            other key groups is left there.

    Raises:
        KeyGroupError: the numbers do not fit together, or not those of a snapshot.
        SnapshotError: a snapshot cannot be read.
        StateMigrationError: keys or namespaces are stored as other types.
        StorageError: RocksDB does not open.
    """
    settings = BackendSettings(
        key_type=key_type or pa.string(),
        namespace_type=namespace_type or pa.string(),
        max_parallelism=max_parallelism,
        groups=groups or key_group_range(max_parallelism, 1, 0),
        clock=clock or SystemClock(),
        restore=[Path(folder) for folder in restore],
    )
    if kind == "heap":
        if path is not None:
            raise StateError("heap state has no folder: leave path out, or open rocksdb")
        return HeapKeyedStateBackend(settings)
    if kind != "rocksdb":
        raise StateError(f"there is no backend {kind!r}: take heap or rocksdb")
    if path is None:
        raise StateError("RocksDB needs a folder: give a path")
    # Only who opens RocksDB needs its library.
    from idlestate.state.rocksdb.rocksdb_backend import RocksDBKeyedStateBackend  # noqa: PLC0415

    return RocksDBKeyedStateBackend(Path(path), settings)
