"""Reads complete large lists and maps of a batch, several at once if that pays off."""

from typing import Any, Final

import numpy as np

from idlestate.backends.shards.entry_markers import Marker
from idlestate.backends.shards.state_entries import StateEntries

_MOST_ENTRIES: Final = 200_000
"""The maximum number of entries that are read together for several keys."""


class ReadAhead:
    """The entries of one state. Keys are visited in the order in which they were added.

    Reading a content also reads those of following keys; the more of the earlier ones were used,
    the more are read ahead. A function that reads all contents needs few reads; one that reads few
    of them causes at most twice as many to be read.
    """

    def __init__(self, entries: StateEntries) -> None:
        """Start without reading anything."""
        self._entries = entries
        self._keys: list[tuple[Marker, int]] = []
        self._at: dict[int, int] = {}
        self._ahead: dict[int, Any] = {}
        self._used = 0

    def add(self, marker: Marker, key_hash: int) -> None:
        """Add a list or map that may be read, of a key with this hash."""
        self._at[marker.owner] = len(self._keys)
        self._keys.append((marker, key_hash))

    def one(self, marker: Marker, key: Any) -> Any:
        """See `StateEntries.one`."""
        _, key_hash = self._keys[self._at[marker.owner]]
        return self._entries.one(marker, key_hash, key)

    def whole(self, marker: Marker) -> Any:
        """All entries of a list or map, as in `StateEntries.contents`."""
        if marker.owner in self._ahead:
            self._used += 1
            return self._ahead.pop(marker.owner)
        first = self._at[marker.owner]
        some, entries = [self._keys[first]], marker.entries
        for each in self._keys[first + 1 : first + 2 + 2 * self._used]:
            entries += each[0].entries
            if entries > _MOST_ENTRIES:
                break
            some.append(each)
        markers = [each for each, _ in some]
        found = self._entries.contents(markers, np.array([key_hash for _, key_hash in some]))
        # Remaining contents before this one belong to keys that were already visited.
        self._ahead = {each.owner: it for each, it in zip(markers[1:], found[1:], strict=True)}
        return found[0]
