"""What a batch does to a shard: the step that differs between operators, independent of their data.

Spark ships it to tasks, so it imports nothing until it is used.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from idlestate.backends.runs.compaction import MergePolicy
    from idlestate.backends.shards.early_results import Showing
    from idlestate.backends.shards.shard_table import Outcome, ShardTable
    from idlestate.backends.shards.steps_by_key import Steps
    from idlestate.retention.policy import Policies


class OperatorStep(Protocol):
    """One operator's step."""

    def apply(
        self,
        table: "ShardTable",
        steps: "Steps",
        policies: "Policies",
        sweep_at_ms: int,
        batch_id: int,
        merge: "MergePolicy",
        showing: "Showing | None",
    ) -> "Outcome":
        """Apply a batch to a shard; arguments as in `ShardTable.apply`.

        The first policy is that of the operator or of its first input, the second one that of a
        second input with its own retention.
        """
