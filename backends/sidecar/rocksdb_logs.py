"""Whether the write-ahead logs of a RocksDB that others follow are whole.

RocksDB takes an end that is missing, in every log, for that of a process that died. In one that
another with writes follows it is damage, and those writes would count without the lost ones.

A log is blocks of 32 KB, and in them fragments: 4 bytes of checksum, little-endian uint16 length,
1 byte kind (1 a whole record, 2 its first, 3 a middle, 4 its last part), bytes. RocksDB checks
what is there; this looks at how the last block ends.
"""

import struct
from pathlib import Path

_BLOCK_BYTES = 1 << 15
_HEAD = struct.Struct("<4xHB")
_WHOLE, _LAST = 1, 4
_BEGUN = (2, 3)


def cut_log(folder: Path) -> Path | None:
    """A log that ends within a record though another follows; None: there is none."""
    logs = [path for path in folder.glob("*.log") if path.stat().st_size]
    logs.sort(key=lambda path: int(path.stem))
    return next((path for path in logs[:-1] if _is_cut(path)), None)


def _is_cut(path: Path) -> bool:
    end = path.stat().st_size
    with path.open("rb") as file:
        file.seek((end - 1) // _BLOCK_BYTES * _BLOCK_BYTES)
        block = file.read()
    at, kind = 0, _WHOLE
    while at + _HEAD.size <= len(block):
        length, kind = _HEAD.unpack_from(block, at)
        if not _WHOLE <= kind <= _LAST:
            return False  # zeros, or of another layout: RocksDB's to judge
        at += _HEAD.size + length
    return at != len(block) or kind in _BEGUN
