"""The report of a shard to the driver: its absolute figures after a batch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_statistics import ShardStatistics
from idlestate.retention.policy_version import PolicyVersion

OBSERVATION = "idlestate:"
"""Prefix of the observation with an operator's reports in Spark's progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport(ShardStatistics):
    """A shard's figures after a batch, the batch, and the policy version.

    It travels as text: Spark would plan, convert and compile a column for each figure.
    """

    batch_id: int
    batch_time_ms: int
    policy_version: int

    def to_json(self) -> str:
        """The report as JSON, as it is observed."""
        return json.dumps(self.as_dict())

    @classmethod
    def from_json(cls, text: str) -> "ShardReport":
        """The report that `to_json` wrote."""
        return cls(**json.loads(text))


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
