"""`KeyedCoProcessFunction`: what a user writes to process two streams with common keys."""

from typing import Any

from idlestate.functions.function import KeyedProcessFunction, Rows
from idlestate.functions.function_context import FunctionContext


class KeyedCoProcessFunction(KeyedProcessFunction):
    """A function on the records of two inputs, with state and timers for each key.

    Override `process_element1` and `process_element2`, and if needed the other methods. Both see
    the same states and timers of the key.
    """

    def process_element1(self, row: Any, ctx: FunctionContext) -> Rows:
        """A record of the left input; arguments as for `KeyedProcessFunction.process_element`."""
        raise NotImplementedError("define process_element1")

    def process_element2(self, row: Any, ctx: FunctionContext) -> Rows:
        """Process a record of the right input."""
        raise NotImplementedError("define process_element2")

    def process_element(self, row: Any, ctx: FunctionContext) -> Rows:
        """Calls the method of the record's input; do not override it."""
        found: Rows = getattr(self, row._method)(row, ctx)  # noqa: SLF001 - a name no column has
        return found
