"""States with a time to live: each value, element or entry is a pair of value and stamp (ms).

`idlestate.retention.ttl` determines when an item has expired; with `ON_READ_AND_WRITE`, reading an
item renews its stamp, as in Flink. Expired items are never returned.
"""

from collections.abc import Iterable
from typing import Any

from idlestate.functions.large_contents import LargeContent
from idlestate.functions.state_cells import (
    AggregatingCell,
    Cell,
    ListCell,
    MapCell,
    ReducingCell,
    ValueCell,
)
from idlestate.retention.ttl import expiry_ms, horizon_ms


class TtlSingleCell(Cell):
    """One value and its stamp."""

    __slots__ = ()

    def ends_at_ms(self) -> int:
        """When all of its content has expired; it must not be empty."""
        return expiry_ms(self._ttl_ms, self.content[1])

    def seen(self) -> Any:
        """See `Cell`."""
        found, now_ms = self.content, self._context.timestamp_ms
        is_live = found is not None and found[1] > horizon_ms(self._ttl_ms, now_ms)
        return found[0] if is_live else None

    def _live(self, *, renew: bool) -> Any:
        """The value; None if there is none, or if it has expired."""
        found = self.content
        if found is None:
            return None
        now_ms = self._context.timestamp_ms
        if found[1] <= horizon_ms(self._ttl_ms, now_ms):
            self.content = None
            return None
        if renew and self._renews:
            self.content = (found[0], now_ms)
        return found[0] if self._copy is None else self._copy(found[0])


class TtlValueCell(TtlSingleCell, ValueCell):
    """One value. If it is missing, `value` is None regardless of the default, as in Flink."""

    __slots__ = ()

    def value(self) -> Any:
        """The value; None if it is missing or has expired."""
        return self._live(renew=True)

    def update(self, value: Any) -> None:
        """Replace the value; None clears it."""
        now_ms = self._context.timestamp_ms
        self.content = None if value is None else (self._fitting(value), now_ms)


class TtlReducingCell(TtlSingleCell, ReducingCell):
    """One value, reduced from all added values."""

    __slots__ = ()

    def get(self) -> Any:
        """The value; None if nothing was added or it has expired."""
        return self._live(renew=True)

    def add(self, value: Any) -> None:
        """Add a value."""
        old = self._live(renew=False)
        new = self._fitting(value if old is None else self._reduce(old, value))
        self.content = (new, self._context.timestamp_ms)


class TtlAggregatingCell(TtlSingleCell, AggregatingCell):
    """One accumulator."""

    __slots__ = ()

    def get(self) -> Any:
        """The result; None if nothing was added or it has expired."""
        found = self._live(renew=True)
        return None if found is None else self._aggregate.get_result(found)

    def add(self, value: Any) -> None:
        """Add a value."""
        found = self._live(renew=False)
        if found is None:
            found = self._aggregate.create_accumulator()
        new = self._fitting(self._aggregate.add(value, found))
        self.content = (new, self._context.timestamp_ms)


class TtlListCell(ListCell):
    """Elements in order, each with a stamp."""

    __slots__ = ()

    def ends_at_ms(self) -> int:
        """See `TtlSingleCell`."""
        if isinstance(self.content, LargeContent):
            return expiry_ms(self._ttl_ms, self.content.latest_ms)
        return expiry_ms(self._ttl_ms, max(at_ms for _, at_ms in self.content))

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements."""
        added = self._stamped(values)
        if added:
            self._forget()
            if self.content is None:
                self.content = added
            else:
                self.content += added

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements; an empty sequence clears the list."""
        self.content = self._stamped(values) or None

    def get(self) -> list[Any]:
        """The elements that have not expired; a new list."""
        self._forget()
        live = list(self.content or ())
        if self._renews and live:
            self.content = [(value, self._context.timestamp_ms) for value, _ in live]
        return [value for value, _ in live]

    def seen(self) -> Any:
        """See `Cell`."""
        expired_ms = horizon_ms(self._ttl_ms, self._context.timestamp_ms)
        if isinstance(self.content, LargeContent):
            return self.content.seen(expired_ms) or []
        return [value for value, at_ms in self.content or () if at_ms > expired_ms]

    def _stamped(self, values: Iterable[Any]) -> list[tuple[Any, int]]:
        return [(self._fitting(each), self._context.timestamp_ms) for each in values]

    def _forget(self) -> None:
        expired_ms = horizon_ms(self._ttl_ms, self._context.timestamp_ms)
        if isinstance(self.content, LargeContent):
            self.content = self.content if self.content.forget(expired_ms) else None
        elif self.content is not None:
            self.content = [each for each in self.content if each[1] > expired_ms] or None


class TtlMapCell(MapCell):
    """Values by user key, each with a stamp."""

    __slots__ = ()

    def ends_at_ms(self) -> int:
        """See `TtlSingleCell`."""
        if isinstance(self.content, LargeContent):
            return expiry_ms(self._ttl_ms, self.content.latest_ms)
        return expiry_ms(self._ttl_ms, max(at_ms for _, at_ms in self.content.values()))

    def put_all(self, entries: dict[Any, Any]) -> None:
        """Set the values of several user keys."""
        now_ms = self._context.timestamp_ms
        added = {self._key(key): (self._fitting(each), now_ms) for key, each in entries.items()}
        if added:
            self._forget()
            if self.content is None:
                self.content = added
            else:
                self.content.update(added)

    def get(self, key: Any) -> Any:
        """The value of a user key; None without one, or if it has expired."""
        key = self._key(key)
        self._forget()
        found = None if self.content is None else self.content.get(key)
        if found is None:
            return None
        if self._renews:
            self.content.update({key: (found[0], self._context.timestamp_ms)})
        return found[0]

    def remove(self, key: Any) -> None:
        """Remove a user key."""
        self._forget()
        super().remove(key)

    def entries(self) -> list[tuple[Any, Any]]:
        """User keys and values that have not expired; a new list."""
        self._forget()
        live = list((self.content or {}).items())
        if self._renews and live:
            now_ms = self._context.timestamp_ms
            self.content.update({key: (value, now_ms) for key, (value, _) in live})
        return [(key, value) for key, (value, _) in live]

    def seen(self) -> Any:
        """See `Cell`."""
        expired_ms = horizon_ms(self._ttl_ms, self._context.timestamp_ms)
        if isinstance(self.content, LargeContent):
            return self.content.seen(expired_ms) or {}
        entries = (self.content or {}).items()
        return {key: value for key, (value, at_ms) in entries if at_ms > expired_ms}

    def _forget(self) -> None:
        expired_ms = horizon_ms(self._ttl_ms, self._context.timestamp_ms)
        if isinstance(self.content, LargeContent):
            self.content = self.content if self.content.forget(expired_ms) else None
        elif self.content is not None and any(at <= expired_ms for _, at in self.content.values()):
            self.content = {k: v for k, v in self.content.items() if v[1] > expired_ms} or None
