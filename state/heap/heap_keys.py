"""Keys of namespaces on heap, numbered: what all columns on heap begin with."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.backends.runs.byte_index import ByteIndex
from idlestate.state.codec import Codec
from idlestate.state.heap.frozen_rows import FrozenKeys
from idlestate.state.heap.namespaces import Spaces
from idlestate.state.heap.stored_columns import StoredColumns
from idlestate.state.key_batch import KeyBatch
from idlestate.state.rows import ValueLayout

SPARE: Final = 1024
"""What was removed and is not worth new columns."""

AT_ONCE: Final = 1 << 16
"""Keys that are gathered or moved at once: Arrow's arrays end at two gigabytes."""


class HeapKeys:
    """Numbered keys, and what is stored.

    Attributes:
        index: numbers the keys.
        spaces: numbers the namespaces.
        made: how often the columns were made anew.
    """

    def __init__(self, layout: ValueLayout) -> None:
        """No keys."""
        self.index, self.spaces = ByteIndex(), Spaces()
        self.made = 0
        self._stored = StoredColumns(layout)

    def in_namespace(self, namespace: Any) -> Positions:
        """The numbers of the keys of a namespace."""
        return np.flatnonzero(self.index.alive & (self.index.spaces == self.spaces.find(namespace)))

    def keys(self, numbers: Positions) -> pa.BinaryArray:
        """The bytes of these keys."""
        return self.index.keys.take(pa.array(numbers)).cast(pa.binary())

    def named(self, namespace: Any, codec: Codec) -> list[Any]:
        """The keys of a namespace as Python has them."""
        there, found = self.in_namespace(namespace), list[Any]()
        for at in range(0, len(there), AT_ONCE):
            found += KeyBatch(codec, self.keys(there[at : at + AT_ONCE])).keys
        return found

    def _forget_spaces(self) -> None:
        """Forget namespaces that no key has, once there are no removed ones."""
        self.spaces.keep(np.unique(self.index.spaces).tolist())

    def freeze(self) -> FrozenKeys:
        """The keys as they are now, unchanged by what comes: only flags are copied."""
        return FrozenKeys(self.index.copy(), self.spaces.names, self._stored.hold())
