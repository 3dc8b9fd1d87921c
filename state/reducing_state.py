"""One value per key, reduced from all added values."""

from typing import Any

import pyarrow as pa

from idlestate.state.adding_state import AddingState, TtlAddingState
from idlestate.state.batch_values import Cells, Stored, as_column
from idlestate.state.descriptors import ReducingStateDescriptor
from idlestate.state.key_context import KeyContext
from idlestate.state.state import Many
from idlestate.state.table import SingleTable
from idlestate.state.ttl_layer import Ttl
from idlestate.state.value_state import read_many, read_one


class ReducingState(AddingState):
    """`add`, `get`, `clear`."""

    def __init__(
        self,
        descriptor: ReducingStateDescriptor[Any],
        table: SingleTable,
        context: KeyContext,
        ttl: Ttl | None = None,
    ) -> None:
        """The state over its table."""
        super().__init__(descriptor, table, context, ttl)
        self._reduce = descriptor.reduce

    def add(self, value: Any) -> None:
        """Reduce a value into the stored one; None clears on heap, is refused on RocksDB."""
        super().add(value if value is None else self._normal(value))

    def get(self) -> Any:
        """The reduced value; None if nothing was added."""
        return self.table.get(self._key, self.namespace)

    def get_many(self, keys: Many) -> pa.Array:
        """`get` of each key, as an Arrow array of the state's type."""
        found = self.table.get_many(self.table.batch_of(keys), self.namespace)
        return found.visible(self._type)

    def _given(self, values: Many) -> list[Any]:
        column, has = as_column(self.table.layout.value, values)
        return Cells(column, has, has, None).objects()

    def _added(self, there: Any, value: Any) -> Any:
        return value if there is None else self._reduce(there, value)

    def _merged(self, left: Any, right: Any) -> Any:
        return self._normal_or_none(self._reduce(left, right))


class TtlReducingState(TtlAddingState, ReducingState):
    """The same with a time to live, renewed by every `add`."""

    def get(self) -> Any:
        """The reduced value; None if nothing was added, or if it has expired."""
        found = read_one(self.table, self._key, self.namespace, self._ttl)
        return None if found is None else found[0]

    def add(self, value: Any) -> None:
        """Reduce a value into the stored one; None renews the stored one."""
        self._ttl.on_access()
        value = value if value is None else self._normal(value)
        key, namespace, table = self._key, self.namespace, self.table
        added = self._add(table.get(key, namespace), value)
        if added is None and table.refuses_null:
            table.clear(key, namespace)
        else:
            table.put(key, namespace, added)

    def get_many(self, keys: Many) -> pa.Array:
        """`get` of each key at one time, as an Arrow array of the state's type."""
        found, hidden = read_many(self.table, keys, self.namespace, self._ttl)
        return found.visible(self._type, hidden)

    def _add(self, there: Stored, value: Any) -> Stored:
        given = self._ttl.stamp(value)
        return given if there is None else self._merge(there, given)
