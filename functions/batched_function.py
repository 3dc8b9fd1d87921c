"""`BatchedProcessFunction`: what a user writes to process records of many keys in one call."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from idlestate.functions.function import KeyedProcessFunction

if TYPE_CHECKING:
    from idlestate.functions.batch_context import BatchContext

Columns: TypeAlias = Mapping[str, Any] | pa.Table | pa.RecordBatch
Yielded: TypeAlias = Columns | Iterable[Columns] | None

FORMS = {
    "process_element": "process_batch",
    "process_element1": "process_batch1",
    "process_element2": "process_batch2",
    "on_timer": "on_timers",
    "on_expire": "on_expires",
}
"""The methods for one key, and the corresponding methods for many keys."""


class BatchedProcessFunction(KeyedProcessFunction):
    """A function with state and timers for each key, called with many keys at once.

    In a call, each key occurs at most once, with one record. Override `process_batch`, and if
    needed the other methods. Each may return columns that fit the operator's `output`, as a dict or
    an Arrow table, or yield several of them. States are declared as for `KeyedProcessFunction`, and
    must be value states.

    A class may also override the methods `process_element`, `on_timer` and `on_expire` of
    `KeyedProcessFunction`. They are then called for keys with far more records than others, if a
    call fails, and if a state is not a value state. Both forms must behave the same:
    `idlestate.testing.check_cuts` compares them.
    """

    def process_batch(self, rows: Any, ctx: "BatchContext") -> Yielded:
        """Process records of different keys.

        Args:
            rows: a named tuple of the columns of the records, each an Arrow array.
            ctx: their keys and times, with access to states and timers.
        """
        raise NotImplementedError("define process_batch")

    def on_timers(self, name: str | None, ctx: "BatchContext") -> Yielded:
        """Timers of different keys are due; `ctx.timestamps_ms` are their times.

        Args:
            name: the name of the timers; None for plain timers.
            ctx: as for `process_batch`.
        """

    def on_expires(self, ctx: "BatchContext") -> Yielded:
        """Lives ended by the policy; `ctx.timestamps_ms` are the deadlines.

        States can be read for the last time; changing them is an error.
        """
