"""Keyed state in this process's memory. What a snapshot did not write is gone with the process."""

from collections.abc import Callable, Iterator
from pathlib import Path

from idlestate.backends.keyed.backend import KeyedStateBackend
from idlestate.backends.keyed.cleanup import IncrementalStep
from idlestate.backends.keyed.descriptors import StateKind
from idlestate.backends.keyed.heap_list import HeapListTable
from idlestate.backends.keyed.heap_map import HeapMapTable
from idlestate.backends.keyed.heap_single import HeapSingleTable
from idlestate.backends.keyed.heap_table import HeapTable
from idlestate.backends.keyed.key_groups import KeyGroupRange
from idlestate.backends.keyed.meta import StateMeta
from idlestate.backends.keyed.settings import BackendSettings
from idlestate.backends.keyed.snapshot import HeldSnapshot, Snapshot, SnapshotMode
from idlestate.backends.keyed.snapshot_files import SnapshotInfo
from idlestate.backends.keyed.snapshot_rows import Part, stored_parts, write_parts
from idlestate.backends.keyed.table import Row, Table
from idlestate.backends.keyed.timer_columns import ColumnTimerQueue
from idlestate.backends.keyed.ttl import Ttl
from idlestate.backends.keyed.usage import Usage
from idlestate.timers.timer import TimerQueue

TABLES: dict[StateKind, type[HeapListTable | HeapMapTable]] = {
    StateKind.LIST: HeapListTable,
    StateKind.MAP: HeapMapTable,
}


class HeapKeyedStateBackend(KeyedStateBackend):
    """States in columns and dicts."""

    kind = "heap"

    def __init__(self, settings: BackendSettings) -> None:
        """A backend with what the snapshots hold."""
        super().__init__(settings)
        self._held = 0
        for folder in settings.restore:
            info = SnapshotInfo.read(folder)
            self._check_restore(info)
            for part in stored_parts(info, self._keys):
                self._restore(part)

    def _start_cleanup(self, _name: str, table: Table, ttl: Ttl, /) -> None:
        cleanup = ttl.config.incremental_in_force
        if cleanup is None:
            return
        step = IncrementalStep(table, ttl, cleanup.size).step
        ttl.on_access = step
        if cleanup.run_for_every_record:
            self._each_record.append(step)

    def usage(self) -> Usage:
        """How much room tables and timers take."""
        found = Usage(0, 0)
        for table in self._tables.values():
            assert isinstance(table, HeapTable)
            found += table.usage()
        for queue in self._queues.values():
            assert isinstance(queue, ColumnTimerQueue)
            found += queue.usage()
        return found

    def compact(self) -> None:
        """Give memory of removed keys back: columns and dicts keep their size until made anew."""
        for table in self._tables.values():
            assert isinstance(table, HeapTable)
            table.shrink()

    def snapshot(self, folder: Path, mode: SnapshotMode = SnapshotMode.CHECKPOINT) -> Snapshot:
        """Hold the state as it is now: columns are copied, what dicts hold is copied on write."""
        parts: list[Part] = []
        for name, meta in self._metas.items():
            table = self._tables[name]
            assert isinstance(table, HeapTable)
            parts.append(Part(name, meta, table.frozen_copy().rows))
        for name, queue in self._queues.items():
            rows = [Row(row, b"") for row in queue.rows(self.groups.first, self.groups.last)]
            parts.append(Part(name, None, _held(rows)))
        self._held += 1

        def write() -> SnapshotInfo:
            filters = {name: self._filter(name) for name in self._metas}
            return write_parts(self._info(folder, mode), parts, filters)

        return HeldSnapshot(folder, write, self._release)

    def _release(self) -> None:
        self._held -= 1
        if not self._held:
            for table in self._tables.values():
                assert isinstance(table, HeapTable)
                table.thaw()

    def _make_table(self, meta: StateMeta) -> Table:
        return TABLES.get(meta.kind, HeapSingleTable)(self._keys, meta.layout)

    def _make_queue(self, _name: str) -> TimerQueue:
        return ColumnTimerQueue(self._timer_layout)

    def _drop_table(self, meta: StateMeta) -> None:
        """The table is no longer referred to."""

    def _record_metas(self) -> None:
        """Nothing on heap is durable but snapshots."""

    def _let_go(self) -> None:
        """Memory goes with the objects."""


def _held(rows: list[Row]) -> Callable[[KeyGroupRange], Iterator[Row]]:
    """These rows, which are all of the backend's key groups."""
    return lambda _: iter(rows)
