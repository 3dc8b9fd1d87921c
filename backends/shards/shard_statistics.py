"""The figures of a shard: current sizes, and counts since its creation."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from idlestate.backends.shards.row_counts import RowCounts
from idlestate.backends.shards.shard_record import LIVES, ShardRecord
from idlestate.retention.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStatistics(RowCounts):
    """Figures of a shard in addition to its row counts; each is an int or a list of ints.

    Every figure is absolute, so a lost or repeated report does no harm: the newest one counts.
    """

    shard: int
    time_ms: int
    next_end_ms: int
    """No open life ends before this; `NEVER_MS` if only the table knows."""
    end_times_ms: Sequence[int]
    end_keys: Sequence[int]
    access_times_ms: Sequence[int]
    access_keys: Sequence[int]
    """Deadlines and last accesses of open lives at the last scan, as `TimeBins`."""
    live_keys: int
    state_bytes: int
    runs: int
    stored_rows: int
    remembered_keys: int
    remembered_bytes: int
    held_rows: int = 0
    """Rows that wait for the watermark."""
    inputs: Sequence[int] = ()
    """For each of two inputs, by name: the numbers of all rows, late rows and rejected rows."""
    live_bytes: int
    live_remembered_bytes: int
    dead_bytes: int
    keys_ever_seen: int
    created: int
    returning_keys: int
    absences: Sequence[int]
    absent_ms: int
    expired_lifetime: int
    expired_ttl: int
    expired_idle: int

    def as_dict(self) -> dict[str, Any]:
        """The figures by name; lists are not copied."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def of(cls, record: ShardRecord, policy: Policy) -> "ShardStatistics":
        """The figures of a shard under the policy in force."""
        lifetime, ttl, idle = record.tally.expired
        return ShardStatistics(
            shard=record.shard,
            time_ms=record.time_ms,
            next_end_ms=record.first_end_ms,
            end_times_ms=record.ages.ends.upto_ms,
            end_keys=record.ages.ends.keys,
            access_times_ms=record.ages.accesses.upto_ms,
            access_keys=record.ages.accesses.keys,
            live_keys=record.live_keys,
            state_bytes=sum(each.bytes for each in record.open_tables),
            runs=len(record.runs),
            stored_rows=sum(record.table(name).rows for name in LIVES),
            remembered_keys=record.remembered.live,
            remembered_bytes=record.remembered.bytes,
            held_rows=record.held.live,
            inputs=[
                count
                for _, each in sorted(record.inputs.items())
                for count in (each.rows.input, each.rows.late, each.rows.rejected)
            ],
            live_bytes=sum(each.live_bytes for each in record.open_tables)
            + record.held.live_bytes
            + record.file_bytes,
            live_remembered_bytes=record.remembered.live_bytes,
            dead_bytes=record.dead_bytes,
            keys_ever_seen=record.keys_ever_seen(policy),
            created=record.tally.created,
            returning_keys=record.tally.returning_keys,
            absences=record.tally.absences,
            absent_ms=record.tally.absent_ms,
            expired_lifetime=lifetime,
            expired_ttl=ttl,
            expired_idle=idle,
            **record.rows.as_dict(),
        )
