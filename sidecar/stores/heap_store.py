"""The store on heap: a dict, and on disk a log of writes behind a snapshot (`heap_log.py`).

The folder contains `log-<n>` with n of 20 digits; the highest n counts. When a log exceeds twice
the live bytes, a thread writes a new one with a snapshot, while writes continue in the old one.
Then the changes made in the meantime are appended, and the new log is renamed.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from idlestate.sidecar.protocol.errors import SidecarError
from idlestate.sidecar.stores.disk_recovery import failed_write, has_room
from idlestate.sidecar.stores.heap_log import HeapLog, record, replayed
from idlestate.sidecar.stores.store import Changes

_LOGS = "log-" + 20 * "[0-9]"
"""Matches logs, but not copies of them such as `log-….bak`."""
_FLOOR_BYTES = 1 << 20
"""A smaller log is not rewritten."""
_LAST_BYTES = 1 << 20
"""At most this many bytes of changes are copied while writes wait."""


class HeapStore:
    """Values in memory.

    Args:
        folder: the folder of the log, which is created if needed.
        sync: whether each write survives a power failure too.
    """

    def __init__(self, folder: Path, *, sync: bool = False) -> None:
        self._folder = folder
        self._sync = sync
        self._lock = threading.Lock()
        self._values: dict[str, bytes] = {}
        self._live_bytes = 0
        self._beside_bytes = 0
        """The bytes of the newest snapshot beyond the values: keys, lengths."""
        self._broken: SidecarError | None = None
        self._compact_above = _FLOOR_BYTES
        self._compaction: threading.Thread | None = None
        self._is_compacting = False
        self._since: list[bytes] = []
        """The changes since the current compaction took its snapshot."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for draft in folder.glob("*.draft"):
            draft.unlink()
        logs = sorted(folder.glob(_LOGS))
        for older in logs[:-1]:
            older.unlink()
        self._number = int(logs[-1].name.removeprefix("log-")) if logs else 0
        for changes in replayed(logs[-1]) if logs else ():
            self._apply(changes)
        path = self._path_of(self._number)
        self._log = HeapLog(logs[-1] if logs else path.with_suffix(".draft"), sync=sync)
        if not logs:
            self._name(self._log, path)
        self._check_broken()

    def _path_of(self, number: int) -> Path:
        return self._folder / f"log-{number:020}"

    @property
    def is_broken(self) -> bool:
        """See `Store`."""
        return self._broken is not None

    def is_mended(self) -> bool:
        """See `Store`."""
        return has_room(self._folder, _FLOOR_BYTES)

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        return self._values.get(key)

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """See `Store`."""
        for key in sorted(key for key in list(self._values) if key.startswith(prefix)):
            value = self._values.get(key)
            if value is not None:
                yield key, value

    def write(self, changes: Changes) -> None:
        """See `Store`."""
        parts = record(changes)
        with self._lock:
            self._check_broken()
            try:
                self._log.append(parts)
            except OSError as error:
                self._take_back(error)
            self._apply(changes)
            if self._is_compacting:
                self._since += parts
            elif self._is_sparse:
                self._start_compaction()

    def bytes_on_disk(self) -> int:
        """See `Store`."""
        return self._log.size

    def properties(self) -> Mapping[str, int]:
        """See `Store`."""
        return {}

    def close(self) -> None:
        """See `Store`."""
        if self._compaction is not None:
            self._compaction.join()
        self._log.close()

    def _apply(self, changes: Changes) -> None:
        for key, value in changes.items():
            old = self._values.pop(key, None)
            self._live_bytes -= 0 if old is None else len(old)
            if value is not None:
                self._values[key] = value
                self._live_bytes += len(value)

    def _take_back(self, error: OSError) -> None:
        """Cut off the rest of a failed write; the result of a failed fsync is unknown."""
        try:
            self._log.cut()
        except OSError:
            self._broken = failed_write(str(self._log.path), error, is_broken=True)
        self._check_broken()
        raise failed_write(str(self._log.path), error, is_broken=False) from error

    def _check_broken(self) -> None:
        if self._broken is not None:
            raise type(self._broken)(str(self._broken))

    # ---- compaction

    @property
    def _is_sparse(self) -> bool:
        needed = self._live_bytes + self._beside_bytes
        return self._log.size > max(2 * needed, self._compact_above)

    def _start_compaction(self) -> None:
        thread = threading.Thread(target=self._compact, name="idlestate-compact")
        self._is_compacting = True
        try:
            thread.start()
        except (RuntimeError, MemoryError):  # no more threads: treated like a full disk
            self._is_compacting = False
            self._compact_above = 2 * self._log.size
        else:
            self._compaction = thread

    def _compact(self) -> None:
        """Rewrite the log until most of the newest one is live."""
        while self._is_compacting:
            try:
                self._take_new_log()
                above = _FLOOR_BYTES
            except (OSError, MemoryError):
                # No space for a second copy: the log stays, and this is tried again at twice its
                # size.
                above = 2 * self._log.size
            with self._lock:
                self._compact_above, self._since = above, []
                self._is_compacting = self._is_sparse and not self._broken

    def _take_new_log(self) -> None:
        """Write a log with a snapshot of now, and continue in it."""
        with self._lock:
            values, live_bytes, self._since = dict(self._values), self._live_bytes, []
        before, path = self._log, self._path_of(self._number + 1)
        draft = path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        log = HeapLog(draft, sync=self._sync)
        try:
            log.append_snapshot(values)
            self._beside_bytes = log.size - live_bytes
            last_bytes = _LAST_BYTES
            while not self._switch(log, path, last_bytes):
                with self._lock:
                    since, self._since = self._since, []
                log.append(since)
                last_bytes *= 2  # so that this ends, however much is written in the meantime
        except (OSError, MemoryError):
            log.close()
            draft.unlink(missing_ok=True)
            raise
        before.close()
        if not self._broken:
            before.path.unlink()

    def _switch(self, log: HeapLog, path: Path, last_bytes: int) -> bool:
        """Continue in a new log; False if it lacks more than this many bytes."""
        if self._sync:
            log.sync()
        with self._lock:
            if sum(map(len, self._since)) > last_bytes:
                return False
            log.append(self._since)
            self._name(log, path)
            self._log = log
            self._number += 1
        return True

    def _name(self, log: HeapLog, path: Path) -> None:
        """Rename a new log; if that may not survive a power failure, writes are refused."""
        log.move(path)
        if not self._sync:
            return
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            self._broken = failed_write(str(self._folder), error, is_broken=True)
