"""The files of a shard's runs: `<checkpoint>/idlestate/<uid>/runs/<shard>/`, or elsewhere.

A file is written once under a unique name and never changed: `<batch>-<table>-<random>.arrow`. The
state store names the files of a version, so Spark provides versions, rollback and exactly-once. A
worker process opens a file once per start of the query and keeps it mapped while the shard's newest
state that it has seen names it. It verifies files that it did not write itself when it first reads
them.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace

from idlestate.backends.files.file_checked_on_read import FROM_CHECKPOINT
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.record_copies import new_name, write_copy
from idlestate.backends.files.run_store import RunStore
from idlestate.backends.runs.run import Run
from idlestate.backends.runs.run_codec import RunError, decode_run, encode_run
from idlestate.backends.runs.segment import Segment
from idlestate.backends.runs.table_runs import Next
from idlestate.backends.runs.table_schema import TableSchema
from idlestate.backends.shards.shard_record import RunRef, ShardRecord
from idlestate.errors import DamagedStateError

_Opened = dict[str, dict[RunRef, Run]]
"""The runs of a shard by table and file."""
_opened: dict[str, tuple[str, _Opened]] = {}
"""By shard: the start of the query, and the runs opened for it. It is only a cache."""


class RunFiles:
    """The files of one shard of one operator."""

    def __init__(
        self,
        runs: Folder,
        shard: int,
        run_id: str | None = None,
        advice: str = FROM_CHECKPOINT,
    ) -> None:
        """Start without reading or creating anything.

        Args:
            runs: where the operator's files are.
            shard: the shard.
            run_id: the start of the query, for which this process keeps files open; None: only for
                this object.
            advice: what to do if a file is lost or damaged.
        """
        self._folder = runs.below(str(shard))
        self._store = RunStore(self._folder, advice)
        known_id, known = _opened.get(self._store.place, (None, {}))
        self.is_first_visit = run_id is None or known_id != run_id
        """Whether this process sees the shard for the first time since the query started."""
        self._known: _Opened = {} if self.is_first_visit else known
        if run_id is not None:
            _opened[self._store.place] = (run_id, self._known)

    def write(self, table: str, segments: Iterator[Segment], following: Next) -> tuple[RunRef, Run]:
        """See `RunPlace`: a file.

        Raises:
            OSError: the disk is full or unavailable; nothing is left behind.
            StoreError: the store cannot be reached.
        """
        schema, version = following.before.schema, following.batch_id
        name = f"{version}-{table}-{uuid.uuid4().hex}.arrow"
        with self._store.create(name) as file:
            rows, index = encode_run(segments, schema, following.policy, file)
            checksum = file.finish()
        ref = RunRef(name, version, rows, file.size, checksum=checksum)
        return ref, index.run(self._store.open_written(ref), schema, version)

    def read(self, table: str, ref: RunRef, schema: TableSchema) -> Run:
        """See `RunPlace`.

        Raises:
            DamagedStateError: the file is lost or damaged; damaged rows are detected later, when
                they are read.
            StoreError: the store cannot be reached.
        """
        known = self._known.get(table, {}).get(ref)
        if known is not None:
            return known
        try:
            return decode_run(self._store.open(ref), schema, ref.version)
        except RunError as error:
            raise DamagedStateError(f"{self._store.shown(ref)}: {error}") from error

    def keep(self, table: str, runs: Mapping[RunRef, Run]) -> None:
        """See `RunPlace`."""
        self._known[table] = dict(runs)

    def save(self, record: ShardRecord, batch_id: int) -> bytes:
        """Write a copy of a shard's record, passed as a value, next to its runs.

        Call it last in a batch: if the copy is complete, so are the runs that it names.

        Raises:
            OSError: the disk is full or unavailable; nothing is left behind.
            StoreError: the store cannot be reached.
        """
        name = new_name(batch_id)
        value = replace(record, file=name).encode()
        write_copy(self._folder, name, value)
        return value

    def remove_unwanted(
        self, record: ShardRecord, batch_id: int, retain_batches: int, *, orphans: bool
    ) -> ShardRecord:
        """Remove files that no retained version names; called in batch N, when N - 1 is committed.

        A file dropped at batch b is removed once b + retain_batches is committed. A file of an
        earlier batch that no version names was left by a failed or killed attempt: such orphans are
        removed only on request, because this lists the folder.
        """
        due = [d for d in record.dropped if d.version + retain_batches < batch_id]
        kept = tuple(d for d in record.dropped if d not in due)
        for each in due:
            self._store.remove(each.name)
        if orphans:
            named = record.files | {d.name for d in kept}
            for name in self._store.names():
                written_by = name.partition("-")[0]
                if name not in named and written_by.isdigit() and int(written_by) < batch_id:
                    self._store.remove(name)
            self._store.forget_copies(but=named)
        return replace(record, dropped=kept)
