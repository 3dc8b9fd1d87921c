"""The steps of operators other than `process`: of those with lives, and of `join`.

Spark ships a step to tasks, so this file imports nothing until a step is used.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from idlestate.backends.runs.compaction import MergePolicy
    from idlestate.backends.shards.early_results import Showing
    from idlestate.backends.shards.shard_table import Outcome, ShardTable
    from idlestate.backends.shards.steps_by_key import Steps
    from idlestate.retention.policy import Policies


@dataclass(frozen=True)
class LifeStep:
    """The step of operators with a `LifeKind`: the one of the table itself."""

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
        """See `OperatorStep`."""
        return table.apply(steps, policies[0], sweep_at_ms, batch_id, merge, showing=showing)


LIFE_STEP = LifeStep()


@dataclass(frozen=True)
class JoinStep:
    """The step of `join`."""

    def apply(
        self,
        table: "ShardTable",
        steps: "Steps",
        policies: "Policies",
        sweep_at_ms: int,
        batch_id: int,
        merge: "MergePolicy",
        showing: "Showing | None",  # noqa: ARG002
    ) -> "Outcome":
        """See `OperatorStep`."""
        from idlestate.backends.shards.join_step import apply_join  # noqa: PLC0415

        return apply_join(table, steps, policies, sweep_at_ms, batch_id, merge)
