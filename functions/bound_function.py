"""A function as an operator calls it."""

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
    """The work of `process`: a function, what of a record it is given, and what it yields.

    Travels to tasks.

    Attributes:
        uid: the operator.
        function: the function, not opened.
        inputs: the columns of a record of each input, keys among them.
        output: the columns that it yields.
        rejects: whether a record on which it fails is rejected; else the batch stops.
        ttls_ms: the times to live of its states by name; those without one are not among them.
        form: `keyed`: calls are given one key; `batched`: many keys; `both`: many, but one key
            where that is faster or tells what failed.
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
        """Whether calls are given many keys."""
        return self.form != "keyed"

    @property
    def name(self) -> str:
        """The function in errors."""
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
        # The driver, which only sends functions, loads no states.
        from idlestate.functions.function_step import apply_function  # noqa: PLC0415

        return apply_function(self, table, steps, policies[0], sweep_at_ms, batch_id, merge)
