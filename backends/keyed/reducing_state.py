"""One value per key, made of all that were added."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from idlestate.backends.keyed.context import KeyContext
from idlestate.backends.keyed.descriptors import ReducingStateDescriptor
from idlestate.backends.keyed.errors import NullValueError
from idlestate.backends.keyed.rows import Stored
from idlestate.backends.keyed.state import Many, State, pairs, to_list
from idlestate.backends.keyed.table import SingleTable
from idlestate.backends.keyed.ttl import Ttl
from idlestate.backends.keyed.value_state import read_many


def merge_single(
    table: SingleTable,
    key: Any,
    target: Any,
    sources: Iterable[Any],
    merge: Callable[[Stored, Stored], Stored],
) -> None:
    """Merge what a key has in other namespaces into the target's, pair by pair."""
    merged: Stored = None
    for source in sources:
        found = table.get(key, source)
        table.clear(key, source)
        if merged is None or found is None:
            merged = found if merged is None else merged
        else:
            merged = merge(merged, found)
    if merged is None:
        return
    there = table.get(key, target)
    both = merged if there is None else merge(there, merged)
    if both is None:
        table.clear(key, target)
    else:
        table.put(key, target, both)


class ReducingState(State[SingleTable]):
    """`add`, `get`, `clear`."""

    def __init__(
        self, descriptor: ReducingStateDescriptor[Any], table: SingleTable, context: KeyContext
    ) -> None:
        """The state over its table."""
        super().__init__(descriptor.name, table, context)
        self._reduce = descriptor.reduce
        self._type = descriptor.value_type

    def get(self) -> Any:
        """What was added, reduced; None when nothing was."""
        return self.table.get(self._key, self.namespace)

    def add(self, value: Any) -> None:
        """Reduce a value into what is there. None clears on heap, is refused on RocksDB (Flink)."""
        key, namespace, table = self._key, self.namespace, self.table
        if value is None:
            refuse_null(self)
            table.clear(key, namespace)
            return
        table.put(key, namespace, self._merge(table.get(key, namespace), value))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Reduce what other namespaces have into the target's."""
        merge_single(self.table, self._key, target, sources, self._merge)

    def get_many(self, keys: Many) -> pa.Array:
        """`get` of each key, as an Arrow array of the state's type."""
        return pa.array(self.table.get_many(to_list(keys), self.namespace), self._type)

    def add_many(self, keys: Many, values: Many) -> None:
        """`add` for each key in this order, all or none."""
        owners, given = pairs(keys, values)
        if None in given:
            raise NullValueError(f"reducing state {self.name}: add_many was given None")
        distinct = list(dict.fromkeys(owners))
        found = dict(zip(distinct, self.table.get_many(distinct, self.namespace), strict=True))
        for key, value in zip(owners, self._stored(given), strict=True):
            found[key] = self._merge(found[key], value)
        self.table.put_many(list(found), self.namespace, list(found.values()))

    def _stored(self, values: list[Any]) -> list[Stored]:
        return values

    def _merge(self, there: Stored, value: Stored) -> Stored:
        return value if there is None else self._reduce(there, value)


class TtlReducingState(ReducingState):
    """The same with a time to live, renewed by every `add`.

    An expired value is dropped and counting starts again; with `RETURN_EXPIRED_IF_NOT_CLEANED_UP`
    it is continued and lives again.
    """

    def __init__(
        self,
        descriptor: ReducingStateDescriptor[Any],
        table: SingleTable,
        context: KeyContext,
        ttl: Ttl,
    ) -> None:
        """The state over a table of stamped values."""
        super().__init__(descriptor, table, context)
        self._ttl = ttl

    def get(self) -> Any:
        """What was added, reduced; None when nothing was or it has expired."""
        self._ttl.on_access()
        key, namespace = self._key, self.namespace
        found = self._ttl.read(
            self.table.get(key, namespace),
            lambda: self.table.clear(key, namespace),
            lambda renewed: self.table.put(key, namespace, renewed),
        )
        return None if found is None else found[0]

    def add(self, value: Any) -> None:
        """Reduce a value into what is there; None renews what is there."""
        self._ttl.on_access()
        key, namespace, table = self._key, self.namespace, self.table
        table.put(key, namespace, self._merge(table.get(key, namespace), self._ttl.stamp(value)))

    def get_many(self, keys: Many) -> pa.Array:
        """`get` of each key at one time, as an Arrow array of the state's type."""
        found = read_many(self.table, to_list(keys), self.namespace, self._ttl)
        return pa.array([None if each is None else each[0] for each in found], self._type)

    def add_many(self, keys: Many, values: Many) -> None:
        """`add` for each key in this order, stamped with one time, all or none."""
        self._ttl.on_access()
        super().add_many(keys, values)

    def _stored(self, values: list[Any]) -> list[Stored]:
        now = self._ttl.now_ms()
        return [(value, now) for value in values]

    def _merge(self, there: Stored, value: Stored) -> Stored:
        if there is None:
            return value
        now = self._ttl.now_ms()
        left, right = self._ttl.counts(there, now), self._ttl.counts(value, now)
        if left and right:
            return (self._reduce(there[0], value[0]), now)
        if left or right:
            return (there[0] if left else value[0], now)
        return None


def refuse_null(state: State[SingleTable]) -> None:
    """Raise `NullValueError` where the table takes no None."""
    if state.table.refuses_null:
        raise NullValueError(f"state {state.name}: add was given None; call clear() to remove")
