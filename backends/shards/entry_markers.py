"""Markers: references in a life's row to lists and maps whose entries are in a separate table."""

import struct
from typing import Any, Final, NamedTuple

from idlestate.retention.rules import NEVER_MS

_MARKER: Final = struct.Struct("<5q")


class Marker(NamedTuple):
    """The reference in a life's row to a list or map whose entries are in the state's table.

    Attributes:
        owner: the owner number.
        entries: the number of entries; with a time to live, an upper bound.
        following: the number of the next entry.
        latest_ms: with a time to live, the highest stamp of all entries.
        horizon_ms: entries with stamps up to this are removed.
    """

    owner: int
    entries: int
    following: int
    latest_ms: int = NEVER_MS
    horizon_ms: int = NEVER_MS

    def cell(self) -> bytes:
        """The marker in the row."""
        return _MARKER.pack(*self)

    @classmethod
    def of(cls, cell: bytes) -> "Marker":
        """Read it back."""
        return cls(*_MARKER.unpack(cell))


def items_since(content: Any, horizon_ms: int) -> Any:
    """The items of a list or map with stamps after the horizon."""
    if isinstance(content, dict):
        return {key: each for key, each in content.items() if each[1] > horizon_ms}
    return [each for each in content if each[1] > horizon_ms]
