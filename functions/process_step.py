"""The step of `process` and `co_process`, which Spark ships to tasks with the user's function."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from idlestate.functions.bound_function import BoundFunction

if TYPE_CHECKING:
    from idlestate.backends.runs.compaction import MergePolicy
    from idlestate.backends.shards.early_results import Showing
    from idlestate.backends.shards.shard_table import Outcome, ShardTable
    from idlestate.backends.shards.steps_by_key import Steps
    from idlestate.retention.policy import Policies


@dataclass(frozen=True)
class ProcessStep:
    """The step that calls a function."""

    bound: BoundFunction

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
        """See `idlestate.backends.shards.operator_step.OperatorStep`."""
        # The driver only ships functions, so it does not load states.
        from idlestate.functions.function_step import apply_function  # noqa: PLC0415

        return apply_function(self.bound, table, steps, policies[0], sweep_at_ms, batch_id, merge)
