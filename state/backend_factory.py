"""The way in: `open_backend`."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

import pyarrow as pa

from idlestate.backends.files.committed_folder import RECORD
from idlestate.state.backend import KeyedStateBackend
from idlestate.state.errors import BackendKindError
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
    kind: Literal["heap", "rocksdb", "runs"],
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
        kind: where state lives: in this process's memory, in RocksDB, or in runs, the columnar
            files that pipelines keep state in.
        path: the folder of the files, made where there is none; heap takes none.
        max_parallelism: key groups there are, for good: 1 to 32768.
        key_type: Arrow type of keys, strings when not said.
        namespace_type: Arrow type of namespaces, strings when not said.
        groups: the key groups held here, all when not said.
        clock: whose time counts, the machine's when not said.
        restore: folders of snapshots to begin with, of any kind of backend; what they hold of
            other key groups is left there.

    Raises:
        KeyGroupError: the numbers do not fit together, or not those of a snapshot.
        SnapshotError: a snapshot cannot be read.
        StateMigrationError: keys or namespaces are stored as other types.
        StateError: the kind is unknown, or the path does not go with it.
        StorageError: the folder does not open, or another process has it.
        DamagedStateError: a file of runs is lost or damaged; the text names it.
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
            raise BackendKindError(
                "heap state has no folder: leave path out, or open rocksdb or runs"
            )
        return HeapKeyedStateBackend(settings)
    if kind not in ("rocksdb", "runs"):
        raise BackendKindError(f"there is no backend {kind!r}: use heap, rocksdb or runs")
    if path is None:
        raise BackendKindError(f"{kind} needs a folder: pass a path")
    if kind == "runs":
        # Only programs that open runs need what pipelines keep state with.
        from idlestate.state.runs.runs_backend import RunsKeyedStateBackend  # noqa: PLC0415

        return RunsKeyedStateBackend(Path(path), settings)
    if (Path(path) / RECORD).exists():
        raise BackendKindError(f'{path} holds runs: open it with open_backend("runs", path)')
    # Only programs that open RocksDB need its library.
    from idlestate.state.rocksdb.rocksdb_backend import RocksDBKeyedStateBackend  # noqa: PLC0415

    return RocksDBKeyedStateBackend(Path(path), settings)
