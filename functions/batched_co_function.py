"""`BatchedCoProcessFunction`: a user's function on two streams, with many keys in one call."""

from typing import TYPE_CHECKING, Any

from idlestate.functions.batched_function import FORMS, BatchedProcessFunction, Yielded
from idlestate.functions.co_function import KeyedCoProcessFunction

if TYPE_CHECKING:
    from idlestate.functions.batch_context import BatchContext


class BatchedCoProcessFunction(BatchedProcessFunction, KeyedCoProcessFunction):
    """A function on the records of two inputs, called with many keys at once.

    In a call, each key occurs at most once, with one record, and all records belong to one input.
    Override `process_batch1` and `process_batch2`, and if needed the others. All of them see the
    same states and timers of the keys.

    A class may also override the methods of `KeyedCoProcessFunction`; see `BatchedProcessFunction`
    for when they are called.
    """

    def process_batch1(self, rows: Any, ctx: "BatchContext") -> Yielded:
        """Records of the left input; arguments as for `BatchedProcessFunction.process_batch`."""
        raise NotImplementedError("define process_batch1")

    def process_batch2(self, rows: Any, ctx: "BatchContext") -> Yielded:
        """Records of the right input."""
        raise NotImplementedError("define process_batch2")

    def process_batch(self, rows: Any, ctx: "BatchContext") -> Yielded:
        """Calls the method of the records' input; do not override it."""
        method = FORMS[rows._method]  # noqa: SLF001 - a name no column has
        found: Yielded = getattr(self, method)(rows, ctx)
        return found
