"""Keyed state in RocksDB: each call is on disk when it returns, and survives a crash."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rocksdict import BottommostLevelCompaction, CompactOptions

from idlestate.state.backend import KeyedStateBackend
from idlestate.state.closed_backend import ClosedBackend
from idlestate.state.errors import StateArgumentError, StateError
from idlestate.state.folder_record import check_record, check_restore, record_of
from idlestate.state.rocksdb.compaction_filter import compaction_of, filtering
from idlestate.state.rocksdb.periodic_cleanup import PeriodicCleanup
from idlestate.state.rocksdb.rocksdb_database import Database, FamilyTimerStore
from idlestate.state.rocksdb.rocksdb_snapshot import (
    checkpoint,
    clone,
    finish_native,
    native_parts,
    sst_files,
)
from idlestate.state.rocksdb.rocksdb_table import (
    Family,
    RocksDBTable,
    let_go,
    plainly,
    usage_of,
)
from idlestate.state.settings import BackendSettings
from idlestate.state.snapshot import HeldSnapshot, Snapshot, SnapshotMode
from idlestate.state.snapshot_files import (
    DATABASE,
    SnapshotInfo,
    drop_draft,
    start_folder,
)
from idlestate.state.snapshot_parts import write_parts
from idlestate.state.state_schema import StateSchema
from idlestate.state.stored_parts import stored_parts
from idlestate.state.table import Table
from idlestate.state.ttl_layer import Ttl
from idlestate.state.usage import Usage
from idlestate.timers.stored_queue import StoredTimerQueue
from idlestate.timers.timer import TimerQueue

AT_ONCE = 10_000
"""Rows or lists that a compaction changes in one write."""


class RocksDBKeyedStateBackend(KeyedStateBackend):
    """States in column families of one database."""

    kind = "rocksdb"

    def __init__(self, path: Path, settings: BackendSettings) -> None:
        """A backend with the state of the folder, or of the snapshots."""
        super().__init__(settings)
        self._settings = settings
        infos = [SnapshotInfo.read(folder) for folder in settings.restore]
        for info in infos:
            check_restore(info, settings)
        if infos and (path / "CURRENT").exists():
            raise StateArgumentError(f"{path} holds state already: restore into an empty folder")
        cloned = len(infos) == 1 and infos[0].is_native and infos[0].groups == self.groups
        if cloned:
            clone(infos[0], path)
        self._database = Database(path)
        self._stores: list[FamilyTimerStore] = []
        self._known_files: set[str] = set()
        try:
            self._open_tables(path)
            for info in () if cloned else infos:
                for part in stored_parts(info, self._keys):
                    self._restore(part)
            self._record_schemas()
        except BaseException:
            self.close()
            raise

    def _open_tables(self, path: Path) -> None:
        record = self._database.record()
        if record is None:
            return
        check_record(record, self._settings, path)
        for each in record["states"]:
            schema = StateSchema.from_json(each)
            self._schemas[schema.name] = schema
            self._tables[schema.name] = self._database.table(schema, self._keys)

    def _start_cleanup(self, name: str, table: Table, ttl: Ttl, /) -> None:
        """No incremental cleanup, as in Flink: compactions do the work."""
        assert isinstance(table, RocksDBTable)
        cleanup = ttl.config.compaction_in_force
        if cleanup is None or cleanup.periodic_ms <= 0:
            return
        last_ms = self._database.cleaned_ms(name)
        if last_ms is None:
            last_ms = self._clock.now_ms()
            self._database.record_cleaned(name, last_ms)
        begin = partial(filtering, table, ttl, cleanup.query_time_after)
        record = partial(self._database.record_cleaned, name)
        ttl.on_access = PeriodicCleanup(
            begin, cleanup.periodic_ms, self._clock, last_ms, record
        ).step

    def compact(self) -> None:
        """Merge lists, drop expired values if cleanup in compactions is on, and compact."""
        for name, table in self._tables.items():
            assert isinstance(table, RocksDBTable)
            walk = compaction_of(table, self._ttls.get(name))
            while walk is not None and not walk.go_on(AT_ONCE):
                pass
        self.reclaim()

    def usage(self) -> Usage:
        """The bytes of files and of data that is not in files yet."""
        return sum(map(usage_of, self._places()), Usage(0, 0))

    def _places(self) -> list[Family]:
        tables = [each for each in self._tables.values() if isinstance(each, RocksDBTable)]
        return [*tables, *self._stores]

    def reclaim(self) -> None:
        """Release the disk space of removed rows. Other threads may read and write."""
        thorough = CompactOptions()
        thorough.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        with plainly(self._database.path):
            for place in self._places():
                place.family.flush()
                place.family.compact_range(None, None, compact_opt=thorough)
                place.swept_bytes = 0

    def _hold(self, folder: Path, mode: SnapshotMode, /) -> Snapshot:
        """Hold the current state: a checkpoint of links, in which only new files cost space."""
        draft = start_folder(folder)
        files = draft / DATABASE
        try:
            checkpoint(self._database, files)
        except StateError:
            drop_draft(folder)
            raise
        info, filters = self._info(folder, mode), self._filters()

        def write_native() -> SnapshotInfo:
            complete = finish_native(info, draft, self._known_files)
            self._known_files = sst_files(folder / DATABASE)
            return complete

        def write_canonical() -> SnapshotInfo:
            held = folder.with_name(folder.name + ".held")
            shutil.rmtree(held, ignore_errors=True)
            draft.rename(held)
            try:
                parts = native_parts(replace(info, folder=held), self._keys)
                return write_parts(info, parts, filters())
            finally:
                shutil.rmtree(held)

        canonical = mode is SnapshotMode.SAVEPOINT_CANONICAL

        def release() -> None:
            shutil.rmtree(draft, ignore_errors=True)

        return HeldSnapshot(folder, write_canonical if canonical else write_native, release)

    def _make_table(self, schema: StateSchema) -> Table:
        let_go(self._database.make_family(schema.family))
        return self._database.table(schema, self._keys)

    def _make_queue(self, name: str) -> TimerQueue:
        store = FamilyTimerStore(self._database, name)
        self._stores.append(store)
        groups = range(self.groups.first, self.groups.last + 1)
        return StoredTimerQueue(self._timer_layout, store, groups)

    def _drop_table(self, schema: StateSchema) -> None:
        self._database.drop_family(schema.family)

    def _record_schemas(self) -> None:
        self._database.write_record(record_of(self._settings, self._schemas.values()))

    def _let_go(self) -> None:
        """Close the database; another process may open it then."""
        for table in self._tables.values():
            assert isinstance(table, RocksDBTable)
            table.close()
        for store in self._stores:
            store.close()
        self._database.close()
        closed: Any = ClosedBackend()
        self._database = self._stores = closed
