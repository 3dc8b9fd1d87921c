"""The figures of one operator after one batch, read from its state."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from idlestate.metrics.families import ABSENCE, Name
from idlestate.metrics.forecast import Range
from idlestate.metrics.samples import BucketCounts
from idlestate.retention.budget import Budget
from idlestate.retention.policy import FOREVER_MS, Policy, TimeDomain
from idlestate.retention.time_bins import KeyTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The forecast from an operator's history.

    Attributes:
        in_1h: live keys in an hour; None: there is too little history.
        in_24h: live keys in 24 hours; None: there is too little history.
        keys_full_s: seconds until the budget of keys is full; infinity: not within the forecast.
        bytes_full_s: the same for the budget of bytes.
    """

    in_1h: Range | None = None
    in_24h: Range | None = None
    keys_full_s: float = math.inf
    bytes_full_s: float = math.inf


@dataclass(frozen=True, slots=True)
class InputRows:
    """Rows of one of two inputs."""

    read: int = 0
    late: int = 0
    rejected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStatistics:
    """A snapshot; every number is absolute, counted since the query's first batch.

    No number is a difference to an earlier snapshot, so lost, repeated or replayed snapshots do no
    harm: the newest one is right.

    Attributes:
        operator: the operator's uid.
        batch_id: the newest batch; -1 before the first.
        batches: batches committed.
        batch_time_ms: the batch's journaled time, ms since the epoch; None before the first.
        watermark_ms: the event-time watermark, ms since the epoch; None if there is none.
        reached_ms: how far event time has got, ms since the epoch: the watermark of the next batch;
            0 if it is not known.
        next_end_ms: no open life is known to end before this, ms since the epoch; `FOREVER_MS` if
            none ends, None if only the sidecar that has the state knows.
        input_rows: rows read, including late and rejected rows.
        late_rows: rows at or behind the watermark.
        rejected_rows: rejected rows by reason (`names.REJECT_REASONS`).
        inputs: rows of each of two inputs, by name; empty for an operator with one input.
        live_keys: keys with an open life.
        state_bytes: size of the state.
        remembered_keys: expired keys that are remembered.
        remembered_bytes: size of the remembered keys.
        held_rows: rows that wait for the watermark.
        keys_seen: estimated number of distinct keys ever seen.
        keys_created: lives started.
        keys_expired: lives ended, by reason (`names.EXPIRY_REASONS`).
        returning_keys: lives started by remembered keys.
        absences: how long returning keys had been absent, by `names.AGE_BUCKETS_S`.
        ends: deadlines of live keys, as of the last scan.
        accesses: last accesses of live keys, as of the same scan.
        disk_bytes: bytes on disk, by part (`names.DISK_PARTS`).
        policy_version: version of the policy in force, from 1.
        policy: the policy in force.
        swept_ms: when a sweep last left nothing overdue, ms since the epoch; None if not known.
        compacted_ms: when compaction last left nothing to release; None if not known.
        durations: how long things took in this process, by histogram.
        budget: how large the state may become.
        outlook: its forecast.
    """

    operator: str
    batch_id: int = -1
    batches: int = 0
    batch_time_ms: int | None = None
    watermark_ms: int | None = None
    reached_ms: int = 0
    next_end_ms: int | None = FOREVER_MS
    input_rows: int = 0
    late_rows: int = 0
    rejected_rows: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, InputRows] = field(default_factory=dict)
    live_keys: int = 0
    state_bytes: int = 0
    remembered_keys: int = 0
    remembered_bytes: int = 0
    held_rows: int = 0
    keys_seen: int = 0
    keys_created: int = 0
    keys_expired: Mapping[str, int] = field(default_factory=dict)
    returning_keys: int = 0
    absences: BucketCounts = field(default_factory=lambda: BucketCounts.none(ABSENCE))
    ends: KeyTimes = field(default_factory=KeyTimes)
    accesses: KeyTimes = field(default_factory=KeyTimes)
    disk_bytes: Mapping[str, int] = field(default_factory=dict)
    policy_version: int = 1
    policy: Policy = field(default_factory=Policy)
    swept_ms: int | None = None
    compacted_ms: int | None = None
    durations: Mapping[Name, BucketCounts] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    outlook: Outlook = field(default_factory=Outlook)

    def __post_init__(self) -> None:
        # Copies: the caller may continue to count in its dicts.
        object.__setattr__(self, "rejected_rows", MappingProxyType(dict(self.rejected_rows)))
        object.__setattr__(self, "keys_expired", MappingProxyType(dict(self.keys_expired)))

    @property
    def rejected_total(self) -> int:
        """Rows rejected for any reason."""
        return sum(self.rejected_rows.values())

    @property
    def expired_total(self) -> int:
        """Lives ended for any reason."""
        return sum(self.keys_expired.values())

    @property
    def full_s(self) -> dict[str, float]:
        """Seconds until each budget is full, by what it limits: 0 once it is reached."""
        each = (
            ("keys", self.budget.keys, self.live_keys, self.outlook.keys_full_s),
            ("bytes", self.budget.bytes, self.state_bytes, self.outlook.bytes_full_s),
        )
        return {name: 0.0 if size >= most else full_s for name, most, size, full_s in each if most}

    @property
    def never_expires(self) -> bool:
        """Whether nothing ends its lives: no policy rule, interval, window or timer."""
        return self.policy.is_unbounded and self.next_end_ms == FOREVER_MS

    def expiry_lag_ms(self, now_ms: int) -> int | None:
        """How long ago the oldest expired but still open life ended, by the operator's time.

        Args:
            now_ms: the wall clock, which counts in processing time.

        Returns:
            Milliseconds, 0 if there is none; None if it is not known.
        """
        if self.next_end_ms is None:
            return None
        return max(self.time_ms(now_ms) - self.next_end_ms, 0)

    def time_ms(self, now_ms: int) -> int:
        """The operator's own time: the wall clock, or how far event time has got."""
        if self.policy.time is TimeDomain.EVENT:
            return max(self.reached_ms, self.watermark_ms or 0)
        return now_ms
