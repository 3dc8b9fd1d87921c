"""One accumulator per key: added values and results may have different types."""

from typing import Any

import pyarrow as pa

from idlestate.state.accumulator_copies import copier_of
from idlestate.state.adding_state import AddingState, TtlAddingState
from idlestate.state.descriptors import AggregatingStateDescriptor
from idlestate.state.key_context import KeyContext
from idlestate.state.state import Many
from idlestate.state.table import SingleTable
from idlestate.state.ttl_layer import Ttl
from idlestate.state.value_state import read_many, read_one


class AggregatingState(AddingState):
    """`add`, `get`, `clear`."""

    def __init__(
        self,
        descriptor: AggregatingStateDescriptor,
        table: SingleTable,
        context: KeyContext,
        ttl: Ttl | None = None,
    ) -> None:
        """The state over its table of accumulators."""
        super().__init__(descriptor, table, context, ttl)
        self._function = descriptor.aggregate
        self._type = descriptor.result_type or descriptor.value_type
        self._copy = copier_of(descriptor.value_type)

    def get(self) -> Any:
        """The result of the added values; None if there are none."""
        found = self.table.get(self._key, self.namespace)
        return None if found is None else self._function.get_result(found)

    def get_many(self, keys: Many) -> pa.Array:
        """`get` of each key, as an Arrow array of results."""
        result = self._function.get_result
        found = self._found(keys)
        return pa.array([None if each is None else result(each) for each in found], self._type)

    def _found(self, keys: Many) -> list[Any]:
        return self.table.get_many(self.table.batch_of(keys), self.namespace).objects()

    def _added(self, there: Any, value: Any) -> Any:
        accumulator = self._function.create_accumulator() if there is None else there
        return self._function.add(value, accumulator)

    def _merged(self, left: Any, right: Any) -> Any:
        if self._copy is not None:
            left, right = self._copy(left), self._copy(right)
        return self._normal_or_none(self._function.merge(left, right))


class TtlAggregatingState(TtlAddingState, AggregatingState):
    """The same with a time to live, renewed by every `add`."""

    def get(self) -> Any:
        """The result of the added values; None if there are none, or if it has expired."""
        found = read_one(self.table, self._key, self.namespace, self._ttl)
        return None if found is None else self._function.get_result(found[0])

    def _found(self, keys: Many) -> list[Any]:
        found, hidden = read_many(self.table, keys, self.namespace, self._ttl)
        return found.objects(found.has & ~hidden)
