"""A list per key."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.state.batch_values import Stored, as_column
from idlestate.state.errors import NullValueError
from idlestate.state.input_conversion import listed
from idlestate.state.state import Many, State, check_pairs
from idlestate.state.table import ListTable
from idlestate.state.ttl_layer import Ttl


class ListState(State[ListTable]):
    """`add`, `add_all`, `update`, `get`, `clear`."""

    def get(self) -> Iterable[Any] | None:
        """The elements; None if there are none."""
        return self.table.get(self._key, self.namespace)

    def add(self, element: Any) -> None:
        """Append an element."""
        self._check(element)
        self.table.append(self._key, self.namespace, self._stored([self._normal(element)]))

    def add_all(self, elements: Iterable[Any]) -> None:
        """Append elements; none of them if one is None on RocksDB or with a TTL.

        On heap without a TTL, the elements before the None are kept, as in Flink.
        """
        self._check(elements)
        given = self._listed(elements)
        whole = None not in given
        if not whole and not self.table.refuses_null and not self._all_or_none:
            given = given[: given.index(None)]
        elif not whole:
            self._check(None)
        if given:
            items = self._stored(list(map(self._normal, given)))
            self.table.append(self._key, self.namespace, items)
        if not whole:
            self._check(None)

    def update(self, elements: Iterable[Any]) -> None:
        """Replace the list; without elements it is cleared."""
        self._check(elements)
        given = self._listed(elements)
        if None in given:
            self._check(None)
        self.table.put(self._key, self.namespace, self._stored(list(map(self._normal, given))))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Append the lists of other namespaces to the target's."""
        normal = self.table.key_layout.normal_namespace
        target, given = normal(target), [normal(each) for each in listed(sources, "namespaces")]
        merged: list[Stored] = []
        for source in given:
            merged += self.table.get(self._key, source) or []
            self.table.clear(self._key, source)
        if merged:
            self.table.append(self._key, target, merged)

    def get_many(self, keys: Many) -> pa.Array:
        """The list of each key; null if there is none."""
        found = self.table.get_many(self.table.batch_of(keys), self.namespace)
        return found.visible(self._type, found.there)

    def add_many(self, keys: Many, elements: Many) -> None:
        """`add` for each key in this order, all or none."""
        self._append_many(keys, elements, 0)

    def _append_many(self, keys: Many, elements: Many, stamp_ms: int) -> None:
        batch = self.table.batch_of(keys)
        given, has = as_column(self.table.layout.value, elements)
        check_pairs(batch, given)
        if not has.all():
            self._check(None)
        self.table.append_many(batch, self.namespace, given, stamp_ms)

    _all_or_none = False

    def _stored(self, elements: list[Any]) -> list[Stored]:
        return elements

    def _listed(self, elements: Any) -> list[Any]:
        return listed(elements, f"a list of elements of list state {self.name}")

    def _check(self, given: Any) -> None:
        if given is None:
            raise NullValueError(f"list state {self.name}: None cannot be an element or a list")


class TtlListState(ListState):
    """The same with a time to live for each element."""

    _all_or_none = True
    _ttl: Ttl

    def get(self) -> Iterable[Any]:
        """The elements; each iteration checks their expiry again.

        If an iteration reaches the end without a live element, the list is cleared. With
        `ON_READ_AND_WRITE`, this call, not the iteration, removes expired elements and renews the
        others.
        """
        self._ttl.on_access()
        key, namespace = self._key, self.namespace
        items = self.table.get(key, namespace) or []
        if self._ttl.updates_on_read:
            now = self._ttl.now_ms()
            live = [(item[0], now) for item in items if not self._ttl.expired(item, now)]
            if live:
                self.table.put(key, namespace, live)
        return Elements(items, self._ttl, lambda: self.table.clear(key, namespace))

    def add(self, element: Any) -> None:
        """Append an element with the current timestamp."""
        ttl = self._ttl
        ttl.on_access()
        if element is None:
            self._check(None)
        self.table.append(self._key, self.namespace, [(self._normal(element), ttl.now_ms())])

    def add_all(self, elements: Iterable[Any]) -> None:
        """Append elements with one timestamp; none if one is None."""
        self._ttl.on_access()
        super().add_all(elements)

    def update(self, elements: Iterable[Any]) -> None:
        """Replace the list, all elements stamped; without elements it is cleared."""
        self._ttl.on_access()
        super().update(elements)

    def get_many(self, keys: Many) -> pa.Array:
        """The visible elements of each key; an empty list if there are none."""
        batch, now = self.table.batch_of(keys), self._ttl.now_ms()
        found = self.table.get_many(batch, self.namespace)
        stamps = found.items.stamps
        assert stamps is not None
        if not self._ttl.updates_on_read and (stamps > self._ttl.horizon_ms(now)).all():
            self._ttl.on_access()
            return found.visible(self._type, np.ones(len(batch), dtype=np.bool_))
        current, lists = self._context.mark, []
        for key in batch.keys:
            self._context.key = key
            lists.append(list(self.get()))
        self._context.restore(current)
        return pa.array(lists, pa.list_(self._type))

    def add_many(self, keys: Many, elements: Many) -> None:
        """`add` for each key, all or none, stamped with one time."""
        self._ttl.on_access()
        self._append_many(keys, elements, self._ttl.now_ms())

    def _stored(self, elements: list[Any]) -> list[Stored]:
        now = self._ttl.now_ms()
        return [(element, now) for element in elements]


class Elements(Iterable[Any]):
    """The elements of a `get()`, checked against the clock during iteration."""

    def __init__(self, items: list[Stored], ttl: Ttl, clear: Callable[[], None]) -> None:
        """The stored elements; `clear` removes the list."""
        self._items = items
        self._ttl = ttl
        self._clear = clear

    def __iter__(self) -> Iterator[Any]:
        any_live = False
        for item in self._items:
            live = not self._ttl.expired(item, self._ttl.now_ms())
            any_live = any_live or live
            if live or self._ttl.returns_expired:
                yield item[0]
        if not any_live:
            self._clear()
