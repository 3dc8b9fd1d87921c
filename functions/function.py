"""`KeyedProcessFunction`: what a user writes to process the records of each key."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from idlestate.functions.function_context import FunctionContext

Rows = Iterable[tuple[Any, ...]] | None


class KeyedProcessFunction:
    """A function with state and timers for each key.

    Override `process_element`, and if needed the other methods. Each may yield tuples that fit the
    operator's `output`, or return None. States are declared as class attributes: descriptors from
    `idlestate.state`, such as `ValueStateDescriptor("count", pa.int64(), default=0)`.

    Functions must be deterministic, and store what they remember in states: an instance serves many
    keys, and a batch may run again.
    """

    def open(self, ctx: "FunctionContext") -> None:
        """Called in each batch before the records of a shard; may declare states by `ctx.state`.

        It is also called when the operator is defined, to determine its states.
        """

    def process_element(self, row: Any, ctx: "FunctionContext") -> Rows:
        """Process a record.

        Args:
            row: the record as a named tuple of its columns.
            ctx: its key and time, with access to states and timers.
        """
        raise NotImplementedError("define process_element")

    def on_timer(self, name: str | None, ctx: "FunctionContext") -> Rows:
        """A timer of the key is due; `ctx.timestamp_ms` is its time.

        Args:
            name: the timer's name; None if `ctx.register_timer` set it.
            ctx: as for `process_element`.
        """

    def on_expire(self, ctx: "FunctionContext") -> Rows:
        """The policy ended the key's life; `ctx.timestamp_ms` is the deadline.

        States can be read for the last time; changing them is an error.
        """
