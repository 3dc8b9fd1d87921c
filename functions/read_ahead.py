"""Reading whole large lists and maps of a batch: several together, if that proves right."""

from typing import Any, Final

import numpy as np

from idlestate.backends.shards.state_entries import Marker, StateEntries

_MOST_ENTRIES: Final = 200_000
"""So many entries are read together at most, if they are of several keys."""


class ReadAhead:
    """The entries of one state. Keys are visited in the order in which they were added.

    A content that is read brings with it those of the keys to come: more, the more of these were
    used before. A function that reads all of them gets them in few reads; one that reads few of
    them reads at most twice as many.
    """

    def __init__(self, entries: StateEntries) -> None:
        """Nothing is read."""
        self._entries = entries
        self._keys: list[tuple[Marker, int]] = []
        self._at: dict[int, int] = {}
        self._ahead: dict[int, Any] = {}
        self._used = 0

    def add(self, marker: Marker, key_hash: int) -> None:
        """A list or map that may be read, of a key with this hash."""
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
        # What is left of those before is of keys that were visited.
        self._ahead = {each.owner: it for each, it in zip(markers[1:], found[1:], strict=True)}
        return found[0]
