"""The common part of reducing and aggregating state: adds values to one stored value per key."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from idlestate.state.accumulator_copies import Copier
from idlestate.state.batch_values import Cells, Stored, as_column
from idlestate.state.errors import NullValueError
from idlestate.state.input_conversion import listed
from idlestate.state.key_batch import KeyBatch
from idlestate.state.state import Many, State, check_pairs, to_list
from idlestate.state.table import SingleTable
from idlestate.state.ttl_layer import Ttl


class AddingState(State[SingleTable], ABC):
    """`add`, `merge_namespaces`, `add_many`."""

    _copy: Copier | None = None
    """Copies a stored value before one is added to it; None if adding does not change it."""

    @abstractmethod
    def _added(self, there: Any, value: Any) -> Any:
        """The value with another one added; `there` is None if there is none."""

    @abstractmethod
    def _merged(self, left: Any, right: Any) -> Any:
        """Two stored values merged."""

    def _add(self, there: Stored, value: Any) -> Stored:
        if self._copy is not None and there is not None:
            there = self._copy(there)
        return self._added(there, value)

    def _merge(self, left: Stored, right: Stored) -> Stored:
        return self._merged(left, right)

    def _normal_or_none(self, merged: Any) -> Any:
        """The result of a user's function, refused if it has another type; None removes."""
        return merged if merged is None else self.table.layout.value.normal(merged)

    def _given(self, values: Many) -> list[Any]:
        """The values of a batch to add."""
        return to_list(values)

    def add(self, value: Any) -> None:
        """Add a value. None clears on heap, is refused on RocksDB (Flink)."""
        key, namespace, table = self._key, self.namespace, self.table
        if value is None:
            if table.refuses_null:
                raise NullValueError(
                    f"state {self.name}: add was given None; call clear() to remove"
                )
            table.clear(key, namespace)
            return
        table.put(key, namespace, self._add(table.get(key, namespace), value))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the values of other namespaces into the target's, pair by pair, all or none."""
        normal = self.table.key_layout.normal_namespace
        target, given = normal(target), [normal(each) for each in listed(sources, "namespaces")]
        distinct = [each for at, each in enumerate(given) if each not in given[:at]]
        key, table = self._key, self.table
        merged: Stored = None
        for found in [table.get(key, source) for source in distinct]:
            if found is not None:
                merged = found if merged is None else self._merge(merged, found)
        if merged is None:
            return
        there = None if target in distinct else table.get(key, target)
        both = merged if there is None else self._merge(there, merged)
        for source in distinct:
            table.clear(key, source)
        if both is None:
            table.clear(key, target)
        else:
            table.put(key, target, both)

    def add_many(self, keys: Many, values: Many) -> None:
        """`add` for each key in this order, all or none.

        Raises:
            NullValueError: one of the values is None.
        """
        self._add_many(keys, values, 0, Cells.objects)

    def _add_many(
        self,
        keys: Many,
        values: Many,
        stamp_ms: int,
        begin: Callable[[Cells], list[Any]],
    ) -> None:
        """Read all keys at once, add, write all at once.

        Args:
            keys: the keys.
            values: the values to add.
            stamp_ms: the timestamp of all, in a state with timestamps.
            begin: returns the values to add to, from the stored ones.
        """
        table, added = self.table, self._added
        batch, given = table.batch_of(keys), self._given(values)
        check_pairs(batch, given)
        if None in given:
            raise NullValueError(f"state {self.name}: add_many was given None")
        codes = batch.encoded.dictionary_encode()
        distinct = KeyBatch(batch.codec, codes.dictionary)
        sums = begin(table.get_many(distinct, self.namespace))
        if (copy := self._copy) is not None:
            sums = [each if each is None else copy(each) for each in sums]
        for at, value in zip(codes.indices.to_pylist(), given, strict=True):
            sums[at] = added(sums[at], value)
        column, has = as_column(table.layout.value, sums)
        table.put_many(distinct, self.namespace, column, has, stamp_ms)


class TtlAddingState(AddingState, ABC):
    """The same with a time to live, renewed by every `add`.

    An expired value is dropped, and adding starts again; with `RETURN_EXPIRED_IF_NOT_CLEANED_UP`
    it is continued and becomes live again.
    """

    _ttl: Ttl

    def add(self, value: Any) -> None:
        """Add a value to the live value."""
        self._ttl.on_access()
        super().add(value)

    def add_many(self, keys: Many, values: Many) -> None:
        """`add` for each key in this order, stamped with one time, all or none."""
        ttl, now = self._ttl, self._ttl.now_ms()
        horizon = ttl.horizon_ms(now)

        def begin(found: Cells) -> list[Any]:
            assert found.stamps is not None
            lives = found.has & (found.stamps > horizon)
            return found.objects(found.has if ttl.returns_expired else lives)

        ttl.on_access()
        self._add_many(keys, values, now, begin)

    def _add(self, there: Stored, value: Any) -> Stored:
        now = self._ttl.now_ms()
        kept = there[0] if self._ttl.counts(there, now) else None
        if self._copy is not None and kept is not None:
            kept = self._copy(kept)
        return (self._added(kept, value), now)

    def _merge(self, left: Stored, right: Stored) -> Stored:
        now = self._ttl.now_ms()
        counts_left, counts_right = self._ttl.counts(left, now), self._ttl.counts(right, now)
        if counts_left and counts_right:
            return (self._merged(left[0], right[0]), now)
        if counts_left or counts_right:
            return (left[0] if counts_left else right[0], now)
        return None
