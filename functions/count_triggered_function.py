"""A function that fires at every n-th record of a key: Flink's `StateCleaningCountTrigger`."""

from typing import Any

import pyarrow as pa

from idlestate.errors import RefusedError
from idlestate.functions.function import KeyedProcessFunction, Rows
from idlestate.functions.function_context import FunctionContext
from idlestate.state.descriptors import ValueStateDescriptor


class CountTriggeredFunction(KeyedProcessFunction):
    """Collects the records of a key, and fires at every n-th one.

    Override `add` and `fire`. If the life of a key ends by the policy, `fire` is called for the
    records since the last time, if there are any.
    """

    counted = ValueStateDescriptor(name="counted", value_type=pa.int64(), default=0)
    """The records of the key since the last time."""

    def __init__(self, every: int) -> None:
        """Fire at every so many records of a key.

        Raises:
            RefusedError: it is not a whole number of 1 or more.
        """
        if every.__class__ is not int or every < 1:
            raise RefusedError(f"every {every!r} is not valid; pass a whole number of 1 or more")
        self.every = every

    def add(self, row: Any, ctx: FunctionContext) -> None:
        """Take a record into states; arguments as in `process_element`."""

    def fire(self, count: int, ctx: FunctionContext) -> Rows:
        """What is yielded for the last records of the key.

        States stay as they are unless this clears them (Flink's FIRE_AND_PURGE). At the end of the
        life (`count` is below `every`) they cannot be changed.

        Args:
            count: how many records.
            ctx: key, time and states.
        """
        raise NotImplementedError("define fire")

    def process_element(self, row: Any, ctx: FunctionContext) -> Rows:
        """See `KeyedProcessFunction`."""
        self.add(row, ctx)
        counted = ctx.state(self.counted)
        count = counted.value() + 1
        is_full = count >= self.every
        # Zero is a value: the life goes on, and with it what `add` keeps.
        counted.update(0 if is_full else count)
        return self.fire(count, ctx) if is_full else None

    def on_expire(self, ctx: FunctionContext) -> Rows:
        """See `KeyedProcessFunction`."""
        count = ctx.state(self.counted).value()
        return self.fire(count, ctx) if count else None
