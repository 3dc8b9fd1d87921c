"""A task's attempt at its part of a micro-batch, and the answer to it."""

from dataclasses import dataclass
from typing import Any

from idlestate.retention.policy import Policy
from idlestate.sidecar.core.operator_record import OpenBatch
from idlestate.sidecar.core.prepared_sets import SetId


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task's attempt at its part of a batch."""

    query_id: str
    run_id: str
    execution_id: str
    batch_id: int
    attempt: int
    """Higher for a later attempt of the same partition in one execution."""
    partition: int
    partitions: int
    shards: tuple[int, ...]
    """The shards of this partition."""
    time_ms: int
    """The batch's journaled time."""
    watermark_ms: int
    policy: Policy
    policy_version: int = 1
    right: Policy | None = None
    """For a join, the policy of right rows; `policy` is that of left rows."""

    @property
    def set_id(self) -> SetId:
        """The execution of the batch to which the attempt belongs."""
        return self.run_id, self.execution_id

    def opening(self, t_ms: int, version: int) -> OpenBatch:
        """What is journaled about the batch if this attempt opens it first.

        Args:
            t_ms: the time of the batch.
            version: the version of the tables.
        """
        return OpenBatch(
            self.batch_id,
            t_ms,
            version,
            self.policy,
            self.policy_version,
            self.time_ms,
            self.right,
        )


@dataclass(frozen=True, slots=True)
class Prepared:
    """The answer to a task: figures per shard, and for each range, the number of waiting parts of
    its rows.
    """

    chunks: tuple[int, ...]
    figures: dict[int, dict[str, Any]]
