"""The files of a shard's runs: `<checkpoint>/idlestate/<uid>/runs/<shard>/`, or elsewhere.

A file is written once under a name of its own and never changed: `<batch>-<kind>-<random>.arrow`.
The state store names the files of a version, so versions, rollback and exactly-once are Spark's.

A worker process opens a file once per start of the query and keeps it mapped while the newest state
it saw of the shard names it. What it did not write itself it checks where it first reads it.
"""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from idlestate.backends.run import Run
from idlestate.backends.run_codec import RunError, decode_run, encode_run
from idlestate.backends.runs import Next, Runs
from idlestate.backends.schema import TableSchema
from idlestate.backends.segment import Segment
from idlestate.pipeline.errors import DamagedStateError
from idlestate.pipeline.folder import Folder
from idlestate.pipeline.run_store import RunStore
from idlestate.pipeline.shard_state import FileRef, RunRefs, ShardState

_Opened = dict[str, dict[FileRef, Run]]
"""The runs of a shard by kind and file."""
_opened: dict[str, tuple[str, _Opened]] = {}
"""By shard: the start of the query, and what was opened for it. A cache and nothing more."""


class RunFiles:
    """The files of one shard of one operator."""

    def __init__(self, runs: Folder, shard: int, run_id: str | None = None) -> None:
        """Nothing is read or made yet.

        Args:
            runs: where the operator's files are.
            shard: the shard.
            run_id: the start of the query, for which this process keeps files open; None: for this
                object alone.
        """
        self._store = RunStore(runs.below(str(shard)))
        known_id, known = _opened.get(self._store.place, (None, {}))
        self.is_first_visit = run_id is None or known_id != run_id
        """Whether this process sees the shard for the first time since the query started."""
        self._known: _Opened = {} if self.is_first_visit else known
        if run_id is not None:
            _opened[self._store.place] = (run_id, self._known)

    def write(
        self, kind: str, following: Next, refs: RunRefs
    ) -> tuple[RunRefs, Runs, tuple[FileRef, ...]]:
        """Write what a batch makes of a table's runs; it is whole when this returns.

        Args:
            kind: which of the shard's tables, a word in the file's name.
            following: what is to be written.
            refs: the files before.

        Returns:
            The files and the runs after, and the files that they no longer need.

        Raises:
            OSError: the disk is full or gone; nothing is left behind.
            StoreError: the store cannot be reached.
        """
        schema, run = following.before.schema, None
        written: tuple[FileRef, ...] = ()
        stay = len(refs.files) - following.taken
        segments = following.segments() if following.writes else iter(())
        first = next(segments, None)
        if first is not None:
            ref = self._write(kind, chain([first], segments), following)
            run = decode_run(self._store.open_written(ref), schema, ref.batch_id)
            written = (ref,)
        runs = following.with_run(run)
        files = refs.files[:stay] + written
        self._known[kind] = dict(zip(files, runs.runs, strict=True))
        return RunRefs(files, runs.sweeps, runs.live), runs, refs.files[stay:]

    def read(self, kind: str, refs: RunRefs, schema: TableSchema) -> Runs:
        """The runs of a version.

        Raises:
            DamagedStateError: a file is lost or damaged; damage of rows is found later, by whoever
                reads them.
            StoreError: the store cannot be reached.
        """
        known = self._known.get(kind, {})
        runs = tuple(known.get(ref) or self._read(ref, schema) for ref in refs.files)
        self._known[kind] = dict(zip(refs.files, runs, strict=True))
        return Runs(schema, runs, refs.sweeps, refs.live)

    def remove_unwanted(
        self, state: ShardState, batch_id: int, retain_batches: int, *, orphans: bool
    ) -> ShardState:
        """Remove what no retained version names; called in batch N, when N - 1 is committed.

        A file dropped at batch b goes once b + retain_batches is committed. A file of an earlier
        batch that no version names was left by an attempt that lost or was killed: such orphans are
        looked for when asked, as that lists the folder.
        """
        due = [d for d in state.dropped if d.batch_id + retain_batches < batch_id]
        kept = tuple(d for d in state.dropped if d not in due)
        for each in due:
            self._store.remove(each.name)
        if orphans:
            named = {ref.name for ref in state.files} | {d.name for d in kept}
            for name in self._store.names():
                written_by = name.partition("-")[0]
                if name not in named and written_by.isdigit() and int(written_by) < batch_id:
                    self._store.remove(name)
            self._store.forget_copies(but=named)
        return replace(state, dropped=kept)

    def _write(self, kind: str, segments: Iterator[Segment], following: Next) -> FileRef:
        name = f"{following.batch_id}-{kind}-{uuid.uuid4().hex}.arrow"
        with self._store.create(name) as file:
            with pa.PythonFile(file, mode="w") as sink:
                rows = encode_run(segments, following.before.schema, following.policy, sink)
            checksum = file.finish()
        return FileRef(name, file.size, rows, checksum, following.batch_id)

    def _read(self, ref: FileRef, schema: TableSchema) -> Run:
        try:
            return decode_run(self._store.open(ref), schema, ref.batch_id)
        except RunError as error:
            raise DamagedStateError(f"{self._store.shown(ref)}: {error}") from error
