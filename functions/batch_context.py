"""The context of each call of a batched function: keys, times, states and timers."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.errors import RefusedError
from idlestate.functions.batched_columns import Ints, rows_of, times_for
from idlestate.functions.function_context import checked_name
from idlestate.state.descriptors import StateDescriptor


class BatchState(Protocol):
    """A value state for the n keys of a call; `where` contains a boolean per key, or is None for
    all.
    """

    def value(self) -> Any:
        """The values, in order of the keys. Numbers and booleans of a state with a default and
        without a time to live are a numpy array. All other values are an Arrow array, null for a
        key without a value.
        """

    def update(self, values: Any, where: Any = None) -> None:
        """Replace the values; pass one for each key of the call. A null clears the key's value."""

    def clear(self, where: Any = None) -> None:
        """Clear the values."""


class CallTimers(Protocol):
    """The timers of the keys of a call; rows are positions in the call."""

    def set(self, name: str | None, rows: Ints, at_ms: Ints) -> None:
        """Set timers with a name, or plain timers."""

    def delete(self, name: str | None, rows: Ints, at_ms: Ints | None) -> None:
        """Delete timers with a name, or plain timers at these times."""

    def times_ms(self, name: str) -> pa.Array:
        """When the timers with a name are due; null without one."""


class BatchContext:
    """The context of each call of a batched function, with n keys.

    Attributes:
        keys: the key column as an Arrow array, or a tuple of arrays for several key columns.
        timestamps_ms: the times of the records or timers (int64 numpy array, read-only).
    """

    __slots__ = ("_states", "_timers", "keys", "timestamps_ms")

    def __init__(
        self, keys: Any, at_ms: Ints, states: dict[str, BatchState], timers: CallTimers
    ) -> None:
        """The context of one call; `states` by name."""
        self.keys = keys
        self.timestamps_ms = read_only(at_ms)
        self._states, self._timers = states, timers

    def state(self, descriptor: StateDescriptor[Any]) -> BatchState:
        """The keys' state with this descriptor.

        Raises:
            RefusedError: the function does not declare it.
        """
        try:
            return self._states[descriptor.name]
        except KeyError:
            raise RefusedError(
                f"state {descriptor.name!r} is not declared; make its descriptor a class "
                "attribute of the function, or pass it to ctx.state in open"
            ) from None

    def timer(self, name: str, at_ms: Any, where: Any = None) -> None:
        """Have `on_timers(name, ctx)` called at these times, one for each key of the call.

        They replace the keys' timers with this name. `where` selects keys by a boolean per key.
        """
        self._set(checked_name(name), at_ms, where)

    def register_timer(self, at_ms: Any, where: Any = None) -> None:
        """Have `on_timers(None, ctx)` called at these times; as for `timer`."""
        self._set(None, at_ms, where)

    def delete_timer(self, timer: Any, where: Any = None) -> None:
        """Delete timers by name, or plain timers by a column of times; missing timers are
        ignored.
        """
        n = len(self.timestamps_ms)
        rows = rows_of(where, n)
        if isinstance(timer, str):
            self._timers.delete(timer, rows, None)
        else:
            self._timers.delete(None, rows, times_for(timer, n, rows))

    def timer_at(self, name: str) -> pa.Array:
        """When the timers with this name are due (ms, Arrow int64); null for a key without one."""
        return self._timers.times_ms(name)

    def _set(self, name: str | None, at_ms: Any, where: Any) -> None:
        n = len(self.timestamps_ms)
        rows = rows_of(where, n)
        self._timers.set(name, rows, times_for(at_ms, n, rows))


def read_only(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same array, read-only."""
    seen: npt.NDArray[Any] = values.view()
    seen.flags.writeable = False
    return seen


def is_plain(kind: pa.DataType) -> bool:
    """Whether numpy can represent the type: numbers and booleans."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def shown(
    values: npt.NDArray[Any], valid: npt.NDArray[np.bool_], kind: pa.DataType, default: Any
) -> Any:
    """Values of keys as `BatchState.value` returns them.

    Args:
        values: a numpy array of numbers or booleans; Python values for other types.
        valid: which keys have a value.
        kind: the type of the values.
        default: the value for keys without one; None if there is no default.
    """
    if is_plain(kind):
        if default is not None:
            return read_only(values if valid.all() else np.where(valid, values, default))
        return pa.array(values, kind, mask=None if valid.all() else ~valid, from_pandas=False)
    pairs = zip(values.tolist(), valid.tolist(), strict=True)
    return pa.array([value if there else default for value, there in pairs], kind)
