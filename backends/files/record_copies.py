"""Copies of a shard's record next to its runs: `<batch>-record-<random>.ids`; read without Spark.

Every batch writes one for each shard that it visits, after the runs are complete and before it
commits. The record itself is in the state store and names its copy, which is removed like runs.
Failed attempts, and batches that a rollback undid, leave copies too: a reader skips copies of later
batches and copies whose runs are missing; a start of the query removes them.

Layout: the record (`idlestate.backends.shards.shard_record`), then its XXH3 as 8 bytes, big-endian.
"""

import uuid
from collections.abc import Iterable

import xxhash

from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.shard_record import ShardRecord

_MARK, _END = "-record-", ".ids"
_CHECKSUM_BYTES = 8


def new_name(batch_id: int) -> str:
    """A unique name for the copy of a record."""
    return f"{batch_id}{_MARK}{uuid.uuid4().hex}{_END}"


def write_copy(runs: Folder, name: str, value: bytes) -> None:
    """Write a copy of a record, durably.

    Args:
        runs: the folder of the shard's runs.
        name: the result of `new_name`.
        value: the record as a value.

    Raises:
        OSError: the disk is full or unavailable; nothing is left behind.
        StoreError: the store cannot be reached.
    """
    runs.write(name, value + xxhash.xxh3_64_digest(value))


def newest_copy(runs: Folder, upto: int) -> ShardRecord | None:
    """The newest record of a shard that a batch up to this one wrote.

    Args:
        runs: the folder of the shard's runs.
        upto: a committed batch.

    Returns:
        None if there is no copy, if the newest batch left no complete copy, or if a later batch
        wrote runs but its copy is missing.

    Raises:
        RecordError: another version of idlestate wrote it.
        StoreError: the store cannot be reached.
    """
    names = set(runs.names(""))
    written = [batch for name in names if (batch := _batch_of(name)) is not None and batch <= upto]
    newest = max(written, default=0)
    for name in sorted(name for name in names if name.startswith(f"{newest}{_MARK}")):
        record = _read(runs, name)
        # The files of a batch's attempts differ only in their names, and those of a failed attempt
        # may be removed.
        if record is not None and record.files <= names:
            return record
    return None


def remove_copies(runs: Folder, shards: Iterable[int], after: int) -> None:
    """Remove the copies of batches after this one, which were undone or run again."""
    for shard in shards:
        folder = runs.below(str(shard))
        for name in folder.names(""):
            batch = _batch_of(name)
            if _MARK in name and batch is not None and batch > after:
                folder.remove(name)


def _batch_of(name: str) -> int | None:
    """The batch that wrote a file, a copy or a run."""
    batch = name.partition("-")[0]
    return int(batch) if batch.isdigit() else None


def _read(runs: Folder, name: str) -> ShardRecord | None:
    """A copy of a record; None if it is missing or incomplete."""
    try:
        data = runs.read(name)
    except FileNotFoundError:
        return None
    value, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    return ShardRecord.decode(value) if xxhash.xxh3_64_digest(value) == checksum else None
