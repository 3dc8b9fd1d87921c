"""Keyed state in this process's memory. Data that is in no snapshot is lost with the process."""

from collections.abc import Callable, Iterator
from pathlib import Path

from idlestate.state.backend import KeyedStateBackend
from idlestate.state.cleanup import IncrementalStep
from idlestate.state.descriptors import StateKind
from idlestate.state.folder_record import check_restore
from idlestate.state.heap.copy_on_write_columns import Held
from idlestate.state.heap.heap_items import HeapTable
from idlestate.state.heap.heap_list import HeapListTable
from idlestate.state.heap.heap_map import HeapMapTable
from idlestate.state.heap.heap_timers import ColumnTimerQueue, FrozenTimers
from idlestate.state.heap.values_table import HeapSingleTable
from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.settings import BackendSettings
from idlestate.state.snapshot import HeldSnapshot, Snapshot, SnapshotMode
from idlestate.state.snapshot_files import SnapshotInfo
from idlestate.state.snapshot_parts import Part, write_parts
from idlestate.state.state_schema import StateSchema
from idlestate.state.stored_parts import stored_parts
from idlestate.state.table import Row, Table
from idlestate.state.ttl_layer import Ttl
from idlestate.state.usage import Usage
from idlestate.timers.timer import TimerQueue

TABLES: dict[StateKind, type[HeapListTable | HeapMapTable]] = {
    StateKind.LIST: HeapListTable,
    StateKind.MAP: HeapMapTable,
}


class HeapKeyedStateBackend(KeyedStateBackend):
    """States in columns and dicts."""

    kind = "heap"

    def __init__(self, settings: BackendSettings) -> None:
        """A backend with the state of the snapshots."""
        super().__init__(settings)
        for folder in settings.restore:
            info = SnapshotInfo.read(folder)
            check_restore(info, settings)
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
        """The bytes of tables and timers."""
        found = Usage(0, 0)
        for table in self._tables.values():
            assert isinstance(table, HeapTable)
            found += table.usage()
        for queue in self._queues.values():
            assert isinstance(queue, ColumnTimerQueue)
            found += queue.usage()
        return found

    def compact(self) -> None:
        """Release the memory of removed keys: columns and dicts keep their size until rebuilt."""
        for table in self._tables.values():
            assert isinstance(table, HeapTable)
            table.shrink()

    def _hold(self, folder: Path, mode: SnapshotMode, /) -> Snapshot:
        """Hold the current state: later writes copy the data first."""
        parts, held = list[Part](), list[Held]()
        for name, schema in self._schemas.items():
            table = self._tables[name]
            assert isinstance(table, HeapTable)
            frozen = table.freeze()
            held.append(frozen)
            parts.append(Part(name, schema, frozen.rows))
        for name, queue in self._queues.items():
            assert isinstance(queue, ColumnTimerQueue)
            parts.append(Part(name, None, _rows_of(queue.freeze())))
        info, filters = self._info(folder, mode), self._filters()

        def release() -> None:
            for each in held:
                each.release()

        return HeldSnapshot(folder, lambda: write_parts(info, parts, filters()), release)

    def _make_table(self, schema: StateSchema) -> Table:
        return TABLES.get(schema.kind, HeapSingleTable)(self._keys, schema.layout)

    def _make_queue(self, _name: str) -> TimerQueue:
        return ColumnTimerQueue(self._timer_layout)

    def _drop_table(self, schema: StateSchema) -> None:
        """Does nothing: the table is no longer referenced."""

    def _record_schemas(self) -> None:
        """Does nothing: on heap, only snapshots are durable."""

    def _let_go(self) -> None:
        """Does nothing: memory is released with the objects."""


def _rows_of(timers: FrozenTimers) -> Callable[[KeyGroupRange], Iterator[Row]]:
    """Timers as the rows of a part."""
    return lambda groups: (Row(row, b"") for row in timers.rows(groups.first, groups.last))
