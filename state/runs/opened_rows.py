"""Opened rows: heap tables whose keys are prefixes; cells are put in and taken out in bulk."""

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Flags
from idlestate.backends.runs.byte_index import ABSENT
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.descriptors import StateKind
from idlestate.state.heap.heap_list import HeapListTable
from idlestate.state.heap.heap_map import HeapMapTable
from idlestate.state.heap.values_table import HeapSingleTable
from idlestate.state.key_batch import KeyBatch
from idlestate.state.row_keys import KeyLayout
from idlestate.state.runs.cell_bytes import Items

Front: TypeAlias = HeapSingleTable | HeapListTable | HeapMapTable

_PREFIXES = KeyLayout.of(pa.binary(), pa.binary(), 1)


def make_front(layout: ValueLayout) -> Front:
    """An empty heap table for a state of this layout."""
    if layout.kind is StateKind.LIST:
        return HeapListTable(_PREFIXES, layout)
    if layout.kind is StateKind.MAP:
        return HeapMapTable(_PREFIXES, layout)
    return HeapSingleTable(_PREFIXES, layout)


def load(front: Front, keys: KeyBatch, items: Items) -> None:
    """Put the data of distinct keys into a heap table; lists are appended to existing ones."""
    if not len(keys):
        return
    cells = items.cells
    if isinstance(front, HeapSingleTable):
        front.columns.store(keys, None, cells.values, cells.has, cells.stamps, cells.there)
        return
    owners = keys.take(items.owners)
    if isinstance(front, HeapMapTable):
        assert items.user_keys is not None
        front.columns.own(keys, None)  # those with an empty map as well
        front.columns.put(owners, None, items.user_keys, cells.values, cells.has, cells.stamps)
    else:
        front.columns.append(owners, None, cells.values, cells.has, cells.stamps)


def read(front: Front, keys: KeyBatch) -> tuple[Flags, Items]:
    """Which of these distinct keys a heap table has, and their data."""
    front.settle()
    numbers = front.columns.index.find(keys.encoded, 0)
    there = numbers != ABSENT
    if isinstance(front, HeapSingleTable):
        return there, Items(np.ones(int(there.sum()), np.int64), front.columns.at(numbers[there]))
    sizes, found = front.columns.items(numbers[there])
    user_keys = front.columns.user_keys(found) if isinstance(front, HeapMapTable) else None
    return there, Items(sizes, front.columns.at(found), user_keys)
