"""A value state of all keys of a batch, for batched functions.

`idlestate.retention.ttl` determines when a value has expired.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.fields import Field, is_valid
from idlestate.backends.shards.function_state_columns import StateColumns
from idlestate.functions.batch_context import is_plain, shown
from idlestate.functions.batched_columns import Flags, Ints, fitted, rows_of
from idlestate.functions.state_values import default_of
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS
from idlestate.retention.ttl import expires_ms
from idlestate.state.descriptors import ValueStateDescriptor


class ValueColumn:
    """The values of k keys; a call accesses the values of the keys `at`.

    Attributes:
        valid: which keys have a value, expired or not.
        has_ttl: whether values expire.
    """

    def __init__(self, descriptor: ValueStateDescriptor, columns: StateColumns, k: int) -> None:
        """Start without values."""
        self._kind = descriptor.value_type
        self._what = f"state {descriptor.name!r}"
        ttl = descriptor.ttl
        self._ttl_ms = FOREVER_MS if ttl is None else ttl.ttl_ms
        self._renews = ttl is not None and ttl.updates_on_read
        self._columns = columns
        self._default = None if columns.stamped else default_of(descriptor)
        plain = self._kind.to_pandas_dtype() if is_plain(self._kind) else object
        self._values = np.zeros(k, dtype=plain)
        self._stamps_ms = np.full(k if columns.stamped else 0, NEVER_MS)
        self.has_ttl = columns.stamped
        self.valid: Flags = np.zeros(k, dtype=bool)
        self._at: Ints = np.zeros(0, dtype=np.int64)
        self._now_ms: Ints = self._at

    def load(self, keys: Ints, fields: Sequence[Field], written_at_ms: Ints) -> None:
        """Load the stored values of some keys, each for a different life than before."""
        if not len(keys):
            return
        values = fields[:-1] if self._columns.stamped else fields
        if is_plain(self._kind):
            column = values[0]
            assert isinstance(column, pa.Array)
            found, valid = _numpy(column), is_valid(column)
        else:
            plain = replace(self._columns, stamped=False)
            contents = plain.contents(values, written_at_ms.tolist())
            found = _objects(contents)
            valid = np.array([each is not None for each in contents])
        self._values[keys], self.valid[keys] = found, valid
        if self._columns.stamped:
            stamps = fields[-1]
            assert isinstance(stamps, pa.Array)
            self._stamps_ms[keys] = np.where(is_valid(stamps), _numpy(stamps), written_at_ms)

    def fields(self, keys: Ints) -> list[Field]:
        """The columns to store for some keys."""
        valid = self.valid[keys]
        if is_plain(self._kind):
            found = [pa.array(self._values[keys], self._kind, mask=~valid, from_pandas=False)]
        else:
            pairs = zip(self._values[keys].tolist(), valid.tolist(), strict=True)
            contents = [value if there else None for value, there in pairs]
            found = replace(self._columns, stamped=False).to_fields(contents)
        if self._columns.stamped:
            found.append(pa.array(self._stamps_ms[keys], mask=~valid))
        return found

    def call(self, keys: Ints, now_ms: Ints) -> None:
        """Set the keys and times of the next call."""
        self._at, self._now_ms = keys, now_ms

    def forget(self, keys: Ints) -> None:
        """Remove the values of keys whose lives ended."""
        self.valid[keys] = False

    def ends_at_ms(self, keys: Ints) -> Ints:
        """When the values expire; `NEVER_MS` without one."""
        ends = np.full(len(keys), FOREVER_MS)
        if self._columns.stamped:
            ends = expires_ms(self._ttl_ms, self._stamps_ms[keys])
        return np.where(self.valid[keys], ends, NEVER_MS)

    def seen(self) -> tuple[Flags, Any]:
        """The values that the call sees, for comparison; this does not count as a read."""
        there = self._live()
        return there, self._values[self._at]

    def value(self) -> Any:
        """See `BatchState`."""
        there = self._live()
        if self._columns.stamped:
            self.valid[self._at] = there
            if self._renews:
                live = self._at[there]
                self._stamps_ms[live] = self._now_ms[there]
        return shown(self._values[self._at], there, self._kind, self._default)

    def update(self, values: Any, where: Any = None) -> None:
        """See `BatchState`."""
        n = len(self._at)
        rows = rows_of(where, n)
        column = fitted(values, self._kind, n, self._what)
        keys, given = self._at[rows], column if where is None else column.take(pa.array(rows))
        self._values[keys] = _numpy(given) if is_plain(self._kind) else _objects(given.to_pylist())
        self.valid[keys] = is_valid(given)
        if self._columns.stamped:
            self._stamps_ms[keys] = self._now_ms[rows]

    def clear(self, where: Any = None) -> None:
        """See `BatchState`."""
        self.valid[self._at[rows_of(where, len(self._at))]] = False

    def _live(self) -> Flags:
        there: Flags = self.valid[self._at]
        if self._columns.stamped:
            there &= expires_ms(self._ttl_ms, self._stamps_ms[self._at]) > self._now_ms
        return there


def _numpy(column: pa.Array) -> Any:
    """The values; undefined where there is none."""
    if column.null_count:
        column = column.fill_null(pa.scalar(0).cast(column.type))
    return column.to_numpy(zero_copy_only=False)


def _objects(values: list[Any]) -> Any:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
