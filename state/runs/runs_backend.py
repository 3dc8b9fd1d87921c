"""Keyed state in runs: a shard's tables in a folder, and the rows in use in memory.

Touched rows stay in memory until `commit()`, which writes one run per changed table and then the
record that names the runs. If memory gets full, rows are written back earlier; such runs take
effect with the next commit.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from idlestate.backends.files.committed_folder import RECORD, CommittedFolder
from idlestate.backends.runs.changed_rows import WrittenRows
from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.runs.table_schema import TableSchema
from idlestate.backends.shards.run_place import read_table, write_table
from idlestate.backends.shards.shard_record import TableRecord
from idlestate.state.backend import KeyedStateBackend
from idlestate.state.cleanup import IncrementalStep
from idlestate.state.closed_backend import ClosedBackend
from idlestate.state.errors import StateArgumentError
from idlestate.state.folder_record import check_record, check_restore, record_of
from idlestate.state.key_batch import KeyBatch
from idlestate.state.runs import entry_rows
from idlestate.state.runs.all_rows import timer_rows
from idlestate.state.runs.entry_table import EntryTable
from idlestate.state.runs.runs_table import RunsTable
from idlestate.state.runs.runs_tables_by_kind import ITEMS_TABLES, RunsSingleTable
from idlestate.state.runs.runs_timers import RunsTimerQueue
from idlestate.state.runs.working_set import KEYS, WorkingSet, column
from idlestate.state.settings import BackendSettings
from idlestate.state.snapshot import HeldSnapshot, Snapshot, SnapshotMode
from idlestate.state.snapshot_files import SnapshotInfo
from idlestate.state.snapshot_parts import Part, write_parts
from idlestate.state.state import Many
from idlestate.state.state_schema import VERSIONS, StateSchema, check_versions
from idlestate.state.stored_parts import stored_parts
from idlestate.state.table import Table
from idlestate.state.ttl_layer import Ttl
from idlestate.state.usage import Usage
from idlestate.timers.timer import TimerQueue

ROWS = "rows"
EVERYTHING = MergePolicy(dense=0, floor_rows=0)


class RunsKeyedStateBackend(KeyedStateBackend):
    """States in the columns of one table; large lists and maps in a second table each; timers in
    a table per queue.
    """

    kind = "runs"

    def __init__(self, path: Path, settings: BackendSettings) -> None:
        """A backend with the state of the folder, or of the snapshots."""
        super().__init__(settings)
        self._settings = settings
        self._folder = CommittedFolder(path)
        self._held: set[object] = set()
        try:
            self._open(path, [SnapshotInfo.read(folder) for folder in settings.restore])
        except BaseException:
            self._folder.close()
            raise

    def _open(self, path: Path, infos: list[SnapshotInfo]) -> None:
        record = self._folder.read()
        if record is not None:
            check_versions(record, str(path / RECORD))
            check_record(record, self._settings, path)
        for info in infos:
            check_restore(info, self._settings)
        if infos and record is not None:
            raise StateArgumentError(f"{path} holds state already: restore into an empty folder")
        record = record or {"version": 0, "states": [], "queues": {}, "entries": {}, "tables": {}}
        self._version: int = record["version"]
        self._table_of_queue: dict[str, str] = record["queues"]
        self._table_of_entries: dict[str, str] = record["entries"]
        self._records = {
            name: TableRecord.from_json(each) for name, each in record["tables"].items()
        }
        self._folder.keep_only(self._named())
        self._committed = self._record()
        self._schemas = {each["name"]: StateSchema.from_json(each) for each in record["states"]}
        families = [schema.family for schema in self._schemas.values()]
        rows = self._stored(ROWS, TableSchema(KEYS, tuple(map(column, families))))
        self._columns: dict[str, RunsTable] = {}
        self._entries: dict[str, EntryTable] = {}
        self._working = WorkingSet(self._keys, rows, self._write_back, self._count_entries)
        for name, schema in self._schemas.items():
            self._tables[name] = self._table_over(schema)
        for name in self._table_of_queue:
            self._queue(name)
        self._committed = self._record()
        for info in infos:
            for part in stored_parts(info, self._keys):
                self._restore(part)

    def _stored(self, table: str, schema: TableSchema) -> Runs:
        record = self._records.get(table, TableRecord())
        return read_table(self._folder.files, table, record, schema)

    def _start_cleanup(self, _name: str, table: Table, ttl: Ttl, /) -> None:
        cleanup = ttl.config.incremental_in_force
        if cleanup is not None:
            ttl.on_access = IncrementalStep(table, ttl, cleanup.size).step
            if cleanup.run_for_every_record:
                self._each_record.append(ttl.on_access)

    # -------------------------------------------------------------- batches

    def fetch(self, keys: Many, namespace: Any = None) -> None:
        """Load the rows of the keys of the next single calls together."""
        self._working.many(KeyBatch.of(self._keys.key, keys), namespace)

    def commit(self) -> None:
        """Make everything so far durable, atomically.

        Raises:
            StoreError: the disk refused; the previous commit stays in effect.
        """
        self._write_back()
        record = self._record()
        if record != self._committed:
            self._folder.commit(record, self._named())
            self._committed = record
        if not self._held:
            self._folder.keep_only(self._named())

    def _write_back(self, merge: MergePolicy | None = None) -> None:
        """Write changes to runs, which take effect with the next commit, and free their memory."""
        changed: dict[str, tuple[Runs, WrittenRows | None]] = {
            ROWS: (
                self._working.stored,
                self._working.changed(
                    {name: each.cells_now for name, each in self._columns.items()}
                ),
            )
        }
        # After the rows: entries of newly large lists and maps move when rows are encoded.
        for family, entries in self._entries.items():
            changed[self._table_of_entries[family]] = (entries.stored, entries.changed())
        for name, table in self._table_of_queue.items():
            queue = self._timers(name)
            changed[table] = (queue.stored, queue.changed())
        after = self._written(changed, merge)
        self._working.reset(after[ROWS])
        for family, entries in self._entries.items():
            entries.reset(after[self._table_of_entries[family]])
        for each in self._columns.values():
            each.reset()
        for name, table in self._table_of_queue.items():
            self._timers(name).reset(after[table])

    def _written(
        self, changed: Mapping[str, tuple[Runs, WrittenRows | None]], merge: MergePolicy | None
    ) -> dict[str, Runs]:
        records, version = dict(self._records), self._version + 1
        after = {name: stored for name, (stored, _) in changed.items()}
        for name, (stored, rows) in changed.items():
            before = self._records.get(name, TableRecord())
            if rows is None and (merge is None or not before.runs):
                continue
            written = rows or WrittenRows.nothing(stored)
            with self._folder.plainly():
                records[name], after[name] = write_table(
                    self._folder.files,
                    name,
                    written.after(stored, version, merge or MergePolicy()),
                    before,
                )
        if records != self._records:
            self._records, self._version = records, version
        return after

    def _named(self) -> set[str]:
        return {ref.name for record in self._records.values() for ref in record.runs}

    def _record(self) -> dict[str, Any]:
        states = record_of(self._settings, self._schemas.values())
        return (
            VERSIONS
            | states
            | {
                "version": self._version,
                "queues": dict(self._table_of_queue),
                "entries": dict(self._table_of_entries),
                "tables": {name: record.to_json() for name, record in self._records.items()},
            }
        )

    # -------------------------------------------------------------- all of it

    def usage(self) -> Usage:
        """The bytes of the runs and of the data in memory."""
        total = dead = 0
        for record in self._records.values():
            total += record.bytes
            dead += record.bytes * (record.rows - record.live) // max(record.rows, 1)
        memory = self._working.index.total_bytes
        memory += sum([each.total_bytes for each in self._entries.values()])
        memory += sum([self._timers(name).usage_bytes() for name in self._table_of_queue])
        return Usage(total + memory, dead)

    def compact(self) -> None:
        """Commit, and release the disk space of removed keys."""
        self._write_back(EVERYTHING)
        self.commit()

    def _hold(self, folder: Path, mode: SnapshotMode, /) -> Snapshot:
        """Hold the current state, committed or not; its runs do not change."""
        self._write_back()
        parts = [
            Part(name, schema, self._columns[schema.family].stored_rows())
            for name, schema in self._schemas.items()
        ]
        parts += [
            Part(name, None, timer_rows(self._timers(name).stored)) for name in self._table_of_queue
        ]
        info, filters, held = self._info(folder, mode), self._filters(), object()
        self._held.add(held)
        return HeldSnapshot(
            folder,
            lambda: write_parts(info, parts, filters()),
            lambda: self._held.discard(held),
        )

    # -------------------------------------------------------------- tables

    def _timers(self, name: str) -> RunsTimerQueue:
        queue = self._queue(name)
        assert isinstance(queue, RunsTimerQueue)
        return queue

    def _make_table(self, schema: StateSchema) -> Table:
        self._working.use_columns([*self._columns, schema.family])
        return self._table_over(schema)

    def _table_over(self, schema: StateSchema) -> Table:
        family = schema.family
        if schema.kind in ITEMS_TABLES:
            name = self._table_of_entries.get(family) or self._next_entries()
            stored = self._stored(name, entry_rows.SCHEMA)
            table = ITEMS_TABLES[schema.kind](self._keys, schema, self._working, stored)
            self._table_of_entries[family], self._entries[family] = name, table.entries
            self._columns[family] = table
        else:
            self._columns[family] = RunsSingleTable(self._keys, schema, self._working)
        return self._columns[family]

    def _next_entries(self) -> str:
        """An unused name for a second table."""
        taken = [int(name.partition("_")[2]) for name in self._table_of_entries.values()]
        return f"entries_{max(taken, default=-1) + 1}"

    def _count_entries(self) -> int:
        return sum([each.index.count for each in self._entries.values()])

    def _make_queue(self, name: str, /) -> TimerQueue:
        table = self._table_of_queue.setdefault(name, f"timers_{len(self._table_of_queue)}")
        return RunsTimerQueue(self._timer_layout, self._stored(table, TableSchema(KEYS)))

    def _drop_table(self, schema: StateSchema) -> None:
        del self._columns[schema.family]
        if self._entries.pop(schema.family, None) is not None:
            self._records.pop(self._table_of_entries.pop(schema.family), None)
        self._working.use_columns(self._columns)

    def _record_schemas(self) -> None:
        """Does nothing: the next commit records them."""

    def _let_go(self) -> None:
        """Let another program open the folder; uncommitted changes are lost."""
        self._folder.close()
        closed: Any = ClosedBackend()
        self._working = self._records = closed
