"""Calls a batched function with one key at a time, to find the record on which it fails."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.functions.batch_context import BatchContext, is_plain, shown
from idlestate.functions.batched_columns import Ints, fitted, output_batches, rows_of
from idlestate.functions.batched_function import FORMS, BatchedProcessFunction
from idlestate.functions.function import KeyedProcessFunction
from idlestate.functions.function_context import FunctionContext
from idlestate.functions.function_forms import overrides
from idlestate.state.descriptors import ValueStateDescriptor


class OneKeyCalls(KeyedProcessFunction):
    """Adapts a batched function to the interface for one key."""

    def __init__(
        self,
        function: BatchedProcessFunction,
        states: Sequence[ValueStateDescriptor],
        keys: Sequence[pa.DataType],
        columns: Mapping[str, pa.DataType],
        output: pa.Schema,
    ) -> None:
        """Take the opened function with its states, the types of keys and columns, and its
        output.
        """
        self.function = function
        self._states, self._keys, self._columns, self._output = states, keys, columns, output

    def process_element(self, row: Any, ctx: FunctionContext) -> Any:
        """See `KeyedProcessFunction`."""
        kinds = [self._columns[name] for name in row._columns]  # noqa: SLF001 - as of `_method`
        arrays = [pa.array([v], kind) for v, kind in zip(row, kinds, strict=True)]
        rows = type(row)(*arrays)
        return self._rows(self.function.process_batch(rows, self._context(ctx)))

    def on_timer(self, name: str | None, ctx: FunctionContext) -> Any:
        """See `KeyedProcessFunction`."""
        return self._rows(self.function.on_timers(name, self._context(ctx)))

    def on_expire(self, ctx: FunctionContext) -> Any:
        """See `KeyedProcessFunction`."""
        if not overrides(self.function, "on_expires"):
            return None
        return self._rows(self.function.on_expires(self._context(ctx)))

    def _context(self, ctx: FunctionContext) -> BatchContext:
        values = ctx.key if len(self._keys) > 1 else (ctx.key,)
        keys = tuple(pa.array([v], kind) for v, kind in zip(values, self._keys, strict=True))
        states = {each.name: _OneValue(each, ctx.state(each)) for each in self._states}
        at_ms = np.array([ctx.timestamp_ms])
        return BatchContext(keys if len(keys) > 1 else keys[0], at_ms, dict(states), _Timers(ctx))

    def _rows(self, found: Any) -> list[tuple[Any, ...]]:
        return [
            tuple(row.values())
            for batch in output_batches(found, self._output)
            for row in batch.to_pylist()
        ]


def call_name(function: KeyedProcessFunction, method: str) -> str:
    """A function and its method as the user wrote them, for errors."""
    if isinstance(function, OneKeyCalls):
        return f"{type(function.function).__qualname__}.{FORMS[method]}"
    return f"{type(function).__qualname__}.{method}"


class _OneValue:
    """See `BatchState`; for one key."""

    def __init__(self, descriptor: ValueStateDescriptor, cell: Any) -> None:
        self._kind, self._name, self._cell = descriptor.value_type, descriptor.name, cell
        self._has_default = descriptor.default is not None and descriptor.ttl is None

    def value(self) -> Any:
        value = self._cell.value()
        if not is_plain(self._kind) or not self._has_default:
            return pa.array([value], self._kind)
        values = np.array([value], self._kind.to_pandas_dtype())
        return shown(values, np.array([True]), self._kind, value)

    def update(self, values: Any, where: Any = None) -> None:
        rows = rows_of(where, 1)
        (value,) = fitted(values, self._kind, 1, f"state {self._name!r}").to_pylist()
        if len(rows):
            self._cell.update(value)

    def clear(self, where: Any = None) -> None:
        if len(rows_of(where, 1)):
            self._cell.clear()


class _Timers:
    """See `CallTimers`; for one key."""

    def __init__(self, context: FunctionContext) -> None:
        self._context = context

    def set(self, name: str | None, rows: Ints, at_ms: Ints) -> None:
        for each in at_ms[: len(rows)].tolist():
            if name is None:
                self._context.register_timer(each)
            else:
                self._context.timer(name, each)

    def delete(self, name: str | None, rows: Ints, at_ms: Ints | None) -> None:
        timers: list[Any] = [name] if at_ms is None else at_ms.tolist()
        for timer in timers[: len(rows)]:
            self._context.delete_timer(timer)

    def times_ms(self, name: str) -> pa.Array:
        return pa.array([self._context.timer_at(name)], pa.int64())
