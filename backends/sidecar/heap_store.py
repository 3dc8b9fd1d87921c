"""The store on heap: a dict, and on disk a log of writes behind a snapshot.

Layout, version 1: `log-<n>`, n 20 digits; the highest n counts. 8 bytes `IDSLOG01`, then records.
A record: big-endian uint64 length, 8 bytes XXH3-64 of the payload, the payload: the changes as a
`Message` whose header names the keys. The first record is the snapshot. A log of more than twice
the live bytes is followed by a new one with a snapshot; it is written beside and then renamed.

A process that dies while it writes leaves a record that ends before its length is reached: it was
never acknowledged and is cut off. A whole record whose checksum is wrong is damage, and refused.
"""

import os
import struct
import threading
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import xxhash

from idlestate.backends.sidecar.errors import DamagedError
from idlestate.backends.sidecar.message import Message
from idlestate.backends.sidecar.store import Changes

_MAGIC = b"IDSLOG01"
_HEAD = struct.Struct(">Q8s")
_FLOOR_BYTES = 1 << 20
"""Below so many bytes no log is worth being written anew."""
_SNAPSHOT_CHUNK = 1 << 26


class HeapStore:
    """Values in memory.

    Args:
        folder: where the log is; made where there is none.
        sync: whether each write outlives a loss of power too.
    """

    def __init__(self, folder: Path, *, sync: bool = False) -> None:
        self._folder = folder
        self._sync = sync
        self._lock = threading.Lock()
        self._values: dict[str, bytes] = {}
        self._live_bytes = 0
        self._broken: str | None = None
        self._compact_above = _FLOOR_BYTES
        folder.mkdir(parents=True, exist_ok=True)
        for draft in folder.glob("*.draft"):
            draft.unlink()
        logs = sorted(folder.glob("log-*"))
        self._number = int(logs[-1].name.removeprefix("log-")) if logs else 0
        for older in logs[:-1]:
            older.unlink()
        if logs:
            self._replay(logs[-1])
            self._file = self._path.open("ab", buffering=0)
            self._size = self._path.stat().st_size
        else:
            self._begin_log(self._number)

    @property
    def _path(self) -> Path:
        return self._path_of(self._number)

    def _path_of(self, number: int) -> Path:
        return self._folder / f"log-{number:020}"

    def get(self, key: str) -> bytes | None:
        """As of `Store`."""
        return self._values.get(key)

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """As of `Store`."""
        for key in sorted(key for key in list(self._values) if key.startswith(prefix)):
            value = self._values.get(key)
            if value is not None:
                yield key, value

    def write(self, changes: Changes) -> None:
        """As of `Store`."""
        with self._lock:
            self._write(changes)

    def _write(self, changes: Changes) -> None:
        if self._broken:
            raise DamagedError(self._broken)
        try:
            self._append(changes)
        except OSError as error:
            self._take_back(error)
        self._apply(changes)
        if self._size > max(2 * self._live_bytes, self._compact_above):
            self._compact()

    def bytes_on_disk(self) -> int:
        """As of `Store`."""
        return self._size

    def close(self) -> None:
        """As of `Store`."""
        self._file.close()

    def _apply(self, changes: Changes) -> None:
        for key, value in changes.items():
            old = self._values.pop(key, None)
            self._live_bytes -= 0 if old is None else len(old)
            if value is not None:
                self._values[key] = value
                self._live_bytes += len(value)

    def _append(self, changes: Changes) -> None:
        parts = _record(changes)
        _write_all(self._file.fileno(), parts)
        if self._sync:
            os.fsync(self._file.fileno())
        self._size += sum(len(part) for part in parts)

    def _take_back(self, error: OSError) -> None:
        """Cut off what a failed write left; what a failed fsync left nobody knows."""
        where = f"{self._path}: {error.strerror or error}"
        try:
            os.ftruncate(self._file.fileno(), self._size)
            if self._sync:
                os.fsync(self._file.fileno())
        except OSError:
            self._broken = f"{where}; see to the disk, then start the sidecar again"
            raise DamagedError(self._broken) from error
        raise DamagedError(f"{where}; nothing has changed; see to the disk") from error

    def _compact(self) -> None:
        old, before = self._path, self._file
        try:
            self._begin_log(self._number + 1)
        except OSError:
            # No room for a second copy: the log goes on, and this is tried again at twice its size.
            self._compact_above = 2 * self._size
            return
        self._compact_above = _FLOOR_BYTES
        before.close()
        old.unlink()

    def _begin_log(self, number: int) -> None:
        """Go on in a log of its own for what is there now.

        Raises:
            OSError: it cannot be made; the one of before goes on.
            DamagedError: whether it is there after a loss of power is not known.
        """
        path = self._path_of(number)
        draft = path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        file = draft.open("ab", buffering=0)
        try:
            size = self._write_snapshot(file)
            draft.rename(path)
        except OSError:
            file.close()
            draft.unlink(missing_ok=True)
            raise
        self._number, self._file, self._size = number, file, size
        if self._sync:
            self._sync_folder()

    def _sync_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        except OSError as error:
            where = f"{self._folder}: {error.strerror or error}"
            self._broken = f"{where}; see to the disk, then start the sidecar again"
            raise DamagedError(self._broken) from error
        finally:
            os.close(folder)

    def _write_snapshot(self, file: FileIO) -> int:
        """Write what is there; how many bytes that are."""
        _write_all(file.fileno(), [_MAGIC])
        for changes in self._in_chunks():
            _write_all(file.fileno(), _record(changes))
        if self._sync:
            os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size

    def _in_chunks(self) -> Iterator[dict[str, bytes]]:
        chunk: dict[str, bytes] = {}
        size = 0
        for key, value in self._values.items():
            chunk[key] = value
            size += len(value)
            if size > _SNAPSHOT_CHUNK:
                yield chunk
                chunk, size = {}, 0
        if chunk:
            yield chunk

    def _replay(self, path: Path) -> None:
        with path.open("r+b") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise DamagedError(f"{path} is no log of the sidecar: bring it back from a copy")
            good = file.tell()
            end = path.stat().st_size
            while good + _HEAD.size <= end:
                length, checksum = _HEAD.unpack(file.read(_HEAD.size))
                if good + _HEAD.size + length > end:
                    break
                payload = file.read(length)
                if xxhash.xxh3_64_digest(payload) != checksum:
                    raise DamagedError(
                        f"{path} is damaged at byte {good}: bring it back from a copy"
                    )
                message = Message.decode(payload)
                self._apply(dict(zip(message.header["puts"], message.parts, strict=True)))
                self._apply(dict.fromkeys(message.header["removes"]))
                good = file.tell()
            file.truncate(good)


def _record(changes: Changes) -> list[bytes]:
    puts = {key: value for key, value in changes.items() if value is not None}
    removes = [key for key, value in changes.items() if value is None]
    payload = Message({"puts": list(puts), "removes": removes}, tuple(puts.values())).pieces()
    digest = xxhash.xxh3_64()
    for piece in payload:
        digest.update(piece)
    return [_HEAD.pack(sum(map(len, payload)), digest.digest()), *payload]


def _write_all(number: int, parts: list[bytes]) -> None:
    """Write everything, however little the system takes at a time."""
    left = [memoryview(part) for part in parts if part]
    while left:
        written = os.writev(number, left[:512])
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if written:
            left[0] = left[0][written:]
