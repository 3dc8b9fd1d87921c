"""The store in RocksDB: raw bytes, one atomic write batch per write, large values in blob files.

Segments are megabytes, written once and removed once. In blob files, RocksDB's compactions move
only their addresses.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from rocksdict import DbClosedError, DBRecoveryMode, Options, Rdict, WriteBatch, WriteOptions

from idlestate.metrics.rocksdb_metrics import PROPERTIES
from idlestate.sidecar.protocol.errors import DamagedDirectoryError, SidecarError
from idlestate.sidecar.stores.disk_recovery import failed_write, has_room
from idlestate.sidecar.stores.store import Changes

_LARGE_BYTES = 1 << 15
_BUFFER_BYTES = 128 << 20
_SPARE_BYTES = 1 << 20
_SHOWN = tuple(PROPERTIES.values())


class RocksDBStore:
    """Values in a RocksDB.

    Args:
        folder: the folder of its files, which is created if needed.
        sync: whether each write survives a power failure too.

    Raises:
        DamagedDirectoryError: it does not open.
    """

    def __init__(self, folder: Path, *, sync: bool = False) -> None:
        self._folder = folder
        options = Options(raw_mode=True)
        options.create_if_missing(create_if_missing=True)
        options.set_enable_blob_files(True)
        options.set_min_blob_size(_LARGE_BYTES)
        options.set_enable_blob_gc(True)
        options.set_blob_gc_age_cutoff(0.5)
        options.set_blob_gc_force_threshold(0.5)
        # A batch writes tens of megabytes at once, and waits if no buffer is free.
        options.set_write_buffer_size(_BUFFER_BYTES)
        options.set_max_write_buffer_number(3)
        options.set_max_background_jobs(4)
        options.set_keep_log_file_num(2)
        # By default, records after damage are dropped silently.
        options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._raw = Rdict(str(folder), options)
        except Exception as error:  # rocksdict raises plain exceptions
            raise DamagedDirectoryError(
                f"RocksDB in {folder} does not open: {error}; check the disk, or restore "
                "the folder from a backup"
            ) from error
        self._write_options = WriteOptions()
        self._write_options.sync = sync
        self._raw.set_write_options(self._write_options)
        self._broken: SidecarError | None = None

    @property
    def is_broken(self) -> bool:
        """See `Store`."""
        return self._broken is not None

    def is_mended(self) -> bool:
        """See `Store`: opening it turns its logs into tables."""
        try:
            return has_room(self._folder, self._size(".log") + _SPARE_BYTES)
        except OSError:  # the disk is gone
            return False

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        try:
            value: bytes | None = self._raw.get(key.encode())
        except Exception as error:
            raise self._damaged(error) from error
        return value

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """See `Store`."""
        begin = prefix.encode()
        try:
            rows = self._raw.iter()
            rows.seek(begin)
            while rows.valid() and rows.key().startswith(begin):
                yield rows.key().decode(), rows.value()
                rows.next()
            # At a damaged block an iterator just ends; only the status reports it.
            rows.status()
        except Exception as error:
            raise self._damaged(error) from error

    def write(self, changes: Changes) -> None:
        """See `Store`."""
        if self._broken is not None:
            raise type(self._broken)(str(self._broken))
        batch = WriteBatch(raw_mode=True)
        for key, value in changes.items():
            if value is None:
                batch.delete(key.encode())
            else:
                batch.put(key.encode(), value)
        try:
            self._raw.write(batch, write_opt=self._write_options)
        except Exception as error:
            # RocksDB itself refuses writes after a failed one until it is opened again.
            self._broken = failed_write(f"RocksDB in {self._folder}", error, is_broken=True)
            raise self._broken from error

    def bytes_on_disk(self) -> int:
        """See `Store`."""
        return self._size("")

    def properties(self) -> Mapping[str, int]:
        """See `Store`."""
        with suppress(DbClosedError):
            found = ((each, self._raw.property_int_value(f"rocksdb.{each}")) for each in _SHOWN)
            return {each: value for each, value in found if value is not None}
        return {}

    def close(self) -> None:
        """See `Store`."""
        # Everything is in its logs, even if a full disk now prevents the final flush.
        with suppress(Exception):
            self._raw.close()

    def _size(self, ending: str) -> int:
        """Bytes of the files with this suffix."""
        total = 0
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):  # a compaction has just removed it
                total += path.stat().st_size if path.name.endswith(ending) else 0
        return total

    def _damaged(self, error: Exception) -> DamagedDirectoryError:
        return DamagedDirectoryError(f"RocksDB in {self._folder}: {error}; check the disk")
