"""Large lists and maps of the current key: contents of cells whose entries are in a table.

They are used like lists and dicts. A call for one entry reads only that entry, until many have been
requested; a call for all entries reads all of them once. Changes are kept separately until the
batch is written; only then is it determined whether a changed entry was stored.

An item is a value, or with a time to live, a pair of value and stamp (ms).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from idlestate.backends.shards.entry_markers import Marker
from idlestate.backends.shards.state_entries import Edits
from idlestate.functions.read_ahead import ReadAhead
from idlestate.retention.rules import NEVER_MS

ONE_READ: Final = 2_000
"""Looking up one entry takes as long as reading this many together (measured: about 2,000)."""


class LargeContent:
    """The common part of lists and maps.

    Attributes:
        marker: the marker in the life's row.
        latest_ms: the highest stamp of an item.
        horizon_ms: items with stamps up to this are removed.
        pending: the changes since the batch began.
    """

    __slots__ = ("_entries", "_hash", "_stamped", "horizon_ms", "latest_ms", "marker", "pending")

    def __init__(self, marker: Marker, key_hash: int, entries: ReadAhead, *, stamped: bool) -> None:
        """The content of the key with this hash; with `stamped`, items are pairs with stamps."""
        self.marker, self._hash = marker, key_hash
        self._entries, self._stamped = entries, stamped
        self.latest_ms, self.horizon_ms = marker.latest_ms, marker.horizon_ms
        self.pending: Any = None

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Whether readers see the same content; stamps do not count."""
        if isinstance(other, LargeContent):
            return self._is_unchanged(other) or self.shown() == other.shown()
        return bool(self.shown() == other)

    def copy(self) -> Any:
        """An independent copy."""
        raise NotImplementedError

    def shown(self) -> Any:
        """The content as readers see it, without stamps."""
        raise NotImplementedError

    def changes(self, edits: Edits) -> None:
        """Add the changes of this content."""
        raise NotImplementedError

    def after(self, marker: Marker) -> Marker:
        """The marker after the batch; `marker` has its counts."""
        return marker._replace(latest_ms=self.latest_ms, horizon_ms=self.horizon_ms)

    def forget(self, horizon_ms: int) -> bool:
        """Drop the items with stamps up to this; return whether any are left."""
        self.horizon_ms = max(self.horizon_ms, horizon_ms)
        return self.latest_ms > horizon_ms

    def seen(self, horizon_ms: int) -> Any:
        """A copy without the items with stamps up to this; None if none are left."""
        found = self.copy()
        return found if found.forget(horizon_ms) else None

    def _is_unchanged(self, other: "LargeContent") -> bool:
        """Whether at most stamps differ from another version of the same content."""
        return (self.marker.owner, self.horizon_ms, self.pending) == (
            *(other.marker.owner, other.horizon_ms, other.pending),
        )

    def _stored(self) -> Any:
        """All items that were stored before the batch, including those that expired since."""
        return self._entries.whole(self.marker)

    def _begin(self, edits: Edits, size: int) -> None:
        edits.markers.append(self.marker)
        edits.hashes.append(self._hash)
        edits.sizes.append(size)


