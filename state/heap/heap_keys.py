"""Numbered keys of namespaces on heap: the common base of all columns on heap."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.backends.runs.byte_index import ByteIndex
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.codec import Codec
from idlestate.state.heap.frozen_rows import FrozenKeys
from idlestate.state.heap.namespaces import Spaces
from idlestate.state.heap.stamped_value_columns import StoredColumns
from idlestate.state.key_batch import KeyBatch

SPARE: Final = 1024
"""Number of removed keys that are not worth new columns."""

AT_ONCE: Final = 1 << 16
"""Keys that are gathered or moved at once: Arrow's arrays are limited to 2 GB."""


class HeapKeys:
    """Numbered keys, and their stored values.

    Attributes:
        index: numbers the keys.
        spaces: numbers the namespaces.
        made: how often the columns were rebuilt.
    """

    def __init__(self, layout: ValueLayout) -> None:
        """Start without keys."""
        self.index, self.spaces = ByteIndex(), Spaces()
        self.made = 0
        self._stored = StoredColumns(layout)

    def in_namespace(self, namespace: Any) -> Positions:
        """The numbers of the keys of a namespace."""
        return np.flatnonzero(self.index.alive & (self.index.spaces == self.spaces.find(namespace)))

    def keys(self, numbers: Positions) -> pa.BinaryArray:
        """The encoded keys with these numbers."""
        return self.index.keys.take(pa.array(numbers)).cast(pa.binary())

    def named(self, namespace: Any, codec: Codec) -> list[Any]:
        """The keys of a namespace as Python objects."""
        there, found = self.in_namespace(namespace), list[Any]()
        for at in range(0, len(there), AT_ONCE):
            found += KeyBatch(codec, self.keys(there[at : at + AT_ONCE])).keys
        return found

    def _forget_spaces(self) -> None:
        """Drop namespaces without keys, if no removed keys are left."""
        self.spaces.keep(np.unique(self.index.spaces).tolist())

    def freeze(self) -> FrozenKeys:
        """The current keys, unaffected by later changes; only flags are copied."""
        return FrozenKeys(self.index.copy(), self.spaces.names, self._stored.hold())
