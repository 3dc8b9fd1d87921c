"""One value per key."""

from typing import Any

import pyarrow as pa

from idlestate.backends.keyed.context import KeyContext
from idlestate.backends.keyed.descriptors import ValueStateDescriptor
from idlestate.backends.keyed.rows import Stored
from idlestate.backends.keyed.state import Many, State, pairs, to_list
from idlestate.backends.keyed.table import SingleTable
from idlestate.backends.keyed.ttl import Ttl


class ValueState(State[SingleTable]):
    """`value`, `update`, `clear`; a missing value is the descriptor's default."""

    def __init__(
        self, descriptor: ValueStateDescriptor, table: SingleTable, context: KeyContext
    ) -> None:
        """The state over its table."""
        super().__init__(descriptor.name, table, context)
        self._default = descriptor.default
        self._type = descriptor.value_type

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
        """`value` of each key, as an Arrow array of the state's type."""
        found = self.table.get_many(to_list(keys), self.namespace)
        if self._default is not None:
            found = [self._default if each is None else each for each in found]
        return pa.array(found, self._type)

    def put_many(self, keys: Many, values: Many) -> None:
        """`update` for each key, all or none."""
        self._put(*pairs(keys, values))

    def _put(self, keys: list[Any], values: list[Any]) -> None:
        self.table.put_many(keys, self.namespace, self._stored(values))

    def _stored(self, values: list[Any]) -> list[Stored]:
        return values


class TtlValueState(ValueState):
    """The same with a time to live. A missing value is None, whatever the default, as in Flink."""

    def __init__(
        self,
        descriptor: ValueStateDescriptor,
        table: SingleTable,
        context: KeyContext,
        ttl: Ttl,
    ) -> None:
        """The state over a table of stamped values."""
        super().__init__(descriptor, table, context)
        self._ttl = ttl

    def value(self) -> Any:
        """The current key's value, None when there is none or it has expired."""
        self._ttl.on_access()
        key, namespace = self._key, self.namespace
        found = self._ttl.read(
            self.table.get(key, namespace),
            lambda: self.table.clear(key, namespace),
            lambda renewed: self.table.put(key, namespace, renewed),
        )
        return None if found is None else found[0]

    def update(self, value: Any) -> None:
        """Set the value and stamp it; None clears."""
        self._ttl.on_access()
        if value is None:
            self.table.clear(self._key, self.namespace)
        else:
            self.table.put(self._key, self.namespace, self._ttl.stamp(value))

    def clear(self) -> None:
        """Remove the current key's value."""
        super().clear()
        self._ttl.on_access()

    def get_many(self, keys: Many) -> pa.Array:
        """`value` of each key at one time, as an Arrow array of the state's type."""
        asked = to_list(keys)
        found = read_many(self.table, asked, self.namespace, self._ttl)
        return pa.array([None if each is None else each[0] for each in found], self._type)

    def _put(self, keys: list[Any], values: list[Any]) -> None:
        self._ttl.on_access()
        super()._put(keys, values)

    def _stored(self, values: list[Any]) -> list[Stored]:
        now = self._ttl.now_ms()
        return [None if value is None else (value, now) for value in values]


def read_many(table: SingleTable, keys: list[Any], namespace: Any, ttl: Ttl) -> list[Stored]:
    """What a single read sees for each key, all at one time, with its removals and renewals."""
    ttl.on_access()
    found, now = table.get_many(keys, namespace), ttl.now_ms()
    expired = {key for key, each in zip(keys, found, strict=True) if ttl.expired(each, now)}
    if ttl.updates_on_read:
        live = {
            key: (each[0], now)
            for key, each in zip(keys, found, strict=True)
            if each is not None and key not in expired
        }
        table.put_many(list(live), namespace, list(live.values()))
    if not expired:
        return found
    table.clear_many(list(expired), namespace)
    if not ttl.returns_expired:
        return [None if key in expired else each for key, each in zip(keys, found, strict=True)]
    # What was expired is shown once, by the first read.
    shown: list[Stored] = []
    for key, each in zip(keys, found, strict=True):
        seen = each is not None and ttl.expired(each, now) and key not in expired
        shown.append(None if seen else each)
        expired.discard(key)
    return shown
