"""A map per key with a time to live for each entry."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from idlestate.retention.ttl import horizon_ms
from idlestate.state.batch_values import Stored
from idlestate.state.key_batch import first_of_each_pair
from idlestate.state.map_state import MapEntry, MapIterator, MapState
from idlestate.state.state import Many
from idlestate.state.ttl_layer import Ttl

Entry = tuple[Any, Any, Any]
"""The address of an entry: key, namespace, user key."""


class TtlMapState(MapState):
    """The same with a time to live for each entry."""

    hides_current = True
    _ttl: Ttl

    def get(self, user_key: Any) -> Any:
        """The entry's value; None if there is none, or if it has expired."""
        ttl = self._ttl
        ttl.on_access()
        if user_key is not None:
            user_key = self._normal_key(user_key)
        found = self.table.get(self._key, self.namespace, user_key)
        if found is None:
            return None
        now = ttl.now_ms()
        # The common case of `_judged`: most reads end here.
        if not ttl.updates_on_read and found[1] > horizon_ms(ttl.ttl_ms, now):
            return found[0]
        seen = self._judged(found, now, (self._key, self.namespace, user_key), self.table.remove)
        return None if seen is None else seen[0]

    def contains(self, user_key: Any) -> bool:
        """Whether `get` would find an entry; counts as a read too."""
        self._ttl.on_access()
        if user_key is not None:
            user_key = self._normal_key(user_key)
        return self._seen((self._key, self.namespace, user_key), self.table.remove) is not None

    def _seen(self, entry: Entry, remove: Callable[[Any, Any, Any], None]) -> Stored:
        """The result of a read; None for nothing."""
        found = self.table.get(*entry)
        return None if found is None else self._judged(found, self._ttl.now_ms(), entry, remove)

    def _judged(
        self, found: Stored, now_ms: int, entry: Entry, remove: Callable[[Any, Any, Any], None]
    ) -> Stored:
        """The result of a read for a stored value; removes expired ones, renews live ones."""
        ttl = self._ttl
        if ttl.expired(found, now_ms):
            remove(*entry)
            return found if ttl.returns_expired else None
        if ttl.updates_on_read:
            key, namespace, user_key = entry
            self.table.put_all(key, namespace, {user_key: (found[0], now_ms)})
        return found

    def put(self, user_key: Any, value: Any) -> None:
        """Set an entry and stamp it."""
        ttl = self._ttl
        ttl.on_access()
        if value is not None:
            value = self._normal(value)
        if user_key is not None:
            user_key = self._normal_key(user_key)
        self.table.put_all(self._key, self.namespace, {user_key: (value, ttl.now_ms())})

    def put_all(self, entries: Mapping[Any, Any] | None) -> None:
        """Set entries with one timestamp, all or none; None does nothing."""
        self._ttl.on_access()
        if entries is not None:
            now, given = self._ttl.now_ms(), self._all_normal(entries)
            stamped = {key: (value, now) for key, value in given.items()}
            self.table.put_all(self._key, self.namespace, stamped)

    def remove(self, user_key: Any) -> None:
        """Remove an entry."""
        self._ttl.on_access()
        super().remove(user_key)

    def is_empty(self) -> bool:
        """Whether no entry is stored, not even an expired one."""
        self._ttl.on_access()
        return super().is_empty()

    def iterator(self) -> MapIterator:
        """The visible entries; during iteration, expired ones are removed and live ones renewed."""
        self._ttl.on_access()
        return super().iterator()

    def get_many(self, keys: Many, user_keys: Many) -> pa.Array:
        """`get` of one entry for each key, as an Arrow array of the value type."""
        batch, entries = self._addressed(keys, user_keys)
        self._ttl.on_access()
        table, namespace, now = self.table, self.namespace, self._ttl.now_ms()
        found = table.get_many(batch, namespace, entries)
        assert found.stamps is not None
        expired = found.there & (found.stamps <= self._ttl.horizon_ms(now))
        if self._ttl.updates_on_read and (live := found.there & ~expired).any():
            kept, owners, inside = found.where(live), batch.where(live), entries.where(live)
            table.put_many(owners, namespace, inside, kept.values, kept.has, now)
        if expired.any():
            gone, inside = batch.where(expired), entries.where(expired)
            table.remove_many(gone, namespace, inside)
            if self._ttl.returns_expired:
                # An expired value is returned once, by the first read.
                expired[expired] = ~first_of_each_pair(gone, inside)
        return found.visible(self._type, expired)

    def put_many(self, keys: Many, user_keys: Many, values: Many) -> None:
        """`put` of one entry for each key, stamped with one time, all or none."""
        self._ttl.on_access()
        self._put(keys, user_keys, values, self._ttl.now_ms())

    def _visit(self, key: Any, namespace: Any, user_key: Any) -> MapEntry | None:
        found = self._seen((key, namespace, user_key), self.table.discard)
        return None if found is None else MapEntry(user_key, found[0], _keep)


def _keep(value: Any) -> None:
    """An entry whose value can only be changed locally: with a TTL, nothing is written through."""
