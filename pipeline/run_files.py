"""The files of a shard: runs and ended keys under `<checkpoint>/idlestate/<uid>/runs/<shard>/`.

A file is written once under a name of its own and never changed: `<batch>-<kind>-<random>.arrow`.
The state store names the files of a version, so versions, rollback and exactly-once are Spark's.
"""

import uuid
from dataclasses import replace

import pyarrow as pa
import xxhash

from idlestate.backends.ended import Ended
from idlestate.backends.run import Run, RunError
from idlestate.backends.steps import TableSpec
from idlestate.pipeline.errors import DamagedStateError
from idlestate.pipeline.folder import Folder
from idlestate.pipeline.shard_state import FileRef, ShardState


class RunFiles:
    """The files of one shard of one operator."""

    def __init__(self, checkpoint: Folder, uid: str, shard: int) -> None:
        """Nothing is read or made yet."""
        self._checkpoint = checkpoint
        self._below = f"idlestate/{uid}/runs/{shard}"

    def write(self, kind: str, data: pa.Buffer, rows: int, batch_id: int) -> FileRef:
        """Write a file; it is whole when this returns.

        Raises:
            OSError: the disk is full or gone; nothing is left behind.
        """
        name = f"{batch_id}-{kind}-{uuid.uuid4().hex}.arrow"
        self._checkpoint.write(f"{self._below}/{name}", data)
        return FileRef(name, data.size, rows, xxhash.xxh3_64_hexdigest(data), batch_id)

    def read_run(self, ref: FileRef | None, spec: TableSpec) -> Run:
        """The run of a version; an empty one when it names none."""
        if ref is None:
            return Run.empty(spec)
        try:
            return Run.decode(pa.BufferReader(self._checked(ref)), spec)
        except RunError as error:
            raise DamagedStateError(f"{self._path(ref)}: {error}") from error

    def read_ended(self, ref: FileRef | None) -> Ended:
        """The ended keys of a version; none when it names no file."""
        if ref is None:
            return Ended.empty()
        try:
            return Ended.decode(pa.BufferReader(self._checked(ref)))
        except RunError as error:
            raise DamagedStateError(f"{self._path(ref)}: {error}") from error

    def remove_unwanted(self, state: ShardState, batch_id: int, retain_batches: int) -> ShardState:
        """Remove what no retained version names; called in batch N, when N - 1 is committed.

        A file dropped at batch b goes once b + retain_batches is committed. A file of an earlier
        batch that no version names was left by an attempt that lost or was killed.
        """
        wanted = {ref.name for ref in (state.run, state.ended) if ref}
        due = [d for d in state.dropped if d.batch_id + retain_batches < batch_id]
        kept = tuple(d for d in state.dropped if d not in due)
        named = wanted | {d.name for d in kept}
        for name in self._checkpoint.names(self._below):
            written_by = name.partition("-")[0]
            if name not in named and written_by.isdigit() and int(written_by) < batch_id:
                self._checkpoint.remove(f"{self._below}/{name}")
        return replace(state, dropped=kept)

    def _checked(self, ref: FileRef) -> pa.Buffer:
        try:
            data = self._checkpoint.open(f"{self._below}/{ref.name}")
        except OSError as error:
            raise DamagedStateError(
                f"{self._path(ref)} is missing, and the state of batch {ref.batch_id} needs it; "
                "bring the file back from a copy of the checkpoint"
            ) from error
        if data.size != ref.bytes or xxhash.xxh3_64_hexdigest(data) != ref.checksum:
            raise DamagedStateError(
                f"{self._path(ref)} is damaged ({data.size} of {ref.bytes} bytes, or a wrong "
                "checksum); bring the file back from a copy of the checkpoint"
            )
        return data

    def _path(self, ref: FileRef) -> str:
        return self._checkpoint.path(f"{self._below}/{ref.name}")
