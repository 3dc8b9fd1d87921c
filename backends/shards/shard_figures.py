"""A shard in figures: sizes now, and counts since it was made."""

from dataclasses import dataclass

from idlestate.backends.shards.row_counts import RowCounts
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.retention.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFigures(RowCounts):
    """What is told of a shard, besides what became of rows; all int.

    Every figure is absolute, so a lost or repeated one does no harm: the newest is the truth.
    """

    shard: int
    time_ms: int
    next_end_ms: int
    live_keys: int
    state_bytes: int
    runs: int
    stored_rows: int
    remembered_keys: int
    remembered_bytes: int
    keys_ever_seen: int
    created: int
    returning_keys: int
    expired_lifetime: int
    expired_ttl: int
    expired_idle: int

    @classmethod
    def of(cls, record: ShardRecord, policy: Policy) -> "ShardFigures":
        """The figures of a shard under the policy in force."""
        lifetime, ttl, idle = record.tally.expired
        return ShardFigures(
            shard=record.shard,
            time_ms=record.time_ms,
            next_end_ms=record.next_end_ms,
            live_keys=record.live_keys,
            state_bytes=record.current.bytes,
            runs=len(record.runs),
            stored_rows=record.current.rows,
            remembered_keys=record.remembered.live,
            remembered_bytes=record.remembered.bytes,
            keys_ever_seen=record.keys_ever_seen(policy),
            created=record.tally.created,
            returning_keys=record.tally.returning_keys,
            expired_lifetime=lifetime,
            expired_ttl=ttl,
            expired_idle=idle,
            **record.rows.as_dict(),
        )
