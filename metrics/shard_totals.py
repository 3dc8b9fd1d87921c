"""An operator's figures, summed over its shards, regardless of where its state is."""

from collections.abc import Iterable, Sequence

from idlestate.backends.shards.shard_statistics import ShardStatistics
from idlestate.metrics.families import ABSENCE, EXPIRY_REASONS, REJECT_REASONS
from idlestate.metrics.operator_statistics import InputRows, OperatorStatistics
from idlestate.metrics.samples import BucketCounts
from idlestate.retention.policy import FOREVER_MS, Policy, TimeDomain
from idlestate.retention.rules import NEVER_MS
from idlestate.retention.time_bins import KeyTimes, TimeBins


def operator_statistics(
    uid: str,
    policy: Policy,
    shards: Iterable[ShardStatistics],
    *,
    batch_id: int,
    batch_time_ms: int,
    policy_version: int,
    reached_ms: int = 0,
    input_names: Sequence[str] = (),
) -> OperatorStatistics:
    """The figures of an operator.

    Args:
        uid, policy, policy_version: the operator, and the policy in force.
        shards: the newest figures of each of its shards.
        batch_id, batch_time_ms: the newest batch and its time, ms since the epoch; -1 and 0 before
            the first.
        reached_ms: how far event time has got; 0 if it is not known.
        input_names: the names of two inputs.
    """
    every = list(shards)

    def total(name: str) -> int:
        return sum(getattr(each, name) for each in every)

    time_ms = max((each.time_ms for each in every), default=0)
    # NEVER_MS: only the tables know.
    ends_ms = [each.next_end_ms for each in every if each.next_end_ms != NEVER_MS]
    return OperatorStatistics(
        operator=uid,
        batch_id=batch_id,
        batches=batch_id + 1,
        batch_time_ms=batch_time_ms or None,
        watermark_ms=(time_ms or None) if policy.time is TimeDomain.EVENT else None,
        reached_ms=reached_ms,
        next_end_ms=min(ends_ms, default=FOREVER_MS),
        input_rows=total("input"),
        late_rows=total("late"),
        rejected_rows={name: total(name) for name in REJECT_REASONS},
        inputs=_inputs(every, sorted(input_names)),
        live_keys=total("live_keys"),
        state_bytes=total("state_bytes"),
        remembered_keys=total("remembered_keys"),
        remembered_bytes=total("remembered_bytes"),
        held_rows=total("held_rows"),
        keys_seen=total("keys_ever_seen"),
        keys_created=total("created"),
        keys_expired={name: total(f"expired_{name}") for name in EXPIRY_REASONS},
        returning_keys=total("returning_keys"),
        absences=BucketCounts(
            tuple(map(sum, zip(*(each.absences for each in every), strict=True)))
            or BucketCounts.none(ABSENCE).counts,
            total("absent_ms") / 1000,
        ),
        ends=KeyTimes(TimeBins(each.end_times_ms, each.end_keys) for each in every),
        accesses=KeyTimes(TimeBins(each.access_times_ms, each.access_keys) for each in every),
        disk_bytes={
            "state": total("live_bytes"),
            "remembered": total("live_remembered_bytes"),
            "expired_log": 0,
            "dead": total("dead_bytes"),
        },
        policy_version=policy_version,
        policy=policy,
    )


def _inputs(shards: Iterable[ShardStatistics], names: Sequence[str]) -> dict[str, InputRows]:
    """The rows of two inputs; some shards count none."""
    known = [each.inputs for each in shards if each.inputs] or [[0] * (3 * len(names))]
    counts = [sum(each) for each in zip(*known, strict=True)]
    return {name: InputRows(*counts[3 * at : 3 * at + 3]) for at, name in enumerate(names)}
