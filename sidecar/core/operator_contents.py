"""The state of an operator: its record, shards, expired log and prepared sets, changed together.

Memory follows the store: `save` writes first, and changes memory only after that succeeded. Readers
read `now` once and need no lock, because neither the record nor the shards in it ever change.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.metrics import families
from idlestate.metrics.families import Name
from idlestate.metrics.step_durations import Durations
from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.core.expired_log import ExpiredLog, Staged
from idlestate.sidecar.core.operator_record import OperatorRecord
from idlestate.sidecar.core.prepared_sets import PreparedSets
from idlestate.sidecar.core.segment_keys import segment_keys
from idlestate.sidecar.core.shard_executor import ShardExecutor
from idlestate.sidecar.protocol.errors import DamagedDirectoryError, DoesNotFitError
from idlestate.sidecar.protocol.worker_ranges import is_of_shard
from idlestate.sidecar.stores.store import Changes, Store
from idlestate.timers.clock import Clock

_T = TypeVar("_T")


class OperatorContents:
    """One operator.

    Args:
        store: the store of this state.
        record: the stored record.
        clock: gives the time of entries of the expired log.
        executor: stores the runs of its shards.

    Attributes:
        lock: held during changes.
        waiting: the writes that wait for a batch border: bytes by key.
        durations: how long its steps took in this process.
        now: its record and shards as last written, consistent with each other.
    """

    def __init__(
        self, store: Store, record: OperatorRecord, clock: Clock, executor: ShardExecutor
    ) -> None:
        """Read the operator from the store."""
        self.clock = clock
        self.store = store
        self.executor = executor
        self.lock = threading.RLock()
        self.durations = Durations(
            families.SWEEP_DURATION,
            families.EXCHANGE_DURATION,
            families.LOOKUP_DURATION,
            families.COMPACTION_DURATION,
        )
        self._is_dropped = False
        self.uid = record.declaration.uid
        self.spec = record.declaration.spec()
        self.log = ExpiredLog(store, self.uid, self._value)
        self.sets = PreparedSets(store, self.uid)
        self.waiting = {key: len(value) for key, value in store.scan(f"i/{self.uid}/")}
        shards = [ShardRecord(self.uid, at) for at in range(record.declaration.shards)]
        for key, value in store.scan(f"m/{self.uid}/"):
            shards[int(key.rpartition("/")[2])] = ShardRecord.decode(value)
        self.now = (record, shards)

    def _value(self, key: str) -> bytes | None:
        return self.executor.value(key) if is_of_shard(key) else self.store.get(key)

    @property
    def record(self) -> OperatorRecord:
        """The operator's record as last written."""
        return self.now[0]

    @property
    def shards(self) -> list[ShardRecord]:
        """The shards as last written."""
        return self.now[1]

    @property
    def is_event_time(self) -> bool:
        """Whether the policy uses event time."""
        return self.record.declaration.time == TimeDomain.EVENT.value

    def took(self, name: Name, since_s: float) -> None:
        """Count the duration of something that started at this time of the monotonic clock."""
        self.durations.observe(name, self.uid, self.clock.monotonic_s() - since_s)

    def read(self, look: Callable[[OperatorRecord, list[ShardRecord]], _T]) -> _T:
        """Read with the current record and shards; needs no lock.

        Raises:
            DamagedDirectoryError: one of their runs is lost or damaged.
        """
        while True:
            record, shards = self.now
            try:
                return look(record, shards)
            except DamagedDirectoryError:
                if not self.have_changed(shards):
                    raise
                # Some shards were merged in the meantime, which removed their runs.

    def have_changed(self, shards: list[ShardRecord]) -> bool:
        """Whether these shards were replaced, or are being replaced."""
        with self.lock:
            return self.shards is not shards

    def named_values(self) -> Iterator[str]:
        """The keys of all values of shards that this operator refers to."""
        pieces = [piece for each in self.sets.sets.values() for piece in each.pieces.values()]
        for shards in (dict(enumerate(self.shards)), *(piece.shards for piece in pieces)):
            for at, shard in shards.items():
                for run in shard.runs:
                    yield from segment_keys(self.uid, at, run)
        yield from (staged.key for piece in pieces for staged in piece.expired)
        yield from (entry.key for entry in self.log.entries if is_of_shard(entry.key))

    def prepared_bytes(self) -> int:
        """Bytes of the runs and expired records that only the pieces of the open batch name."""
        kept = {run.name for shard in self.shards for run in shard.runs}
        pieces = [
            piece for each in list(self.sets.sets.values()) for piece in list(each.pieces.values())
        ]
        runs = (run for piece in pieces for shard in piece.shards.values() for run in shard.runs)
        staged = sum(each.bytes for piece in pieces for each in piece.expired)
        return staged + sum(run.bytes for run in runs if run.name not in kept)

    def save(
        self,
        record: OperatorRecord,
        shards: Mapping[int, ShardRecord] | None = None,
        values: Changes | None = None,
        removed: Iterable[str] = (),
        expired: Iterable[Staged] = (),
    ) -> None:
        """Write a change atomically, then apply it in memory; under the lock.

        Args:
            record: the operator's next record; the numbers of expired records are added here.
            shards: the shards that change.
            values: values to write with them.
            removed: keys to remove.
            expired: staged rows that get their numbers now.
        """
        changes: dict[str, bytes | None] = dict.fromkeys(removed)
        changes.update(values or {})
        entries = self.log.numbered(expired, record.next_seq, self.clock.now_ms())
        if entries:
            record = replace(record, next_seq=entries[-1].stop)
            changes.update(self.log.values(entries))
        dropped: dict[str, int] = {}
        for at, shard in (shards or {}).items():
            kept = {run.name for run in shard.runs}
            for run in self.shards[at].runs:
                if run.name not in kept:
                    dropped[run.name] = at
                    changes.update(dict.fromkeys(segment_keys(self.uid, at, run)))
        changes.update(self.values(record, shards or {}))
        self.write(changes)
        self.log.entries += entries
        self.believe(record, shards or {})
        self.executor.forget(dropped)

    def values(self, record: OperatorRecord, shards: Mapping[int, ShardRecord]) -> Changes:
        """A next record and the shards that change with it, as values of the store."""
        changed = {f"m/{self.uid}/{at:05}": shard.encode() for at, shard in shards.items()}
        return {**changed, record.key: record.encode()}

    def believe(self, record: OperatorRecord, shards: Mapping[int, ShardRecord]) -> None:
        """Apply what was written to memory; under the lock."""
        after = self.shards
        if shards:
            after = [shards.get(at, old) for at, old in enumerate(after)]
        self.now = (record, after)

    def use(self, executor: ShardExecutor) -> None:
        """Continue with the executor of the declaration that was written; under the lock."""
        self.spec = self.record.declaration.spec()
        self.executor = executor

    def drop(self, keys: Iterable[str]) -> None:
        """Remove the operator with these keys and all values that it refers to; under the lock."""
        self.write(dict.fromkeys([self.record.key, *keys, *self.named_values()]))
        self._is_dropped = True

    def write(self, changes: Changes) -> None:
        """Write values atomically; those of tables go to the store that keeps the tables.

        Raises:
            DoesNotFitError: the operator was dropped: a waiting change must not restore it.
        """
        if self._is_dropped:
            raise DoesNotFitError(f"operator {self.uid!r} was dropped")
        gone = self.executor.elsewhere(
            key for key, value in changes.items() if value is None and is_of_shard(key)
        )
        self.store.write({key: value for key, value in changes.items() if key not in gone})
        self.executor.remove(gone)
