"""One value per key, made of all that were added."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from idlestate.backends.keyed.cells import Cells, Stored
from idlestate.backends.keyed.context import KeyContext
from idlestate.backends.keyed.descriptors import ReducingStateDescriptor
from idlestate.backends.keyed.errors import NullValueError
from idlestate.backends.keyed.key_batch import KeyBatch
from idlestate.backends.keyed.state import Many, State, check_pairs, to_list
from idlestate.backends.keyed.table import SingleTable
from idlestate.backends.keyed.ttl import Ttl
from idlestate.backends.keyed.value_state import read_many, read_one


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


def add_many(
    state: State[SingleTable],
    keys: Many,
    values: Many,
    add: Callable[[Stored, Any], Stored],
    stamp_ms: int,
) -> None:
    """Add a value for each key, in this order; all keys are read at once and written at once.

    Args:
        state: of which state.
        keys: whose.
        values: what is added.
        add: what is stored then, from what was stored and a value.
        stamp_ms: the timestamp of all, in a state with timestamps.

    Raises:
        NullValueError: one of the values is None.
    """
    table, stamped = state.table, state.table.layout.stamped
    batch, given = table.batch_of(keys), to_list(values)
    check_pairs(batch, given)
    if None in given:
        raise NullValueError(f"state {state.name}: add_many was given None")
    codes = batch.encoded.dictionary_encode()
    distinct = KeyBatch(batch.codec, codes.dictionary)
    found = table.get_many(distinct, state.namespace).stored()
    for at, value in zip(codes.indices.to_pylist(), given, strict=True):
        found[at] = add(found[at], value)
    cells = Cells.of(found, table.layout.value.kind, stamped=stamped)
    table.put_many(distinct, state.namespace, cells.values, cells.has, stamp_ms)


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
        found = self.table.get_many(self.table.batch_of(keys), self.namespace)
        return found.visible(self._type)

    def add_many(self, keys: Many, values: Many) -> None:
        """`add` for each key in this order, all or none."""
        add_many(self, keys, values, self._merge, 0)

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
        found = read_one(self.table, self._key, self.namespace, self._ttl)
        return None if found is None else found[0]

    def add(self, value: Any) -> None:
        """Reduce a value into what is there; None renews what is there."""
        self._ttl.on_access()
        key, namespace, table = self._key, self.namespace, self.table
        table.put(key, namespace, self._merge(table.get(key, namespace), self._ttl.stamp(value)))

    def get_many(self, keys: Many) -> pa.Array:
        """`get` of each key at one time, as an Arrow array of the state's type."""
        found, hidden = read_many(self.table, keys, self.namespace, self._ttl)
        return found.visible(self._type, hidden)

    def add_many(self, keys: Many, values: Many) -> None:
        """`add` for each key in this order, stamped with one time, all or none."""
        self._ttl.on_access()
        now = self._ttl.now_ms()
        add_many(self, keys, values, lambda there, value: self._merge(there, (value, now)), now)

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
