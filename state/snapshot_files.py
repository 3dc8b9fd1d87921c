"""A snapshot on disk: one folder that any backend can restore from.

    snapshot.json     versions, mode, key groups, types, and one entry per state
    <n>.rows          rows of state n, by key group
    db/               instead of rows files: a checkpoint of RocksDB, its files hard links

A rows file consists of blocks, one per key group with rows. A block consists of rows, each preceded
by the lengths of key and value (4 bytes each, big-endian). `snapshot.json` contains the offset, the
length and the XXH64 of each block, so that a restore reads only the groups that it needs, and
detects damage. A folder gets its name only when it is complete.
"""

import json
import os
import shutil
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from idlestate.state.errors import DamagedFileError, SnapshotError, StateArgumentError, StateError
from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.row_keys import GROUP
from idlestate.state.state_schema import VERSIONS, check_versions, type_from_text, type_to_text
from idlestate.state.table import Row

RECORD = "snapshot.json"
DATABASE = "db"

_LENGTHS = struct.Struct(">II")

Block = tuple[int, int, int, str]
"""Key group, offset, bytes, XXH64 in hexadecimal."""


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """The record of a snapshot.

    Attributes:
        folder: its folder.
        backend: "heap" or "rocksdb".
        mode: "checkpoint", "savepoint-canonical" or "savepoint-native".
        max_parallelism: the number of key groups.
        groups: the key groups in it.
        key_type: Arrow type of keys.
        namespace_type: Arrow type of namespaces.
        states: one record per state or timer queue.
        new_files: files of RocksDB that the previous snapshot did not have.
    """

    folder: Path
    backend: str
    mode: str
    max_parallelism: int
    groups: KeyGroupRange
    key_type: pa.DataType
    namespace_type: pa.DataType
    states: list[dict[str, Any]]
    new_files: list[str]

    @property
    def is_native(self) -> bool:
        """Whether it contains files of RocksDB instead of rows."""
        return (self.folder / DATABASE).is_dir()

    @classmethod
    def read(cls, folder: Path) -> "SnapshotInfo":
        """Read the record of a snapshot.

        Raises:
            StateArgumentError: there is none, its version is unknown, or it has no keyed state.
            DamagedFileError: its record is damaged.
            SnapshotError: its record cannot be read.
        """
        record = read_record(folder, "snapshot")
        check_versions(record, str(folder))
        if "backend" not in record:
            raise StateArgumentError(
                f"{folder} is a snapshot of operator state: pass it to OperatorStateStore"
            )
        return cls(
            folder,
            record["backend"],
            record["mode"],
            record["max_parallelism"],
            KeyGroupRange(*record["groups"]),
            type_from_text(record["key_type"]),
            type_from_text(record["namespace_type"]),
            record["states"],
            record["new_files"],
        )

    def write(self, folder: Path) -> None:
        """Write the record into a folder, durably."""
        record = VERSIONS | {
            "backend": self.backend,
            "mode": self.mode,
            "max_parallelism": self.max_parallelism,
            "groups": [self.groups.first, self.groups.last],
            "key_type": type_to_text(self.key_type),
            "namespace_type": type_to_text(self.namespace_type),
            "states": self.states,
            "new_files": self.new_files,
        }
        write_record(folder, record)


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write the record of a snapshot, durably."""
    with (folder / RECORD).open("w") as file:
        json.dump(record, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def read_record(folder: Path, what: str) -> dict[str, Any]:
    """The record of a snapshot of this sort; errors as in `SnapshotInfo.read`."""
    kind: type[StateError] = SnapshotError
    try:
        found = json.loads((folder / RECORD).read_text())
        if not isinstance(found, dict):
            raise ValueError(f"{RECORD} is not an object")
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            kind = StateArgumentError
        if isinstance(error, ValueError):
            kind = DamagedFileError
        raise kind(f"{folder} is not a valid {what}: {error}") from error
    return found


def unreadable(error: OSError) -> StateError:
    """The error for a file of a snapshot that cannot be read."""
    kind = DamagedFileError if isinstance(error, FileNotFoundError) else SnapshotError
    return kind(f"{error}; restore another snapshot")


def rows_file(number: int) -> str:
    """The name of the file of a state's rows."""
    return f"{number}.rows"


def write_rows(path: Path, rows: Iterable[Row]) -> list[Block]:
    """Write rows in the order of their keys; return the places of the blocks."""
    blocks: list[Block] = []
    with path.open("wb") as file:
        for head, together in groupby(rows, key=lambda row: row.key[: GROUP.size]):
            start, digest = file.tell(), xxhash.xxh64()
            for key, value in together:
                data = b"".join((_LENGTHS.pack(len(key), len(value)), key, value))
                digest.update(data)
                file.write(data)
            (group,) = GROUP.unpack(head)
            blocks.append((group, start, file.tell() - start, digest.hexdigest()))
        file.flush()
        os.fsync(file.fileno())
    return blocks


def read_rows(path: Path, blocks: Iterable[Block], groups: KeyGroupRange) -> Iterator[Row]:
    """The rows of these key groups.

    Raises:
        DamagedFileError: the file is lost, or a block is damaged.
        SnapshotError: the file cannot be read.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise unreadable(error) from error
    with file:
        for group, start, length, expected in blocks:
            if group not in groups:
                continue
            file.seek(start)
            data = file.read(length)
            if xxhash.xxh64_hexdigest(data) != expected:
                raise DamagedFileError(
                    f"{path}: the block of key group {group} is damaged; restore another snapshot"
                )
            at = 0
            while at < length:
                of_key, of_value = _LENGTHS.unpack_from(data, at)
                at += _LENGTHS.size
                end = at + of_key
                yield Row(data[at:end], data[end : end + of_value])
                at = end + of_value


def start_folder(folder: Path) -> Path:
    """A folder for writing a snapshot, before it gets its name.

    Raises:
        StateArgumentError: the name exists already.
    """
    if folder.exists():
        raise StateArgumentError(f"{folder} is there already: give each snapshot a name of its own")
    drop_draft(folder)
    draft = _draft(folder)
    draft.mkdir(parents=True)
    return draft


def drop_draft(folder: Path) -> None:
    """Remove an incomplete snapshot."""
    shutil.rmtree(_draft(folder), ignore_errors=True)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Leave nothing of a snapshot behind that the disk refuses.

    Raises:
        SnapshotError: the disk refused it.
    """
    try:
        yield
    except StateError:
        raise
    except OSError as error:
        drop_draft(folder)
        raise SnapshotError(
            f"{folder} was not written: {error}; the state is unchanged: free disk space or repair "
            "the disk, then take another snapshot"
        ) from error


def _draft(folder: Path) -> Path:
    return folder.with_name(folder.name + ".draft")


def finish_folder(draft: Path, folder: Path) -> None:
    """Rename a complete snapshot to its name, durably."""
    draft.rename(folder)
    above = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(above)
    finally:
        os.close(above)
