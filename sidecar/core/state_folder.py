"""The files of a sidecar: its own store, and with workers a store per range for the tables.

`<directory>/<backend>` contains everything. With n workers, the tables are in
`<directory>/<backend>-ranges/<n>/<range>` instead. The own store records the current n. If the
configuration names another n, the tables are copied, then the new n is written, then the old copy
is removed. If this is interrupted at any point, one complete copy is the current one, and the next
start removes the rest.
"""

import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from idlestate.sidecar.core.directory_lock import DirectoryLock
from idlestate.sidecar.core.operator_record import OperatorRecord
from idlestate.sidecar.protocol.errors import DoesNotFitError
from idlestate.sidecar.protocol.worker_ranges import OF_SHARDS, range_of, shard_of
from idlestate.sidecar.stores.heap_store import HeapStore
from idlestate.sidecar.stores.store import Store

_RANGES = "n/ranges"
_CHUNK_BYTES = 1 << 26
RANGE_PATIENCE_S = 15.0
"""How long to wait for the end of a worker whose parent has died."""


def open_store(folder: Path, backend: str, *, sync: bool) -> Store:
    """The store in a folder."""
    if backend == "heap":
        return HeapStore(folder, sync=sync)
    # Only programs that keep state in RocksDB need its library.
    from idlestate.sidecar.stores.rocksdb_store import RocksDBStore  # noqa: PLC0415

    return RocksDBStore(folder, sync=sync)


class StateFolder:
    """The directory of a sidecar.

    Args:
        directory: locked by this process.
        backend: `rocksdb` or `heap`.
        sync: whether each write survives a power failure too.

    Attributes:
        store: the sidecar's own store.

    Raises:
        DoesNotFitError: the directory contains the state of another backend.
        DamagedDirectoryError: the state cannot be read.
    """

    def __init__(self, directory: Path, backend: str, *, sync: bool) -> None:
        other = "heap" if backend == "rocksdb" else "rocksdb"
        if (directory / other).exists():
            raise DoesNotFitError(
                f"{directory} has the state of backend: {other}; set that, or choose another "
                "directory"
            )
        self._places = directory / f"{backend}-ranges"
        self._backend = backend
        self._sync = sync
        self.store = open_store(directory / backend, backend, sync=sync)

    def folder_of(self, at: int, ranges: int) -> Path:
        """The folder of the store of a range's worker."""
        return self._places / str(ranges) / str(at)

    def spread(self, ranges: int) -> bool:
        """Divide the tables into this many ranges; return whether they had to be moved."""
        before = int(self.store.get(_RANGES) or b"1")
        self._remove_leftovers(before)
        if before == ranges:
            return False
        is_moved = self._copy(before, ranges)
        self.store.write({_RANGES: str(ranges).encode()})
        self._remove_leftovers(ranges)
        return is_moved

    def _remove_leftovers(self, ranges: int) -> None:
        """Remove copies of the tables that are not the current one."""
        for folder in self._places.glob("*"):
            if folder.name != str(ranges):
                shutil.rmtree(folder)
        if ranges > 1:
            gone = [key for prefix in OF_SHARDS for key, _ in self.store.scan(prefix)]
            if gone:  # a start on a full disk writes nothing
                self.store.write(dict.fromkeys(gone))

    def _copy(self, before: int, after: int) -> bool:
        """Copy the tables; return whether there are operators, which may have some."""
        shards = {
            key.partition("/")[2]: OperatorRecord.decode(value).declaration.shards
            for key, value in self.store.scan("o/")
        }
        with ExitStack() as stack:
            sources = self._stores(before, stack)
            targets = self._stores(after, stack)
            for source in sources:
                chunks: list[dict[str, bytes]] = [{} for _ in targets]
                size = 0
                for prefix in OF_SHARDS:
                    for key, value in source.scan(prefix):
                        uid = key.split("/", 2)[1]
                        if uid in shards:
                            chunks[range_of(shard_of(key), shards[uid], after)][key] = value
                            size += len(value)
                        if size > _CHUNK_BYTES:
                            _write(targets, chunks)
                            size = 0
                _write(targets, chunks)
        return bool(shards)

    def _stores(self, ranges: int, stack: ExitStack) -> list[Store]:
        if ranges == 1:
            return [self.store]
        stores = []
        for at in range(ranges):
            folder = self.folder_of(at, ranges)
            stack.enter_context(DirectoryLock(folder, RANGE_PATIENCE_S))
            stores.append(open_store(folder / "store", self._backend, sync=self._sync))
            stack.callback(stores[-1].close)
        return stores


def _write(targets: Iterable[Store], chunks: list[dict[str, bytes]]) -> None:
    for target, chunk in zip(targets, chunks, strict=True):
        target.write(dict(chunk))
        chunk.clear()
