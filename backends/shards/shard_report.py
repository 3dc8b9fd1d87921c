"""The report of a shard to the driver: its absolute figures after a batch."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_statistics import ShardStatistics
from idlestate.retention.policy_version import PolicyVersion

OBSERVATION = "idlestate:"
"""Prefix of the observation with an operator's reports in Spark's progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport(ShardStatistics):
    """A shard's figures after a batch, the batch, and the policy version."""

    batch_id: int
    batch_time_ms: int
    policy_version: int


def report_of(record: ShardRecord, in_force: PolicyVersion, times: BatchTimes) -> ShardReport:
    """The report of a shard after a batch with this policy."""
    return reported(ShardStatistics.of(record, in_force.policy).as_dict(), in_force.version, times)


def reported(figures: Mapping[str, Any], policy_version: int, times: BatchTimes) -> ShardReport:
    """The report of a shard with these figures after a batch."""
    return ShardReport(
        **figures,
        batch_id=times.batch_id,
        batch_time_ms=times.time_ms,
        policy_version=policy_version,
    )


REPORT_FIELDS = {field.name: field.type is not int for field in fields(ShardReport)}
"""The figures of a report, and whether each is a list of numbers."""
