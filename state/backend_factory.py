"""`open_backend`: opens a backend of keyed state."""

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, overload

import pyarrow as pa

from idlestate.backends.files.committed_folder import is_committed_folder
from idlestate.state.backend import KeyedStateBackend
from idlestate.state.errors import BackendKindError, StateTypeError
from idlestate.state.heap.heap_backend import HeapKeyedStateBackend
from idlestate.state.key_groups import (
    DEFAULT_MAX_PARALLELISM,
    KeyGroupRange,
    key_group_range,
)
from idlestate.state.settings import BackendSettings, Place, folder_from
from idlestate.timers.clock import Clock, SystemClock

if TYPE_CHECKING:  # only programs that open RocksDB need its library
    from idlestate.state.rocksdb.rocksdb_backend import RocksDBKeyedStateBackend


@overload
def open_backend(
    kind: Literal["rocksdb"],
    path: Place | None = ...,
    *,
    max_parallelism: int = ...,
    key_type: pa.DataType | None = ...,
    namespace_type: pa.DataType | None = ...,
    groups: KeyGroupRange | None = ...,
    clock: Clock | None = ...,
    restore: Sequence[Place] = ...,
) -> "RocksDBKeyedStateBackend": ...


@overload
def open_backend(
    kind: Literal["heap", "rocksdb", "runs"],
    path: Place | None = ...,
    *,
    max_parallelism: int = ...,
    key_type: pa.DataType | None = ...,
    namespace_type: pa.DataType | None = ...,
    groups: KeyGroupRange | None = ...,
    clock: Clock | None = ...,
    restore: Sequence[Place] = ...,
) -> KeyedStateBackend: ...


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
        kind: the place of state: this process's memory, RocksDB, or runs, the columnar files that
            pipelines use.
        path: the folder of the files, created if needed; not for heap.
        max_parallelism: the number of key groups, 1 to 32768; fixed from then on.
        key_type: Arrow type of keys; default: string.
        namespace_type: Arrow type of namespaces; default: string.
        groups: the key groups of this backend; default: all.
        clock: the clock; default: the system's.
        restore: folders of snapshots to start with, of any kind of backend; other key groups in
            them are ignored.

    Raises:
        KeyGroupError: the numbers contradict each other or a snapshot.
        StateArgumentError: a folder in `restore` is not a snapshot of keyed state or of another
            version, or the folder that is restored into has state already.
        SnapshotError: a snapshot cannot be read.
        StateMigrationError: keys or namespaces are stored as other types.
        BackendKindError: the kind is unknown, or the path does not fit it.
        StateTypeError: an argument has another type.
        RefusedError: the folder is open already, here or in another process.
        StoreError: the folder cannot be opened or read.
        DamagedStateError: a file of the folder or of a snapshot is lost or damaged.
    """
    if isinstance(restore, str | PathLike) or not isinstance(restore, Iterable):
        raise StateTypeError(f"restore is {restore!r}: pass a list of folders")
    settings = BackendSettings(
        key_type=pa.string() if key_type is None else key_type,
        namespace_type=pa.string() if namespace_type is None else namespace_type,
        max_parallelism=max_parallelism,
        groups=key_group_range(max_parallelism, 1, 0) if groups is None else groups,
        clock=SystemClock() if clock is None else clock,
        restore=[folder_from("restore", folder) for folder in restore],
    )
    if kind == "heap":
        if path is not None:
            raise BackendKindError(
                "heap state has no folder: leave path out, or open rocksdb or runs"
            )
        return HeapKeyedStateBackend(settings)
    if kind not in ("rocksdb", "runs"):
        raise BackendKindError(f"{kind!r} is not a valid backend; use heap, rocksdb or runs")
    if path is None:
        raise BackendKindError(f"{kind} needs a folder: pass a path")
    folder = folder_from("path", path)
    if folder.is_file():
        raise BackendKindError(f"path {folder} is a file; pass a folder, or a path that is free")
    if kind == "runs":
        # Only programs that open runs need the modules of pipelines.
        from idlestate.state.runs.runs_backend import RunsKeyedStateBackend  # noqa: PLC0415

        return RunsKeyedStateBackend(folder, settings)
    if is_committed_folder(folder):
        raise BackendKindError(
            f'{path} holds runs: open it with open_backend("runs", path), or pass another folder'
        )
    # Only programs that open RocksDB need its library.
    from idlestate.state.rocksdb.rocksdb_backend import RocksDBKeyedStateBackend  # noqa: PLC0415

    return RocksDBKeyedStateBackend(folder, settings)
