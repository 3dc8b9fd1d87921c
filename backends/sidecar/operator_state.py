"""An operator as it stands: its record, shards, expired log and prepared sets, changed together.

Memory follows the store: `save` writes first, and only what was written is then believed. Who
reads takes `record` and `shards` once and needs no lock: neither ever changes.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.merge import MergePolicy
from idlestate.backends.sidecar.errors import DamagedError
from idlestate.backends.sidecar.expired_log import ExpiredLog, Staged
from idlestate.backends.sidecar.operator_record import OperatorRecord
from idlestate.backends.sidecar.prepared import PreparedSets
from idlestate.backends.sidecar.shard_record import ShardRecord
from idlestate.backends.sidecar.shard_tables import ShardTables
from idlestate.backends.sidecar.store import Store
from idlestate.backends.steps import Steps
from idlestate.backends.table import Outcome, Table
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.timers.clock import Clock


@dataclass(frozen=True, slots=True)
class Stepped:
    """What a step makes of a shard, not written yet."""

    shard: ShardRecord
    values: dict[str, bytes]
    expired: tuple[Staged, ...]
    updates: pa.Table


class OperatorState:
    """One operator.

    Attributes:
        lock: held by whoever changes it.
        record, shards: as they were last written.
    """

    def __init__(
        self, store: Store, record: OperatorRecord, clock: Clock, cache_bytes: int
    ) -> None:
        """Read what the store has of the operator."""
        self.clock = clock
        self.store = store
        self.lock = threading.RLock()
        self.record = record
        self.uid = record.declaration.uid
        self.spec = record.declaration.spec()
        self.tables = ShardTables(store, self.uid, self.spec, cache_bytes)
        self.log = ExpiredLog(store, self.uid)
        self.sets = PreparedSets(store, self.uid)
        self.shards = [ShardRecord()] * record.declaration.shards
        for key, value in store.scan(f"m/{self.uid}/"):
            self.shards[int(key.rpartition("/")[2])] = ShardRecord.decode(value)

    @property
    def is_event_time(self) -> bool:
        """Whether the rules go by the events' own time."""
        return self.record.declaration.time == TimeDomain.EVENT.value

    def table(self, at: int) -> Table:
        """The table of a shard as it is now; needs no lock.

        Raises:
            DamagedError: a run of it is lost or damaged.
        """
        while True:
            shard = self.shards[at]
            try:
                return self.tables.table(shard)
            except DamagedError:
                if self.shards[at] is shard:
                    raise
                # It was merged meanwhile, and its runs are gone for a good reason.

    def step(
        self,
        shard: ShardRecord,
        steps: Steps,
        policy: Policy,
        to_ms: int | None,
        version: int,
        merge: MergePolicy,
        batch_id: int,
    ) -> Stepped:
        """Take records into a shard and close what is due at `to_ms`; needs no lock.

        Args:
            shard: the shard as it is.
            steps: the records.
            policy: the policy in force.
            to_ms: how far lives are closed; None closes none.
            version: that of the table it makes.
            merge: when runs are merged.
            batch_id: the batch that its change rows name.
        """
        outcome = self.tables.table(shard).apply(steps, policy, to_ms, version, merge)
        return self.stepped(shard, outcome, policy, to_ms or 0, batch_id)

    def stepped(
        self, shard: ShardRecord, outcome: Outcome, policy: Policy, to_ms: int, batch_id: int
    ) -> Stepped:
        """What an outcome makes of a shard, ready to be written; arguments as of `step`."""
        written = self.tables.write(shard, outcome, policy, to_ms)
        changes = _of_batch(outcome.changes, batch_id)
        ends = pc.equal(changes.column("change"), "expire")
        expired = self.log.stage(changes.filter(ends), written.values)
        return Stepped(written.record, written.values, expired, changes.filter(pc.invert(ends)))

    def save(
        self,
        record: OperatorRecord,
        shards: Mapping[int, ShardRecord] | None = None,
        values: Mapping[str, bytes] | None = None,
        removed: Iterable[str] = (),
        expired: Iterable[Staged] = (),
    ) -> None:
        """Write a change, all or none, and then believe it; under the lock.

        Args:
            record: the operator's next record; the numbers of expired records are added here.
            shards: the shards that change.
            values: values that come with them.
            removed: keys that go.
            expired: staged rows that get their numbers now.
        """
        changes: dict[str, bytes | None] = dict.fromkeys(removed)
        changes.update(values or {})
        entries = self.log.numbered(expired, record.next_seq, self.clock.now_ms())
        if entries:
            record = replace(record, next_seq=entries[-1].stop)
            changes.update(self.log.values(entries))
        dropped: set[str] = set()
        for at, shard in (shards or {}).items():
            kept = {run.name for run in shard.runs}
            for run in self.shards[at].runs:
                if run.name not in kept:
                    dropped.add(run.name)
                    changes.update(dict.fromkeys(self.tables.segments(run)))
            changes[f"m/{self.uid}/{at:05}"] = shard.encode()
        changes[f"o/{self.uid}"] = record.encode()
        self.store.write(changes)
        self.record = record
        self.log.entries += entries
        if shards:
            self.shards = [shards.get(at, old) for at, old in enumerate(self.shards)]
        self.tables.forget(dropped)


def _of_batch(changes: pa.Table, batch_id: int) -> pa.Table:
    """The rows with the query's number of the batch in the place of the table's version."""
    at = changes.schema.get_field_index("batch_id")
    return changes.set_column(at, "batch_id", pa.repeat(pa.scalar(batch_id), len(changes)))
