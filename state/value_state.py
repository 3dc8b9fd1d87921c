"""One value per key."""

from typing import Any

import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Flags
from idlestate.retention.ttl import horizon_ms
from idlestate.state.batch_values import Cells, Stored, as_column
from idlestate.state.descriptors import ValueStateDescriptor
from idlestate.state.key_context import KeyContext
from idlestate.state.state import Many, State, check_pairs
from idlestate.state.table import SingleTable
from idlestate.state.ttl_layer import Ttl


class ValueState(State[SingleTable]):
    """`value`, `update`, `clear`; a missing value is the descriptor's default."""

    def __init__(
        self,
        descriptor: ValueStateDescriptor,
        table: SingleTable,
        context: KeyContext,
        ttl: Ttl | None = None,
    ) -> None:
        """The state over its table."""
        super().__init__(descriptor, table, context, ttl)
        self._default = descriptor.default

    def value(self) -> Any:
        """The current key's value."""
        found = self.table.get(self._key, self.namespace)
        return self._default if found is None else found

    def update(self, value: Any) -> None:
        """Set the value; None clears."""
        if value is None:
            self.clear()
        else:
            self.table.put(self._key, self.namespace, value)

    def get_many(self, keys: Many) -> pa.Array:
        """The `value` of each key, as an Arrow array of the state's type."""
        found = self.table.get_many(self.table.batch_of(keys), self.namespace)
        if self._default is None or found.has.all():
            return found.visible(self._type)
        values = [self._default if each is None else each for each in found.objects()]
        return pa.array(values, self._type)

    def put_many(self, keys: Many, values: Many) -> None:
        """`update` for each key, all or none."""
        self._put(keys, values, 0)

    def _put(self, keys: Many, values: Many, stamp_ms: int) -> None:
        batch = self.table.batch_of(keys)
        column, has = as_column(self.table.layout.value, values)
        check_pairs(batch, column)
        self.table.put_many(batch, self.namespace, column, has, stamp_ms)


class TtlValueState(ValueState):
    """The same with a time to live. As in Flink, a missing value is None, regardless of the
    default.
    """

    _ttl: Ttl

    def value(self) -> Any:
        """The current key's value; None if there is none, or if it has expired."""
        ttl = self._ttl
        ttl.on_access()
        found = self.table.get(self._key, self.namespace)
        if found is None:
            return None
        now = ttl.now_ms()
        # The common case of `_judged`: most reads end here.
        if not ttl.updates_on_read and found[1] > horizon_ms(ttl.ttl_ms, now):
            return found[0]
        seen = _judged(found, now, self.table, self._key, self.namespace, ttl)
        return None if seen is None else seen[0]

    def update(self, value: Any) -> None:
        """Set the value and stamp it; None clears."""
        ttl = self._ttl
        ttl.on_access()
        if value is None:
            self.table.clear(self._key, self.namespace)
        else:
            self.table.put(self._key, self.namespace, (value, ttl.now_ms()))

    def clear(self) -> None:
        """Remove the current key's value."""
        super().clear()
        self._ttl.on_access()

    def get_many(self, keys: Many) -> pa.Array:
        """`value` of each key at one time, as an Arrow array of the state's type."""
        found, hidden = read_many(self.table, keys, self.namespace, self._ttl)
        return found.visible(self._type, hidden)

    def put_many(self, keys: Many, values: Many) -> None:
        """`update` for each key, stamped with one time, all or none."""
        self._ttl.on_access()
        self._put(keys, values, self._ttl.now_ms())


def read_one(table: SingleTable, key: Any, namespace: Any, ttl: Ttl) -> Stored:
    """The result of a single read, None for nothing; removes expired values, renews live ones."""
    ttl.on_access()
    found = table.get(key, namespace)
    return None if found is None else _judged(found, ttl.now_ms(), table, key, namespace, ttl)


def _judged(
    found: Stored, now_ms: int, table: SingleTable, key: Any, namespace: Any, ttl: Ttl
) -> Stored:
    if ttl.expired(found, now_ms):
        table.clear(key, namespace)
        return found if ttl.returns_expired else None
    if ttl.updates_on_read:
        table.put(key, namespace, (found[0], now_ms))
    return found


def read_many(table: SingleTable, keys: Many, namespace: Any, ttl: Ttl) -> tuple[Cells, Flags]:
    """Single reads of each key at the same time, with their removals and renewals.

    Returns:
        The stored values, and flags for those hidden from readers.
    """
    ttl.on_access()
    batch = table.batch_of(keys)
    found, now = table.get_many(batch, namespace), ttl.now_ms()
    assert found.stamps is not None
    expired = found.there & (found.stamps <= ttl.horizon_ms(now))
    if ttl.updates_on_read and (live := found.there & ~expired).any():
        table.restamp(batch.where(live), namespace, found.where(live), now)
    if not expired.any():
        return found, expired
    gone = batch.where(expired)
    table.clear_many(gone, namespace)
    if ttl.returns_expired:
        # An expired value is returned once, by the first read.
        expired[expired] = ~gone.first_of_each()
    return found, expired
