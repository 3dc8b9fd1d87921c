"""A shard's absolute figures after a batch, as they travel to the driver and add up there."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

from idlestate.metrics.figures import OperatorFigures
from idlestate.pipeline.layout import PolicyVersion
from idlestate.pipeline.shard_state import ShardState
from idlestate.retention.policy import FOREVER_MS, Policy, TimeDomain

OBSERVATION = "idlestate:"
"""Prefix of the observation under which an operator's reports stand in Spark's progress."""


@dataclass(frozen=True, slots=True)
class ShardReport:
    """Counts since the query's first batch, and sizes now; all int."""

    shard: int
    batch_id: int
    time_ms: int
    live_keys: int
    state_bytes: int
    runs: int
    stored_rows: int
    remembered_keys: int
    remembered_bytes: int
    keys_ever_seen: int
    created: int
    comebacks: int
    expired_lifetime: int
    expired_ttl: int
    expired_idle: int
    input: int
    late: int
    null_time: int
    too_old: int
    too_far_ahead: int
    malformed: int
    highest_ms: int
    policy_version: int

    @classmethod
    def of(cls, state: ShardState, in_force: PolicyVersion, batch_id: int) -> "ShardReport":
        """The report of a shard's state after a batch that went by this policy."""
        lifetime, ttl, idle = state.tally.expired
        return cls(
            shard=state.shard,
            batch_id=batch_id,
            time_ms=state.time_ms,
            live_keys=state.live_keys,
            state_bytes=state.current.bytes,
            runs=len(state.files),
            stored_rows=state.current.rows,
            remembered_keys=state.remembered.live,
            remembered_bytes=state.remembered.bytes,
            keys_ever_seen=state.keys_ever_seen(
                exact=in_force.policy.remember_for_ms == FOREVER_MS
            ),
            created=state.tally.created,
            comebacks=state.tally.comebacks,
            expired_lifetime=lifetime,
            expired_ttl=ttl,
            expired_idle=idle,
            policy_version=in_force.version,
            **asdict(state.rows),
        )


REPORT_FIELDS = tuple(field.name for field in fields(ShardReport))


def figures(uid: str, policy: Policy, reports: Iterable[ShardReport]) -> OperatorFigures:
    """The operator's figures from the newest report of each of its shards."""
    every = list(reports)

    def total(name: str) -> int:
        return sum(getattr(each, name) for each in every)

    newest = max((each.batch_id for each in every), default=-1)
    time_ms = max((each.time_ms for each in every), default=0)
    is_event_time = policy.time is TimeDomain.EVENT
    return OperatorFigures(
        operator=uid,
        batch_id=newest,
        batches=newest + 1,
        batch_time_ms=None if is_event_time else time_ms or None,
        watermark_ms=time_ms or None if is_event_time else None,
        input_rows=total("input"),
        late_rows=total("late"),
        set_aside_rows={
            name: total(name) for name in ("null_time", "too_old", "too_far_ahead", "malformed")
        },
        live_keys=total("live_keys"),
        state_bytes=total("state_bytes"),
        remembered_keys=total("remembered_keys"),
        remembered_bytes=total("remembered_bytes"),
        keys_seen=total("keys_ever_seen"),
        keys_created=total("created"),
        keys_expired={name: total(f"expired_{name}") for name in ("idle", "ttl", "lifetime")},
        comebacks=total("comebacks"),
        policy_version=max((each.policy_version for each in every), default=1),
        policy=policy,
    )
