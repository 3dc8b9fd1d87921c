"""An operator of the sidecar: its batches, direct writes, background work and reads."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.shards.changelog_rows import TIMESTAMP
from idlestate.backends.shards.input_watermarks import Inputs
from idlestate.backends.shards.key_details import Explanation
from idlestate.backends.shards.planned_removals import PolicyPlan, plan_of_shards
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_statistics import ShardStatistics
from idlestate.metrics.families import LOOKUP_DURATION
from idlestate.retention.policy import Policy, TimeDomain, of_sides
from idlestate.retention.rules import NEVER_MS
from idlestate.sidecar.core.expired_log_compaction import ExpiredJoins
from idlestate.sidecar.core.micro_batches import Batches, ReachedMs
from idlestate.sidecar.core.one_way_writes import DirectWrites
from idlestate.sidecar.core.operator_contents import OperatorContents
from idlestate.sidecar.core.operator_record import OperatorRecord
from idlestate.sidecar.core.shard_executor import ShardExecutor
from idlestate.sidecar.core.sweeper import Sweeper
from idlestate.sidecar.protocol.declaration import check_name
from idlestate.sidecar.protocol.errors import DamagedDirectoryError, DoesNotFitError
from idlestate.sidecar.stores.store import Store
from idlestate.timers.clock import Clock

MAX_CONSUMERS = 1000
_log = logging.getLogger("idlestate")


@dataclass(frozen=True, slots=True)
class Sizes:
    """An operator in numbers."""

    batch_id: int
    live_keys: int
    state_bytes: int
    expired_kept: int
    """Expired records that are still kept."""
    expired_bytes: int
    """Bytes of these records."""
    prepared_bytes: int
    """Bytes prepared for the open batch, which no record names yet."""
    next_seq: int
    waiting: int
    """Writes that are waiting for a batch border."""
    quarantined: int
    """Rows of acknowledged writes that could not be applied at a border."""


class Operator:
    """One operator.

    Attributes:
        forgotten_consumers: the number of consumers forgotten since the process started.
    """

    def __init__(
        self,
        store: Store,
        record: OperatorRecord,
        clock: Clock,
        reached_ms: ReachedMs,
        executor: ShardExecutor,
    ) -> None:
        """Read the operator from the store."""
        self.state = OperatorContents(store, record, clock, executor)
        self.writes = DirectWrites(self.state)
        self.batches = Batches(self.state, reached_ms, self.writes.drain)
        self.sweeper = Sweeper(self.state)
        self.joins = ExpiredJoins(self.state)
        self.forgotten_consumers = 0

    @property
    def record(self) -> OperatorRecord:
        """The operator's current record."""
        return self.state.record

    def under(self, policy: Policy) -> tuple[OperatorRecord, dict[int, ShardRecord]]:
        """The next record under another policy, and the shards that change with it."""
        record, shards = self.state.now
        # The next sweep determines when lives end under it.
        unknown = {
            at: replace(shard, next_end_ms=NEVER_MS)
            for at, shard in enumerate(shards)
            if shard.live_keys
        }
        version = record.policy_version + 1
        return replace(record, policy=policy, policy_version=version), unknown

    def plan(self, policy: Policy, now_ms: int, right: Policy | None = None) -> PolicyPlan:
        """What another policy would remove, without removing anything.

        Args:
            policy: the other policy.
            now_ms: now; in event time, the time that the query has reached counts instead.
            right: for a join, the other policy of right rows; None: as `policy`.

        Raises:
            DoesNotFitError: it uses another time domain, or `right` is passed for another operator.
        """
        state = self.state
        if right is not None and not state.spec.is_of_sides:
            raise DoesNotFitError(f"operator {state.uid!r} is not a join; remove right_policy")
        others = of_sides(policy, right)
        for each in others:
            state.record.declaration.check_time(each)

        def look(record: OperatorRecord, shards: list[ShardRecord]) -> PolicyPlan:
            t_ms = _time_of(record, now_ms)
            found = state.executor.horizons(dict(enumerate(shards)), record.of_sides, others, t_ms)
            planned = plan_of_shards(state.uid, shards, found, record.policy, policy, t_ms)
            is_of_sides = state.spec.is_of_sides
            return replace(planned, right=(record.of_sides[1], others[1]) if is_of_sides else None)

        return state.read(look)

    def explain(self, rows: bytes, now_ms: int) -> Explanation:
        """Why a key is, or is no longer, in state; this does not extend its life.

        Args:
            rows: the key as an Arrow stream of one row.
            now_ms: now; in event time, the time that the query has reached counts instead.

        Raises:
            DoesNotFitError: the key has other types.
        """
        state = self.state

        def look(record: OperatorRecord, shards: list[ShardRecord]) -> Explanation:
            t_ms = _time_of(record, now_ms)
            facts = state.executor.explain(rows, dict(enumerate(shards)), record.of_sides, t_ms)
            (key,) = pa.ipc.open_stream(rows).read_all().to_pylist()
            right = record.of_sides[1] if state.spec.is_of_sides else None
            return Explanation(
                *(state.uid, key, t_ms, facts, record.policy, record.policy_version), right
            )

        return state.read(look)

    def look_up(self, rows: bytes, now_ms: int) -> tuple[pa.Table, int]:
        """The open lives of keys, and the newest committed batch; this does not extend lives.

        Args:
            rows: the keys as an Arrow stream.
            now_ms: lives that ended by then are left out; in event time, those that ended by the
                time that the query has reached. Lives that end only in batches stay until then.

        Raises:
            DoesNotFitError: the keys have other types, or the operator is a join, whose keys have
                no lives.
        """
        state = self.state
        if state.spec.is_of_sides:
            raise DoesNotFitError(
                f"operator {state.uid!r} is a join: its keys have rows and no lives; use explain "
                "for a key, or read_state for all rows"
            )

        # The result is consistent: lives, time and batch belong to the same moment.
        def look(record: OperatorRecord, shards: list[ShardRecord]) -> tuple[pa.Table, int]:
            lives = state.executor.look_up(rows, dict(enumerate(shards)), record.policy)
            return self._open_at(lives, now_ms, record), record.committed

        begun_s = state.clock.monotonic_s()
        found = state.read(look)
        state.took(LOOKUP_DURATION, begun_s)
        return found

    def lives(self, shard: int, now_ms: int, since: int) -> tuple[pa.Table, int | None]:
        """Some open lives of a shard, as in `look_up`, or rows of a join, and the hash to continue
        from (see `ShardExecutor`).

        Each call returns the lives at the time of the call.
        """
        state = self.state

        def look(record: OperatorRecord, shards: list[ShardRecord]) -> tuple[pa.Table, int | None]:
            lives, following = state.executor.lives(shards[shard], shard, record.of_sides, since)
            return self._open_at(lives, now_ms, record), following

        return state.read(look)

    def expired(self, since: int, before: int | None, most_rows: int) -> pa.Table | None:
        """Expired records by number: from one number up to, but excluding, another."""
        record = self.state.record
        stop = record.next_seq if before is None else min(before, record.next_seq)
        try:
            return self.state.log.read(since, stop, most_rows, self.state.spec)
        except DamagedDirectoryError:
            with self.state.lock:  # it may have been trimmed
                return self.state.log.read(since, stop, most_rows, self.state.spec)

    @property
    def first_seq(self) -> int:
        """The number of the oldest expired record that is kept, or of the next one."""
        oldest = next(iter(self.state.log.entries), None)
        return self.record.next_seq if oldest is None else oldest.first

    def acknowledge(self, consumer: str, upto: int) -> None:
        """Acknowledge all records below a number for a consumer; its first call registers it.

        If there are too many consumers, one whose next records are gone is forgotten.

        Raises:
            DoesNotFitError: there is no such number yet, or there are too many consumers.
        """
        check_name("consumer", consumer)
        with self.state.lock:
            record = self.state.record
            if not 0 <= upto <= record.next_seq:
                raise DoesNotFitError(
                    f"operator {self.state.uid!r}: consumer {consumer} has {upto} records, and "
                    f"there are {record.next_seq}; is this another sidecar's number?"
                )
            consumers = dict(record.consumers)
            if consumer not in consumers:
                upto = max(upto, self.first_seq)  # earlier records were for others
            if consumer not in consumers and len(consumers) >= MAX_CONSUMERS:
                latest = min(consumers, key=lambda each: consumers[each])
                if consumers[latest] >= self.first_seq:
                    raise DoesNotFitError(
                        f"operator {self.state.uid!r} has {MAX_CONSUMERS} consumers, all of them "
                        "active; let consumers keep their names across restarts"
                    )
                del consumers[latest]
            if upto > consumers.get(consumer, -1):
                consumers[consumer] = upto
                heard_ms = {**record.heard_ms, consumer: self.state.clock.now_ms()}
                self._save_consumers(consumers, heard_ms)

    def trim(self, older_than_ms: int) -> int:
        """Remove expired records that are no longer needed, and return their number.

        A consumer that has acknowledged nothing for that long, and whose next records are gone, is
        forgotten: no more records are kept for it.
        """
        with self.state.lock:
            log, record = self.state.log, self.state.record
            gone, removed = log.removable(record.consumers, older_than_ms)
            if gone:
                self.state.save(record, removed=removed)
                del log.entries[: len(gone)]
            kept = {
                name: upto
                for name, upto in record.consumers.items()
                if upto >= self.first_seq or record.heard_ms.get(name, 0) > older_than_ms
            }
            forgotten = sorted(record.consumers.keys() - kept)
            if forgotten:
                self._save_consumers(kept, record.heard_ms)
                self.forgotten_consumers += len(forgotten)
                _log.warning(
                    "operator %s: dropped consumers that acknowledged nothing for the whole "
                    "expired_retention: %s",
                    self.state.uid,
                    ", ".join(forgotten),
                )
            return sum(entry.rows for entry in gone)

    def _save_consumers(self, consumers: dict[str, int], heard_ms: Mapping[str, int]) -> None:
        heard_ms = {name: at_ms for name, at_ms in heard_ms.items() if name in consumers}
        self.state.save(replace(self.state.record, consumers=consumers, heard_ms=heard_ms))

    def due_ms(self, now_ms: int) -> int:
        """The time up to which lives may be closed between batches: now, or in event time the time
        that the query has reached.
        """
        return self.record.reached_ms if self.state.is_event_time else now_ms

    @property
    def owed_ms(self) -> int | None:
        """The event time up to which a batch without data would release rows or close lives, for an
        operator whose lives end only in batches; None if it would change nothing.
        """
        record, shards = self.state.now
        is_due = any(each.next_end_ms <= record.reached_ms for each in shards)
        is_ahead = record.open is None and record.reached_ms > record.time_ms
        is_owed = self.state.spec.ends_by_batches and is_ahead and is_due
        return record.reached_ms if is_owed else None

    @property
    def inputs(self) -> Inputs:
        """The two inputs after the newest committed batch; empty for an operator with one input."""
        return self.state.shards[0].inputs  # packing tasks add their counts to the first shard

    def _open_at(self, lives: pa.Table, now_ms: int, record: OperatorRecord) -> pa.Table:
        if self.state.spec.ends_by_batches:
            return lives  # until a batch has come, a row or a timer may change them
        t_ms = _time_of(record, now_ms)
        deadline = lives.column("deadline")
        is_open = pc.greater(deadline, pa.scalar(t_ms * 1000, pa.int64()).cast(TIMESTAMP))
        return lives.filter(pc.fill_null(is_open, True))

    def figures(self) -> tuple[int, dict[int, dict[str, Any]]]:
        """The newest committed batch, and the figures of each shard after it."""
        record, shards = self.state.now
        figures = (ShardStatistics.of(each, record.policy).as_dict() for each in shards)
        return record.committed, dict(enumerate(figures))

    def sizes(self) -> Sizes:
        """The operator in numbers, as committed."""
        record, shards = self.state.now
        entries = list(self.state.log.entries)
        return Sizes(
            batch_id=record.committed,
            live_keys=sum(shard.live_keys for shard in shards),
            state_bytes=sum(each.bytes for shard in shards for each in shard.open_tables),
            expired_kept=sum(entry.rows for entry in entries),
            expired_bytes=sum(entry.bytes for entry in entries),
            prepared_bytes=self.state.prepared_bytes(),
            next_seq=record.next_seq,
            waiting=len(self.state.waiting),
            quarantined=self.writes.quarantined.rows,
        )


def _time_of(record: OperatorRecord, now_ms: int) -> int:
    """The current time of lives: the clock's, or in event time what the query has reached."""
    is_event_time = record.declaration.time == TimeDomain.EVENT.value
    return record.reached_ms if is_event_time else max(now_ms, record.time_ms)
