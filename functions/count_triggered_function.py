"""A function that fires at every n-th record of a key, like Flink's `StateCleaningCountTrigger`."""

from typing import Any

import pyarrow as pa

from idlestate.errors import RefusedError
from idlestate.functions.function import KeyedProcessFunction, Rows
from idlestate.functions.function_context import FunctionContext
from idlestate.state.descriptors import ValueStateDescriptor


class CountTriggeredFunction(KeyedProcessFunction):
    """Collects the records of a key, and fires at every n-th record.

    Override `add` and `fire`. If the policy ends a key's life, `fire` is called for the records
    since it last fired, if there are any.
    """

    counted = ValueStateDescriptor(name="counted", value_type=pa.int64(), default=0)
    """The number of the key's records since it last fired."""

    def __init__(self, every: int) -> None:
        """Fire whenever a key has received this many records.

        Raises:
            RefusedError: the number is not an integer of 1 or more.
        """
        if every.__class__ is not int or every < 1:
            raise RefusedError(f"every {every!r} is not valid; pass a whole number of 1 or more")
        self.every = every

    def add(self, row: Any, ctx: FunctionContext) -> None:
        """Add a record to states; arguments as in `process_element`."""

    def fire(self, count: int, ctx: FunctionContext) -> Rows:
        """Return or yield the rows for the key's records since it last fired.

        States are kept unless this method clears them (Flink's FIRE_AND_PURGE). At the end of the
        life (`count` is below `every`), they cannot be changed.

        Args:
            count: the number of records.
            ctx: key, time and states.
        """
        raise NotImplementedError("define fire")

    def process_element(self, row: Any, ctx: FunctionContext) -> Rows:
        """See `KeyedProcessFunction`."""
        self.add(row, ctx)
        counted = ctx.state(self.counted)
        count = counted.value() + 1
        is_full = count >= self.every
        # Zero is a value, so the life continues, and with it the states that `add` has written.
        counted.update(0 if is_full else count)
        return self.fire(count, ctx) if is_full else None

    def on_expire(self, ctx: FunctionContext) -> Rows:
        """See `KeyedProcessFunction`."""
        count = ctx.state(self.counted).value()
        return self.fire(count, ctx) if count else None