class LargeMap(LargeContent):
    """Items by user key, in the order of their first put."""

    __slots__ = ("_all", "_looked", "_read")

    def __init__(self, marker: Marker, key_hash: int, entries: ReadAhead, *, stamped: bool) -> None:
        """See `LargeContent`; starts without changes."""
        super().__init__(marker, key_hash, entries, stamped=stamped)
        # Per user key: the item, None if removed; whether it moves to the end of the order although
        # it is stored; and the horizon at the time of the put, up to which a stored item was
        # expired.
        self.pending: dict[Any, tuple[Any, bool, int]] = {}
        self._all: dict[Any, Any] | None = None
        self._read: dict[Any, Any] = {}
        self._looked = 0

    def __bool__(self) -> bool:
        if self._stamped:
            return self.latest_ms > self.horizon_ms
        gone = 0
        for item, _, _ in self.pending.values():
            if item is not None:
                return True
            gone += 1
        return self.marker.entries > gone or bool(self._loaded())

    def get(self, key: Any) -> Any:
        """The item of a user key; None without one."""
        change = self.pending.get(key)
        if change is not None:
            item = change[0]
        elif self._all is not None:
            item = self._all.get(key)
        else:
            item = self._look_up(key)
        if item is None or (self._stamped and item[1] <= self.horizon_ms):
            return None
        return item

    def items(self) -> list[tuple[Any, Any]]:
        """User keys and items."""
        found = self._loaded().items()
        if not self._stamped:
            return list(found)
        horizon_ms = self.horizon_ms
        return [(key, item) for key, item in found if item[1] > horizon_ms]

    def update(self, items: Mapping[Any, Any]) -> None:
        """Set the items of user keys."""
        changes, horizon_ms = self.pending, self.horizon_ms
        for key, item in items.items():
            change = changes.get(key)
            if change is None:
                change = (item, False, horizon_ms)
            elif self._is_gone(change[0]):
                del changes[key]
                change = (item, True, horizon_ms)
            else:
                change = (item, change[1], change[2])
            changes[key] = change
            self._note(key, item)
            if self._stamped and item[1] > self.latest_ms:
                self.latest_ms = item[1]

    def pop(self, key: Any, otherwise: Any = None) -> Any:  # noqa: ARG002 - as in dict
        """Remove a user key."""
        was = self.get(key) if self._stamped else None
        self.pending.pop(key, None)
        self.pending[key] = (None, True, self.horizon_ms)
        if self._all is not None:
            self._all.pop(key, None)
        if was is not None and was[1] >= self.latest_ms:
            self.latest_ms = max((item[1] for _, item in self.items()), default=NEVER_MS)
        return was

    def copy(self) -> "LargeMap":
        """See `LargeContent`."""
        found = LargeMap(self.marker, self._hash, self._entries, stamped=self._stamped)
        found.pending, found._read = dict(self.pending), self._read
        found._all = None if self._all is None else dict(self._all)
        found._looked = self._looked
        found.latest_ms, found.horizon_ms = self.latest_ms, self.horizon_ms
        return found

    def shown(self) -> dict[Any, Any]:
        """See `LargeContent`."""
        if not self._stamped:
            return dict(self.items())
        return {key: item[0] for key, item in self.items()}

    def changes(self, edits: Edits) -> None:
        """See `LargeContent`."""
        self._begin(edits, len(self.pending))
        for key, (item, at_end, horizon_ms) in self.pending.items():
            value, stamp_ms = item if self._stamped and item is not None else (item, 0)
            edits.keys.append(key)
            edits.values.append(value)
            edits.stamps_ms.append(stamp_ms)
            edits.at_end.append(at_end)
            edits.horizons_ms.append(horizon_ms)

    def _is_gone(self, item: Any) -> bool:
        return item is None or (self._stamped and item[1] <= self.horizon_ms)

    def _note(self, key: Any, item: Any) -> None:
        """Apply a change to the items that were read together."""
        if self._all is not None:
            if self._stamped and self._is_gone(self._all.get(key)):
                self._all.pop(key, None)
            self._all[key] = item

    def _look_up(self, key: Any) -> Any:
        if key not in self._read:
            self._looked += ONE_READ
            if self._looked > self.marker.entries:
                return self._loaded().get(key)
            self._read[key] = self._entries.one(self.marker, key)
        return self._read[key]

    def _loaded(self) -> dict[Any, Any]:
        """All items, including those that the horizon may exclude."""
        if self._all is None:
            found = self._stored()
            for key, (item, at_end, horizon_ms) in self.pending.items():
                is_last = at_end or self._was_gone(found.get(key), horizon_ms)
                if item is None or is_last:
                    found.pop(key, None)
                if item is not None:
                    found[key] = item
            self._all = found
        return self._all

    def _was_gone(self, item: Any, horizon_ms: int) -> bool:
        return self._stamped and item is not None and bool(item[1] <= horizon_ms)


class LargeList(LargeContent):
    """Items in order."""

    __slots__ = ("_before",)

    def __init__(self, marker: Marker, key_hash: int, entries: ReadAhead, *, stamped: bool) -> None:
        """See `LargeContent`; starts without additions."""
        super().__init__(marker, key_hash, entries, stamped=stamped)
        self.pending: list[Any] = []
        self._before: list[Any] | None = None

    def __iadd__(self, items: Iterable[Any]) -> "LargeList":
        items = list(items)
        self.pending += items
        if self._stamped:
            self.latest_ms = max([self.latest_ms, *(at_ms for _, at_ms in items)])
        return self

    def __iter__(self) -> Iterator[Any]:
        if self._before is None:
            self._before = self._stored()
        found = [*self._before, *self.pending]
        if self._stamped:
            found = [each for each in found if each[1] > self.horizon_ms]
        return iter(found)

    def copy(self) -> "LargeList":
        """See `LargeContent`."""
        found = LargeList(self.marker, self._hash, self._entries, stamped=self._stamped)
        found.pending, found._before = list(self.pending), self._before
        found.latest_ms, found.horizon_ms = self.latest_ms, self.horizon_ms
        return found

    def shown(self) -> list[Any]:
        """See `LargeContent`."""
        return [each[0] for each in self] if self._stamped else list(self)

    def changes(self, edits: Edits) -> None:
        """See `LargeContent`."""
        count, first = len(self.pending), self.marker.following
        self._begin(edits, count)
        edits.keys += range(first, first + count)
        if self._stamped:
            edits.values += [value for value, _ in self.pending]
            edits.stamps_ms += [at_ms for _, at_ms in self.pending]
        else:
            edits.values += self.pending
            edits.stamps_ms += [0] * count
        edits.at_end += [True] * count
        edits.horizons_ms += [NEVER_MS] * count
