"""A user's function, bound to its operator."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from idlestate.functions.function import KeyedProcessFunction

if TYPE_CHECKING:
    from idlestate.backends.runs.compaction import MergePolicy
    from idlestate.backends.shards.early_results import Showing
    from idlestate.backends.shards.shard_table import Outcome, ShardTable
    from idlestate.backends.shards.steps_by_key import Steps
    from idlestate.retention.policy import Policies


@dataclass(frozen=True)
class BoundFunction:
    """The step of `process`: a function, the columns of records that it receives, and its output
    columns. Spark ships it to tasks.

    Attributes:
        uid: the operator.
        function: the function, not opened.
        inputs: the columns of a record, including keys, per input.
        output: the columns that it yields.
        rejects: whether a record on which it fails is rejected; otherwise the batch stops.
        ttls_ms: times to live by state name; states without one are omitted.
        form: `keyed`: calls receive one key; `batched`: many keys; `both`: many keys, or one key
            where that is faster or identifies the failing record.
    """

    uid: str
    function: KeyedProcessFunction
    inputs: tuple[tuple[str, ...], ...]
    output: pa.Schema
    ttls_ms: tuple[tuple[str, int], ...] = ()
    rejects: bool = False
    form: str = "keyed"

    @property
    def is_batched(self) -> bool:
        """Whether calls receive many keys."""
        return self.form != "keyed"

    @property
    def name(self) -> str:
        """The function's name in errors."""
        return type(self.function).__qualname__

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

        return apply_function(self, table, steps, policies[0], sweep_at_ms, batch_id, merge)
