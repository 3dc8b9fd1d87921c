"""The file of the store on heap: a log of writes behind a snapshot.

Layout, version 2: 8 bytes `IDSLOG02`, then records. A record: big-endian uint64 length, 8 bytes
XXH3-64 of that, 8 bytes XXH3-64 of the payload, the payload: changes as a `Message` whose header
names the keys. The first records are the snapshot.

If the process dies while writing, the last record is shorter than its length says. After a power
failure, it may consist of zeros up to the end of the file, from its head on or for at least the
last page. Such a record was never acknowledged, and is cut off. Any other length or complete
payload with a wrong checksum is damage, and refused. (The length has its own checksum: otherwise a
damaged length would make all later records look like an incomplete end.)
"""

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import xxhash

from idlestate.sidecar.protocol.errors import DamagedDirectoryError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.stores.store import Changes

_MAGIC = b"IDSLOG02"
_LENGTH = struct.Struct(">Q")
_HEAD = struct.Struct(">8s8s8s")
_PAGE_BYTES = 1 << 12
_PIECE_BYTES = 1 << 20
_SNAPSHOT_CHUNK = 1 << 26
_SNAPSHOT_VALUES = 1 << 16
"""The most changes in one record, however small they are."""


class HeapLog:
    """A log that is open for writing.

    Args:
        path: of the file, which is created if needed.
        sync: whether `append` survives a power failure too.

    Raises:
        OSError: it cannot be opened or created.
    """

    def __init__(self, path: Path, *, sync: bool) -> None:
        self.path = path
        self._sync = sync
        self._file = path.open("ab", buffering=0)
        self.size = os.fstat(self._file.fileno()).st_size
        if not self.size:
            self.append([_MAGIC])

    def append(self, records: Sequence[bytes]) -> None:
        """Append records that `record` returned.

        Raises:
            OSError: some may be written; `size` is the end of the complete ones.
        """
        _write_all(self._file.fileno(), records)
        if self._sync:
            self.sync()
        self.size += sum(map(len, records))

    def append_snapshot(self, values: Mapping[str, bytes]) -> None:
        """Write a snapshot of everything; durable with the next `sync`.

        Raises:
            OSError: it does not fit, or the disk is broken.
        """
        for changes in _in_chunks(values):
            parts = record(changes)
            _write_all(self._file.fileno(), parts)
            self.size += sum(map(len, parts))

    def sync(self) -> None:
        """Make the written records survive a power failure."""
        os.fsync(self._file.fileno())

    def cut(self) -> None:
        """Cut off the rest of a failed `append`."""
        os.ftruncate(self._file.fileno(), self.size)
        if self._sync:
            self.sync()

    def move(self, path: Path) -> None:
        """Rename the file."""
        self.path.rename(path)
        self.path = path

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()


def record(changes: Changes) -> list[bytes]:
    """Changes as a record, in parts."""
    puts = {key: value for key, value in changes.items() if value is not None}
    removes = [key for key, value in changes.items() if value is None]
    payload = Message({"puts": list(puts), "removes": removes}, tuple(puts.values())).pieces()
    digest = xxhash.xxh3_64()
    for piece in payload:
        digest.update(piece)
    length = _LENGTH.pack(sum(map(len, payload)))
    return [_HEAD.pack(length, xxhash.xxh3_64_digest(length), digest.digest()), *payload]


def replayed(path: Path) -> Iterator[Changes]:
    """The changes of a log in order; an incomplete record at the end is cut off.

    Raises:
        DamagedDirectoryError: it is damaged; the text names the file and the place.
    """
    with path.open("r+b") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise DamagedDirectoryError(
                f"{path} is not a log of a sidecar: restore it from a backup"
            )
        good = file.tell()
        end = path.stat().st_size
        while good + _HEAD.size <= end:
            packed, checksum, of_payload = _HEAD.unpack(file.read(_HEAD.size))
            (length,) = _LENGTH.unpack(packed)
            is_whole = xxhash.xxh3_64_digest(packed) == checksum
            if is_whole and good + _HEAD.size + length > end:
                break
            payload = file.read(length) if is_whole else b""
            if not is_whole or xxhash.xxh3_64_digest(payload) != of_payload:
                if _is_unfinished(file, good, file.tell()):
                    break
                raise DamagedDirectoryError(
                    f"{path} is damaged at byte {good}: restore it from a backup"
                )
            # Our own header: it contains all keys of a write, whose number has no limit.
            message = Message.decode(payload, most_header_bytes=length)
            yield dict(zip(message.header["puts"], message.parts, strict=True))
            yield dict.fromkeys(message.header["removes"])
            good = file.tell()
        file.truncate(good)


def _is_unfinished(file: BinaryIO, begin: int, stop: int) -> bool:
    """Whether a power failure explains a wrong record: only zeros follow, from its head on or for
    at least the last page of the file.
    """
    ends = at = file.seek(begin)
    while piece := file.read(_PIECE_BYTES):
        written = len(piece.rstrip(b"\0"))
        ends = at + written if written else ends
        at += len(piece)
    last_page = (at - 1) // _PAGE_BYTES * _PAGE_BYTES
    return ends <= begin + _HEAD.size or (ends < stop and ends <= last_page)


def _in_chunks(values: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    chunk: dict[str, bytes] = {}
    size = 0
    for key, value in values.items():
        chunk[key] = value
        size += len(value)
        if size > _SNAPSHOT_CHUNK or len(chunk) == _SNAPSHOT_VALUES:
            yield chunk
            chunk, size = {}, 0
    if chunk:
        yield chunk


def _write_all(number: int, parts: Sequence[bytes]) -> None:
    """Write everything, even if the system accepts only a part per call."""
    left = [memoryview(part) for part in parts if part]
    while left:
        written = os.writev(number, left[:512])
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if written:
            left[0] = left[0][written:]
