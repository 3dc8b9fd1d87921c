"""A shard's absolute figures after a batch, as they travel to the driver and add up there."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

from idlestate.backends.shards.shard_figures import ShardFigures
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.metrics.names import REJECT_REASONS
from idlestate.metrics.operator_figures import OperatorFigures
from idlestate.pipeline.checkpoint.operator_layout import PolicyVersion
from idlestate.retention.policy import Policy, TimeDomain

OBSERVATION = "idlestate:"
"""Prefix of the observation under which an operator's reports stand in Spark's progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport(ShardFigures):
    """A shard's figures after a batch, and the version of the policy that it went by."""

    batch_id: int
    policy_version: int


def report_of(record: ShardRecord, in_force: PolicyVersion, batch_id: int) -> ShardReport:
    """The report of a shard after a batch that went by this policy."""
    figures = ShardFigures.of(record, in_force.policy)
    return ShardReport(**asdict(figures), batch_id=batch_id, policy_version=in_force.version)


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
        rejected_rows={name: total(name) for name in REJECT_REASONS},
        live_keys=total("live_keys"),
        state_bytes=total("state_bytes"),
        remembered_keys=total("remembered_keys"),
        remembered_bytes=total("remembered_bytes"),
        keys_seen=total("keys_ever_seen"),
        keys_created=total("created"),
        keys_expired={name: total(f"expired_{name}") for name in ("idle", "ttl", "lifetime")},
        returning_keys=total("returning_keys"),
        policy_version=max((each.policy_version for each in every), default=1),
        policy=policy,
    )
