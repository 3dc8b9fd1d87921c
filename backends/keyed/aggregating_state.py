"""One accumulator per key: what is added and what is read may be of other types."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from idlestate.backends.keyed.cells import Stored
from idlestate.backends.keyed.context import KeyContext
from idlestate.backends.keyed.descriptors import AggregatingStateDescriptor
from idlestate.backends.keyed.reducing_state import add_many, merge_single, refuse_null
from idlestate.backends.keyed.state import Many, State
from idlestate.backends.keyed.table import SingleTable
from idlestate.backends.keyed.ttl import Ttl
from idlestate.backends.keyed.value_state import read_many, read_one


class AggregatingState(State[SingleTable]):
    """`add`, `get`, `clear`."""

    def __init__(
        self, descriptor: AggregatingStateDescriptor, table: SingleTable, context: KeyContext
    ) -> None:
        """The state over its table of accumulators."""
        super().__init__(descriptor.name, table, context)
        self._function = descriptor.aggregate
        self._type = descriptor.result_type or descriptor.value_type

    def get(self) -> Any:
        """The result of what was added; None when nothing was."""
        found = self.table.get(self._key, self.namespace)
        return None if found is None else self._function.get_result(found)

    def add(self, value: Any) -> None:
        """Add a value. None clears on heap, is refused on RocksDB (Flink)."""
        key, namespace, table = self._key, self.namespace, self.table
        if value is None:
            refuse_null(self)
            table.clear(key, namespace)
            return
        table.put(key, namespace, self._add(table.get(key, namespace), value))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the accumulators of other namespaces into the target's."""
        merge_single(self.table, self._key, target, sources, self._merge)

    def get_many(self, keys: Many) -> pa.Array:
        """`get` of each key, as an Arrow array of results."""
        result = self._function.get_result
        found = self._found(keys)
        return pa.array([None if each is None else result(each) for each in found], self._type)

    def add_many(self, keys: Many, values: Many) -> None:
        """`add` for each key in this order, all or none."""
        add_many(self, keys, values, self._add, 0)

    def _found(self, keys: Many) -> list[Any]:
        return self.table.get_many(self.table.batch_of(keys), self.namespace).objects()

    def _add(self, there: Stored, value: Any) -> Stored:
        accumulator = self._function.create_accumulator() if there is None else there
        return self._function.add(value, accumulator)

    def _merge(self, left: Stored, right: Stored) -> Stored:
        return self._function.merge(left, right)


class TtlAggregatingState(AggregatingState):
    """The same with a time to live, renewed by every `add`."""

    def __init__(
        self,
        descriptor: AggregatingStateDescriptor,
        table: SingleTable,
        context: KeyContext,
        ttl: Ttl,
    ) -> None:
        """The state over a table of stamped accumulators."""
        super().__init__(descriptor, table, context)
        self._ttl = ttl

    def get(self) -> Any:
        """The result of what was added; None when nothing was or it has expired."""
        found = read_one(self.table, self._key, self.namespace, self._ttl)
        return None if found is None else self._function.get_result(found[0])

    def add(self, value: Any) -> None:
        """Add a value to a live accumulator, or to a new one."""
        self._ttl.on_access()
        super().add(value)

    def add_many(self, keys: Many, values: Many) -> None:
        """`add` for each key in this order, stamped with one time, all or none."""
        self._ttl.on_access()
        add_many(self, keys, values, self._add, self._ttl.now_ms())

    def _found(self, keys: Many) -> list[Any]:
        found, hidden = read_many(self.table, keys, self.namespace, self._ttl)
        return found.objects(found.has & ~hidden)

    def _add(self, there: Stored, value: Any) -> Stored:
        now = self._ttl.now_ms()
        kept = there[0] if self._ttl.counts(there, now) else None
        return (super()._add(kept, value), now)

    def _merge(self, left: Stored, right: Stored) -> Stored:
        now = self._ttl.now_ms()
        counts_left, counts_right = self._ttl.counts(left, now), self._ttl.counts(right, now)
        if counts_left and counts_right:
            return (super()._merge(left[0], right[0]), now)
        if counts_left or counts_right:
            return (left[0] if counts_left else right[0], now)
        return None
