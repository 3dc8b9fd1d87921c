"""The loop that calls a batched function: the n-th records of all keys, in waves.

Each key is processed in the order described in `idlestate.functions.key_loop`. A key occurs at most
once in a call, so nothing that happens to it between two records falls within a call.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.keys import take_keys
from idlestate.functions.batch_context import BatchContext
from idlestate.functions.batched_columns import Flags, Ints, output_batches
from idlestate.functions.batched_function import FORMS, BatchedProcessFunction
from idlestate.functions.errors import FunctionError, error_of
from idlestate.functions.function_forms import overrides
from idlestate.functions.key_loop import MOST_TIMERS_AT_ONCE
from idlestate.functions.life_table import LifeTable
from idlestate.functions.timer_table import TimerTable
from idlestate.functions.value_column import ValueColumn
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS

Call = Callable[[BatchContext], Any]


class WaveLoop:
    """One batched function, over k keys."""

    def __init__(
        self,
        uid: str,
        function: BatchedProcessFunction,
        keys: Sequence[pa.Array],
        lives: LifeTable,
        states: dict[str, ValueColumn],
        timers: TimerTable,
        output: pa.Schema,
    ) -> None:
        """Take the function, its keys and their data."""
        self._uid, self._function, self._keys = uid, function, keys
        self._lives, self._states, self._timers = lives, states, timers
        self._schema = output
        self._has_ttl = any(each.has_ttl for each in states.values())
        self._sees_ends = overrides(function, "on_expires")
        self.output: list[pa.RecordBatch] = []

    def records(self, keys: Ints, t_ms: Ints, is_read: Flags | None, rows: Any) -> None:
        """Process the next records of different keys.

        Args:
            keys, t_ms: the key and time of each record.
            is_read: which records are reads; None if all are writes.
            rows: a named tuple of their columns.

        Raises:
            FunctionError: the function raised an error.
        """
        lives = self._lives
        binds = lives.is_open[keys]  # a life that left nothing has no effect
        t_ms = np.where(binds, np.maximum(t_ms, lives.seen_ms[keys]), t_ms)
        self.settle(keys, t_ms)
        if is_read is None:
            self._write(keys, t_ms, rows)
            return
        for which, call in ((~is_read, self._write), (is_read, self._read)):
            if which.any():
                mask = pa.array(which)
                some = type(rows)(*(column.filter(mask) for column in rows))
                call(keys[which], t_ms[which], some)

    def settle(self, keys: Ints, upto_ms: Ints) -> None:
        """Fire the timers of open lives and check their deadlines, up to a time for each.

        Raises:
            FunctionError: the function raised an error.
        """
        lives = self._lives
        is_open = lives.is_open[keys]
        keys, upto_ms = keys[is_open], upto_ms[is_open]
        self._fire_due(keys, np.minimum(upto_ms, lives.deadline_ms[keys]))
        is_open = lives.is_open[keys]
        keys, upto_ms = keys[is_open], upto_ms[is_open]
        if self._has_ttl:
            is_void = self.void_at_ms(keys) <= np.minimum(upto_ms, lives.deadline_ms[keys] - 1)
            self._end(keys[is_void], expired=False)
            keys, upto_ms = keys[~is_void], upto_ms[~is_void]
        over = keys[lives.deadline_ms[keys] <= upto_ms]
        if len(over) and self._sees_ends:
            self._look("on_expires", over, lives.deadline_ms[over], self._function.on_expires)
        self._end(over, expired=True)

    def void_at_ms(self, keys: Ints) -> Ints:
        """When open lives become empty because all of their states expired."""
        found = np.full(len(keys), NEVER_MS)
        for state in self._states.values():
            np.maximum(found, state.ends_at_ms(keys), out=found)
        return np.where(self._timers.wakes_at_ms(keys) < FOREVER_MS, FOREVER_MS, found)

    def _write(self, keys: Ints, t_ms: Ints, rows: Any) -> None:
        self._lives.write(keys, t_ms)
        self._call(*self._process(keys, t_ms, rows))
        self._end_empty(keys)

    def _read(self, keys: Ints, t_ms: Ints, rows: Any) -> None:
        self._lives.read(keys, t_ms)
        self._look(*self._process(keys, t_ms, rows))

    def _process(self, keys: Ints, t_ms: Ints, rows: Any) -> tuple[str, Ints, Ints, Call]:
        """Make the call with records."""
        method = FORMS[rows._method]  # noqa: SLF001 - a name no column has
        return method, keys, t_ms, lambda ctx: self._function.process_batch(rows, ctx)

    def _fire_due(self, keys: Ints, reach_ms: Ints) -> None:
        last_ms = np.full(len(keys), NEVER_MS)
        fired = np.zeros(len(keys), dtype=np.int64)
        while True:
            due_ms = self._timers.wakes_at_ms(keys)
            due = self._lives.is_open[keys] & (due_ms <= reach_ms)
            if not due.any():
                return
            keys, reach_ms, due_ms = keys[due], reach_ms[due], due_ms[due]
            fired = np.where(due_ms <= last_ms[due], fired[due] + 1, 0)
            last_ms = np.maximum(last_ms[due], due_ms)
            for name, at in self._timers.take_first(keys, due_ms):
                self._fire(name, keys[at], due_ms[at])
            if fired.max() > MOST_TIMERS_AT_ONCE:
                at = np.flatnonzero(fired > MOST_TIMERS_AT_ONCE)[:1]
                raise self._error(
                    "on_timers",
                    keys[at],
                    due_ms[at],
                    f"set timers at or before their own time {fired.max()} times; set them later",
                )

    def _fire(self, name: str | None, keys: Ints, due_ms: Ints) -> None:
        fire = self._function.on_timers
        self._call("on_timers", keys, due_ms, lambda ctx: fire(name, ctx))
        self._end_empty(keys)

    def _look(self, method: str, keys: Ints, t_ms: Ints, call: Call) -> None:
        """Make a call that must not change anything."""
        states = [state for _, state in sorted(self._states.items())]
        for state in states:
            state.call(keys, t_ms)
        self._timers.call(keys)
        before = [state.seen() for state in states], self._timers.seen()
        self._call(method, keys, t_ms, call)
        if not _is_same(before, ([state.seen() for state in states], self._timers.seen())):
            why = "on_expires" if method == "on_expires" else "records that only read (read_when)"
            raise self._error(
                method, keys, t_ms, f"changed a state or timer, which {why} must not do"
            )

    def _call(self, method: str, keys: Ints, t_ms: Ints, call: Call) -> None:
        for state in self._states.values():
            state.call(keys, t_ms)
        self._timers.call(keys)
        of_call = take_keys(self._keys, keys)
        shown = of_call[0] if len(of_call) == 1 else tuple(of_call)
        context = BatchContext(shown, t_ms, dict(self._states), self._timers)
        try:
            self.output += output_batches(call(context), self._schema)
        except (
            BaseException
        ) as error:  # sys.exit and interrupts would end workers without a message
            raise self._error(method, keys, t_ms, error) from error

    def _end_empty(self, keys: Ints) -> None:
        """End lives that are empty."""
        is_empty = self._timers.wakes_at_ms(keys) == FOREVER_MS
        for state in self._states.values():
            is_empty &= ~state.valid[keys]
        self._end(keys[is_empty], expired=False)

    def _end(self, keys: Ints, *, expired: bool) -> None:
        if not len(keys):
            return
        self._lives.end(keys, expired=expired)
        for state in self._states.values():
            state.forget(keys)
        self._timers.forget(keys)

    def _error(self, method: str, keys: Ints, t_ms: Ints, problem: object) -> FunctionError:
        first = [column[int(keys[0])].as_py() for column in self._keys]
        key = first[0] if len(first) == 1 else tuple(first)
        name = f"{type(self._function).__qualname__}.{method} (a call with {len(keys)} keys)"
        return error_of(self._uid, name, key, int(t_ms[0]), problem)


def _is_same(before: Any, after: Any) -> bool:
    states, timers = before
    states_now, timers_now = after
    for (there, values), (there_now, values_now) in zip(states, states_now, strict=True):
        found, now = values[there], values_now[there_now]
        if not np.array_equal(there, there_now) or not _are_equal(found, now):
            return False
    # A column that a call added has no timer unless the call set one.
    set_now = [each for each in timers_now if (each[1] < FOREVER_MS).any()]
    set_then = [each for each in timers if (each[1] < FOREVER_MS).any()]
    return len(set_now) == len(set_then) and all(
        name == name_now and np.array_equal(at, at_now)
        for (name, at), (name_now, at_now) in zip(set_then, set_now, strict=True)
    )


def _are_equal(left: Any, right: Any) -> bool:
    if left.dtype.kind == "f":
        return bool(np.array_equal(left, right, equal_nan=True))
    return bool(np.array_equal(left, right))
