"""Keyed state of one operator, or of one instance of it: the common part of all backends."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.retention.policy import TimeDomain
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.cleanup import SnapshotFilter
from idlestate.state.closed_backend import ClosedBackend, refuse_use
from idlestate.state.descriptors import S_co, StateDescriptor, check_descriptor
from idlestate.state.errors import StateArgumentError, StateMigrationError
from idlestate.state.key_context import KeyContext
from idlestate.state.migration import migration_of
from idlestate.state.row_keys import KeyLayout
from idlestate.state.settings import BackendSettings, Place, check_name, folder_from
from idlestate.state.snapshot import Snapshot, SnapshotMode, mode_from
from idlestate.state.snapshot_files import SnapshotInfo
from idlestate.state.snapshot_parts import Part
from idlestate.state.state import Many
from idlestate.state.state_factory import state_over
from idlestate.state.state_schema import StateSchema
from idlestate.state.sweep import SweepReport, TableSweep, expiry_times_ms
from idlestate.state.table import Table
from idlestate.state.timer_rows import TimerLayout
from idlestate.state.ttl_layer import Ttl
from idlestate.state.usage import Usage
from idlestate.timers.timer import TimerQueue, limit_from, time_from
from idlestate.timers.timer_service import OnTimer, TimerService
from idlestate.timers.watermark_clock import WatermarkClock

TIMERS_AT_ONCE = 10_000
"""Timers that a restore adds in one write."""


class KeyedStateBackend(ABC):
    """States, timers and snapshots of the keys of some key groups.

    Attributes:
        kind: "heap", "rocksdb" or "runs".
        max_parallelism: the number of key groups.
        groups: the key groups of this backend.
        watermark: the clock of states with a time to live in event time.
    """

    kind: str

    def __init__(self, settings: BackendSettings) -> None:
        """A backend without states."""
        self.max_parallelism = settings.max_parallelism
        self.groups = settings.groups
        self.key_type = settings.key_type
        self.namespace_type = settings.namespace_type
        self.watermark = WatermarkClock()
        self._clock = settings.clock
        self._keys = KeyLayout.of(self.key_type, self.namespace_type, self.max_parallelism)
        self._timer_layout = TimerLayout(self._keys)
        self._context = KeyContext()
        self._schemas: dict[str, StateSchema] = {}
        self._tables: dict[str, Table] = {}
        self._states: dict[str, Any] = {}
        self._ttls: dict[str, Ttl] = {}
        self._queues: dict[str, TimerQueue] = {}
        self._each_record: list[Callable[[], object]] = []
        self._sweeps: dict[str, TableSweep] = {}
        self._services: list[TimerService] = []
        self._closed = False

    # -------------------------------------------------------------- keys and states

    @property
    def current_key(self) -> Any:
        """The current key, to which all states belong."""
        return self._context.key

    def set_current_key(self, key: Any) -> None:
        """Set the current key, to which all states belong.

        Raises:
            NullValueError: the key is None.
            StateTypeError: it does not have the backend's `key_type`.
        """
        for step in self._each_record:
            step()
        self._context.key = self._keys.normal_key(key)

    def key_group(self, key: Any) -> int:
        """The key group of a key.

        Raises:
            NullValueError: the key is None.
            StateTypeError: it does not have the backend's `key_type`.
        """
        return self._keys.group_of(self._keys.normal_key(key))

    def get_state(self, descriptor: StateDescriptor[S_co]) -> S_co:
        """The state with this name, created or restored.

        A state is identified by its name: a second descriptor with the same name gets the same
        object, and its time to live is ignored.

        Raises:
            StateKindError: the name belongs to a state of another kind.
            StateMigrationError: stored values do not fit the declared types.
            RefusedError: stored values get a time to live in event time, and there is no
                watermark yet.
        """
        check_descriptor(descriptor)
        known: S_co | None = self._states.get(descriptor.name)
        if known is not None:
            migration_of(self._schemas[descriptor.name], descriptor, self._clock.now_ms)
            return known
        ttl = None if descriptor.ttl is None else self._ttl_of(descriptor.ttl)
        self._prepare(descriptor, self._clock.now_ms if ttl is None else ttl.now_ms)
        table = self._tables[descriptor.name]
        state: S_co = state_over(descriptor, table, self._context, ttl)
        if ttl is not None:
            self._ttls[descriptor.name] = ttl
            self._start_cleanup(descriptor.name, table, ttl)
        self._states[descriptor.name] = state
        return state

    def _prepare(self, descriptor: StateDescriptor[Any], now_ms: Callable[[], int]) -> None:
        """Prepare a table that fits the descriptor; rewrite its rows if they do not fit."""
        schema = self._schemas.get(descriptor.name)
        if schema is None:
            schema = StateSchema.of(descriptor)
            self._tables[schema.name] = self._make_table(schema)
        elif migration := migration_of(schema, descriptor, now_ms):
            old, schema = self._tables[schema.name], migration.target
            table = self._make_table(schema)
            table.load(migration.rows(old.rows(self.groups)))
            self._tables[schema.name] = table
        else:
            return
        before = self._schemas.get(schema.name)
        self._schemas[schema.name] = schema
        self._record_schemas()
        if before is not None:
            self._drop_table(before)

    def _ttl_of(self, config: StateTtlConfig) -> Ttl:
        if config.time is TimeDomain.EVENT:
            return Ttl(config, self.watermark.known_ms, self.watermark.now_ms)
        return Ttl(config, self._clock.now_ms, self._clock.now_ms)

    @abstractmethod
    def _start_cleanup(self, name: str, table: Table, ttl: Ttl, /) -> None:
        """Start cleanup by accesses, if the backend supports it."""

    def keys(self, name: str, namespace: Any = None) -> Iterator[Any]:
        """Keys with stored data in a state and namespace, expired or not."""
        return self._table(name).keys(self._keys.normal_namespace(namespace))

    def size(self, name: str) -> int:
        """Physical entries of a state: keys, in RocksDB rows (a list is one)."""
        return self._table(name).size()

    def _table(self, name: object) -> Table:
        table = self._tables.get(name) if isinstance(name, str) else None
        if table is None:
            known = ", ".join(sorted(self._tables)) or "none"
            raise StateArgumentError(f"state {name} not found; available: {known}")
        return table

    def fetch(self, keys: Many, namespace: Any = None) -> None:  # noqa: ARG002
        """Announce the keys of the next single calls; the runs backend reads them together."""
        if self._closed:
            refuse_use()

    def commit(self) -> None:
        """Make everything so far durable atomically, in the runs backend.

        In RocksDB, every call is durable already. On heap, only snapshots are durable.
        """
        if self._closed:
            refuse_use()

    # -------------------------------------------------------------- timers

    def timer_service(
        self, name: str, on_processing_time: OnTimer, on_event_time: OnTimer
    ) -> TimerService:
        """The timers with this name, created or restored; the callbacks get each one that fires."""
        check_name("timers", name)
        service = TimerService(
            self._queue(f"_timer_state/processing_{name}"),
            self._queue(f"_timer_state/event_{name}"),
            self._timer_layout,
            self._context,
            on_processing_time,
            on_event_time,
        )
        self._services.append(service)
        return service

    def _queue(self, name: str) -> TimerQueue:
        if name not in self._queues:
            self._queues[name] = self._make_queue(name)
        return self._queues[name]

    # -------------------------------------------------------------- expiry

    def sweep(self, now_ms: int, budget: int, *, records: bool = False) -> SweepReport:
        """Remove what has expired at this time; visits at most `budget` keys.

        Each call continues where the previous one stopped, through all states with a time to live
        in turn. The report says whether the end of the last state was reached. With `records`, it
        contains what was removed.
        """
        now_ms, budget, report = time_from(now_ms), limit_from("budget", budget), SweepReport()
        for name, ttl in self._ttls.items():
            if name not in self._sweeps:
                self._sweeps[name] = TableSweep(name, self._tables[name], ttl)
        while report.seen < budget:
            waiting = [sweep for sweep in self._sweeps.values() if not sweep.done]
            if not waiting:
                break
            waiting[0].go_on(now_ms, budget - report.seen, report, records=records)
        report.done = all(sweep.done for sweep in self._sweeps.values())
        if report.done:
            self._sweeps.clear()
        return report

    def expiry_times_ms(self, name: str) -> Positions | None:
        """When each value, element or entry of a state expires or has expired, in any order.

        Int64 milliseconds by the state's clock, from all its timestamps; None without a time to
        live, or if `get_state` was not called.
        """
        table, ttl = self._table(name), self._ttls.get(name)
        return None if ttl is None else expiry_times_ms(table, ttl)

    @abstractmethod
    def usage(self) -> Usage:
        """The bytes of everything, and the dead ones among them."""

    @abstractmethod
    def compact(self) -> None:
        """Release the space of removed data; RocksDB also drops expired rows."""

    # -------------------------------------------------------------- snapshots

    def snapshot(self, folder: Place, mode: SnapshotMode = SnapshotMode.CHECKPOINT) -> Snapshot:
        """Hold the current state; the snapshot's `finish` writes it to a folder."""
        return self._hold(folder_from("folder", folder), mode_from(mode))

    @abstractmethod
    def _hold(self, folder: Path, mode: SnapshotMode, /) -> Snapshot:
        """The snapshot of `snapshot`."""

    def _filters(self) -> Callable[[], dict[str, SnapshotFilter]]:
        """Returns a factory of filters that leave expired values out of this snapshot."""
        marks = self.kind == "rocksdb"
        rules = {
            name: (self._schemas[name].layout, ttl)
            for name, ttl in self._ttls.items()
            if ttl.config.full_snapshot
        }
        return lambda: {
            name: SnapshotFilter(layout, ttl, ttl.clock_ms(), marks_entries=marks)
            for name, (layout, ttl) in rules.items()
        }

    def _info(self, folder: Path, mode: SnapshotMode) -> SnapshotInfo:
        return SnapshotInfo(
            folder,
            self.kind,
            mode.value,
            self.max_parallelism,
            self.groups,
            self.key_type,
            self.namespace_type,
            states=[],
            new_files=[],
        )

    def _restore(self, part: Part) -> None:
        """Restore the rows of a snapshot's state or timers."""
        rows = part.rows(self.groups)
        if part.schema is not None:
            self._restore_table(part.schema).load(rows)
            return
        while some := [row.key for row in islice(rows, TIMERS_AT_ONCE)]:
            self._queue(part.name).add_rows(pa.array(some, pa.binary()))

    def _restore_table(self, stored: StateSchema) -> Table:
        """The table for the rows of a snapshot's state."""
        known = self._schemas.get(stored.name)
        if known is None:
            self._schemas[stored.name] = stored
            self._tables[stored.name] = self._make_table(stored)
        elif replace(known, family=stored.family) != stored:
            raise StateMigrationError(
                f"state {stored.name} differs between the snapshots that are restored: "
                f"{known} and {stored}"
            )
        return self._tables[stored.name]

    # -------------------------------------------------------------- for each kind of backend

    @abstractmethod
    def _make_table(self, schema: StateSchema) -> Table:
        """A new, empty table."""

    @abstractmethod
    def _make_queue(self, name: str, /) -> TimerQueue:
        """A timer queue, with the timers that were stored."""

    @abstractmethod
    def _drop_table(self, schema: StateSchema) -> None:
        """Remove the previous table of a state."""

    @abstractmethod
    def _record_schemas(self) -> None:
        """Store the list of states, if the backend stores anything."""

    @abstractmethod
    def _let_go(self) -> None:
        """Release the resources of the backend other than objects."""

    def close(self) -> None:
        """Release everything. A second call does nothing; held snapshots can still be finished.

        From then on, the backend, its states and its timers raise `BackendClosedError`.
        """
        if self._closed:
            return
        self._closed = True
        closed: Any = ClosedBackend()
        for state in self._states.values():
            state.table = closed
        for service in self._services:
            service.close(closed)
        self._let_go()
        self._context = self._each_record = closed
        self._schemas = self._tables = self._states = closed
        self._ttls = self._sweeps = self._queues = closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
