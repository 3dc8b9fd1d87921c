"""The states of the current key, as functions see them: kinds and calls as in `idlestate.state`.

A cell holds the content of one state of one key in `content`, None if it is empty. With a time to
live, a value is a pair of value and stamp (ms), by the time of the record or timer. A list or map
may be large (`idlestate.functions.large_contents`).
"""

from collections.abc import Iterable
from typing import Any

from idlestate.functions.function_context import FunctionContext
from idlestate.functions.state_values import copier, default_of, fit_to, plain_class
from idlestate.retention.policy import FOREVER_MS
from idlestate.state.descriptors import StateDescriptor


class Cell:
    """The common part of all kinds.

    Attributes:
        content: the content for the current key.
    """

    __slots__ = ("_class", "_context", "_copy", "_fit", "_renews", "_ttl_ms", "content")

    def __init__(self, descriptor: StateDescriptor[Any], context: FunctionContext) -> None:
        """Of this state; empty."""
        kind = descriptor.value_type
        self._class = plain_class(kind)
        self._fit = fit_to(kind, f"state {descriptor.name!r}")
        self._copy = copier(kind)
        self._context = context
        ttl = descriptor.ttl
        self._ttl_ms = FOREVER_MS if ttl is None else ttl.ttl_ms
        self._renews = ttl is not None and ttl.updates_on_read
        self.content: Any = None

    @property
    def has_ttl(self) -> bool:
        """Whether its content expires."""
        return self._ttl_ms < FOREVER_MS

    def ends_at_ms(self) -> int:
        """When all of its content has expired; it must not be empty."""
        return FOREVER_MS

    def clear(self) -> None:
        """Empty the state."""
        self.content = None

    def seen(self) -> Any:
        """The content as readers see it now; this does not count as a read."""
        return self.content

    def copied(self) -> Any:
        """A copy of the content, to restore it after any change."""
        return self.content if self._copy is None else self._copy(self.content)

    def _fitting(self, value: Any) -> Any:
        return value if value.__class__ is self._class else self._fit(value)


class ValueCell(Cell):
    """One value."""

    __slots__ = ("_default",)

    def __init__(self, descriptor: Any, context: FunctionContext) -> None:
        """Of this state; empty."""
        super().__init__(descriptor, context)
        self._default = default_of(descriptor)

    def value(self) -> Any:
        """The value; the descriptor's default if there is none."""
        found = self._default if self.content is None else self.content
        return found if self._copy is None else self._copy(found)

    def update(self, value: Any) -> None:
        """Replace the value; None clears it."""
        if value.__class__ is self._class:
            self.content = value
        else:
            self.content = None if value is None else self._fit(value)


class ListCell(Cell):
    """Elements in order."""

    __slots__ = ()

    def add(self, value: Any) -> None:
        """Append an element."""
        self.add_all([value])

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements."""
        added = [self._fitting(each) for each in values]
        if added:
            if self.content is None:
                self.content = added
            else:
                self.content += added

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements; an empty sequence clears the list."""
        self.content = [self._fitting(each) for each in values] or None

    def get(self) -> list[Any]:
        """The elements; a new list."""
        return list(self.content or ())

    def seen(self) -> Any:
        """See `Cell`."""
        return self.content and self.content.copy()

    def copied(self) -> Any:
        """See `Cell`."""
        return self.content and self.content.copy()


class MapCell(Cell):
    """Values by user key."""

    __slots__ = ("_fit_key", "_key_class")

    def __init__(self, descriptor: Any, context: FunctionContext) -> None:
        """Of this state; empty."""
        super().__init__(descriptor, context)
        self._key_class = plain_class(descriptor.key_type)
        self._fit_key = fit_to(descriptor.key_type, f"the keys of state {descriptor.name!r}")

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a user key."""
        self.put_all({key: value})

    def put_all(self, entries: dict[Any, Any]) -> None:
        """Set the values of several user keys."""
        added = {self._key(key): self._fitting(each) for key, each in entries.items()}
        if added:
            if self.content is None:
                self.content = added
            else:
                self.content.update(added)

    def get(self, key: Any) -> Any:
        """The value of a user key; None without one."""
        return (self.content or {}).get(self._key(key))

    def contains(self, key: Any) -> bool:
        """Whether a user key has a value."""
        return self.get(key) is not None

    def remove(self, key: Any) -> None:
        """Remove a user key."""
        key = self._key(key)
        if self.content:
            self.content.pop(key, None)
            self.content = self.content or None

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self.entries()

    def entries(self) -> list[tuple[Any, Any]]:
        """User keys and values; a new list."""
        return list((self.content or {}).items())

    def keys(self) -> list[Any]:
        """The user keys; a new list."""
        return [key for key, _ in self.entries()]

    def values(self) -> list[Any]:
        """The values; a new list."""
        return [value for _, value in self.entries()]

    def _key(self, key: Any) -> Any:
        return key if key.__class__ is self._key_class else self._fit_key(key)

    def seen(self) -> Any:
        """See `Cell`."""
        return self.content and self.content.copy()

    def copied(self) -> Any:
        """See `Cell`."""
        return self.content and self.content.copy()


class ReducingCell(Cell):
    """One value, reduced from all added values."""

    __slots__ = ("_reduce",)

    def __init__(self, descriptor: Any, context: FunctionContext) -> None:
        """Of this state; empty."""
        super().__init__(descriptor, context)
        self._reduce = descriptor.reduce

    def get(self) -> Any:
        """The value; None if nothing was added."""
        found = self.content
        return found if self._copy is None else self._copy(found)

    def add(self, value: Any) -> None:
        """Add a value."""
        old = self.content
        self.content = self._fitting(value if old is None else self._reduce(old, value))


class AggregatingCell(Cell):
    """One accumulator; added values and results may have other types."""

    __slots__ = ("_aggregate",)

    def __init__(self, descriptor: Any, context: FunctionContext) -> None:
        """Of this state; empty."""
        super().__init__(descriptor, context)
        self._aggregate = descriptor.aggregate

    def get(self) -> Any:
        """The result; None if nothing was added."""
        found = self._accumulator()
        return None if found is None else self._aggregate.get_result(found)

    def add(self, value: Any) -> None:
        """Add a value."""
        found = self._accumulator()
        if found is None:
            found = self._aggregate.create_accumulator()
        self.content = self._fitting(self._aggregate.add(value, found))

    def _accumulator(self) -> Any:
        found = self.content
        return found if found is None or self._copy is None else self._copy(found)
