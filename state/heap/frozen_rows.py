"""Frozen heap tables of a snapshot. Another thread may read them while the table changes."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Flags, Positions
from idlestate.backends.runs.byte_index import ByteIndex
from idlestate.state.batch_values import Stored
from idlestate.state.byte_layout import MERGED, ValueLayout
from idlestate.state.heap.copy_on_write_columns import Held, HeldColumns
from idlestate.state.heap.stamped_value_columns import StoredColumns
from idlestate.state.key_batch import KeyBatch
from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.row_keys import KeyLayout
from idlestate.state.table import Row

AT_ONCE: Final = 1 << 14
"""Keys that are encoded together: few, since other threads wait for Python's lock."""

Owners = npt.NDArray[np.int32]

Front = dict[Any, dict[Any, Any]]
"""The content of dicts by namespace and key; None for removed keys."""


def merged_fronts(fronts: list[Front]) -> Front:
    """Several dicts merged: for a key in more than one, the last one counts."""
    if len(fronts) == 1:
        return fronts[0]
    found: Front = {}
    for front in fronts:
        for namespace, space in front.items():
            found.setdefault(namespace, {}).update(space)
    return found


class FrozenKeys:
    """Frozen numbered keys.

    Attributes:
        index: numbers the keys.
        names: the namespaces by number.
        held: the stored values.
    """

    def __init__(self, index: ByteIndex, names: dict[int, Any], held: HeldColumns) -> None:
        """Take copies that the table does not change."""
        self.index, self.names, self.held = index, names, held

    def portions(self) -> Iterator[tuple[Any, Positions]]:
        """Namespaces with the numbers of their keys, in portions."""
        numbers = np.flatnonzero(self.index.alive)
        spaces = self.index.spaces[numbers]
        order = np.argsort(spaces, kind="stable")
        numbers, spaces = numbers[order], spaces[order]
        edges = np.flatnonzero(np.diff(spaces)) + 1
        for some in np.split(numbers, edges):
            for at in range(0, len(some), AT_ONCE):
                part = some[at : at + AT_ONCE]
                yield self.names[int(self.index.spaces[part[0]])], part


class FrozenItems(FrozenKeys):
    """Numbered keys with the items of each."""

    def __init__(self, keys: FrozenKeys, owners: Owners, alive: Flags, names: ByteIndex) -> None:
        """The keys with columns of items.

        Args:
            keys: the keys.
            owners: the number of each item's key.
            alive: whether the item exists.
            names: the names of entries of maps; nothing for lists.
        """
        super().__init__(keys.index, keys.names, keys.held)
        self._owners, self._alive, self._item_names = owners, alive, names

    def sort(self) -> None:
        """Find the items of each key; call it before reading items."""
        items = np.flatnonzero(self._alive)
        of = self._owners[items]
        self._items = items[np.argsort(of, kind="stable")]
        self._ends = np.cumsum(np.bincount(of, minlength=self.index.count))

    def of(self, numbers: Positions) -> tuple[Positions, list[int]]:
        """The items of these keys, in order per key, and the number of each key's items."""
        ends = self._ends[numbers]
        starts = np.where(numbers > 0, self._ends[numbers - 1], 0)
        sizes = ends - starts
        skipped = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        at = np.arange(int(sizes.sum())) + np.repeat(starts - skipped, sizes)
        return self._items[at], sizes.tolist()

    def user_key(self, item: int) -> bytes:
        """The encoded user key of an entry."""
        name = self._item_names.key(item)
        return name[4 + int.from_bytes(name[:4], "big") :]


class FrozenTable(Held, ABC):
    """The frozen rows of a table."""

    def __init__(self, keys: KeyLayout, layout: ValueLayout, fronts: Iterable[Front]) -> None:
        """Take dicts that nothing changes; for a key in several of them, the last one counts."""
        super().__init__()
        self._keys, self._layout = keys, layout
        self._fronts = list(fronts)

    @abstractmethod
    def _columns(self) -> FrozenKeys:
        """The keys in columns; takes the stored values over now."""

    @abstractmethod
    def _rows_of(
        self, prefixes: list[bytes], numbers: Positions, there: list[Any]
    ) -> Iterator[Row]:
        """The rows of keys in order: numbers of columns, or negative ones for those in dicts."""

    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, in the order of their bytes."""
        prefixes, numbers, there = self._all()
        order = pc.array_sort_indices(prefixes)  # other threads run in between
        prefixes, numbers = prefixes.take(order), numbers[order.to_numpy()]
        if there:  # the content of dicts is newer than that of columns, and follows it
            again = pc.equal(prefixes[:-1], prefixes[1:]).to_numpy(zero_copy_only=False)
            last = np.concatenate((~again, [True]))
            prefixes, numbers = prefixes.filter(pa.array(last)), numbers[last]
        low, high = groups.first.to_bytes(2, "big"), groups.last.to_bytes(2, "big")
        for at in range(0, len(prefixes), AT_ONCE):
            some = prefixes[at : at + AT_ONCE].to_pylist()
            for row in self._rows_of(some, numbers[at : at + AT_ONCE], there):
                if low <= row.key[:2] <= high:
                    yield row

    def _all(self) -> tuple[pa.LargeBinaryArray, Positions, list[Any]]:
        """The prefix of each key's rows, the numbers, and the content of dicts."""
        columns = self._columns()
        prefixes, numbers, there = [], [], list[Any]()
        for namespace, some in columns.portions():
            keys = KeyBatch(
                self._keys.key, columns.index.keys.take(pa.array(some)).cast(pa.binary())
            )
            prefixes.append(self._keys.prefixes(keys, namespace))
            numbers.append(some)
        for namespace, space in merged_fronts(self._fronts).items():
            items = iter(space.items())
            while each := list(islice(items, AT_ONCE)):
                keys = KeyBatch.of(self._keys.key, [key for key, _ in each])
                prefixes.append(self._keys.prefixes(keys, namespace))
                numbers.append(-1 - np.arange(len(there), len(there) + len(each)))
                there += [item for _, item in each]
        large = [each.cast(pa.large_binary()) for each in prefixes]
        if not large:
            return pa.array([], pa.large_binary()), np.empty(0, dtype=np.int64), there
        return pa.concat_arrays(large), np.concatenate(numbers), there


class FrozenSingles(FrozenTable):
    """One stored value per key; the content of dicts is newer than that of columns."""

    def __init__(
        self, keys: KeyLayout, layout: ValueLayout, front: Front, columns: FrozenKeys, gone: object
    ) -> None:
        """`gone` marks a removed key in the dicts."""
        super().__init__(keys, layout, [front])
        self._frozen, self._gone = columns, gone

    def release(self) -> None:
        """Let go of the columns as well."""
        super().release()
        self._frozen.held.release()

    def _columns(self) -> FrozenKeys:
        self._stored = StoredColumns.of(self._layout, self._frozen.held)
        return self._frozen

    def _rows_of(
        self, prefixes: list[bytes], numbers: Positions, there: list[Any]
    ) -> Iterator[Row]:
        in_columns = iter(self._stored.at(numbers[numbers >= 0]).stored())
        for prefix, number in zip(prefixes, numbers.tolist(), strict=True):
            stored = next(in_columns) if number >= 0 else there[-1 - number]
            if stored is not self._gone:
                yield Row(prefix, self._layout.encode(stored))


class FrozenChains(FrozenTable):
    """A list or map per key."""

    def __init__(
        self, keys: KeyLayout, layout: ValueLayout, fronts: Iterable[Front], columns: FrozenItems
    ) -> None:
        """A key is in dicts or in columns; in dicts, None marks a removed key."""
        super().__init__(keys, layout, fronts)
        self._frozen = columns

    def release(self) -> None:
        """Let go of the columns as well."""
        super().release()
        self._frozen.held.release()

    def _columns(self) -> FrozenKeys:
        self._stored = StoredColumns.of(self._layout, self._frozen.held)
        self._frozen.sort()
        return self._frozen

    def _rows_of(
        self, prefixes: list[bytes], numbers: Positions, there: list[Any]
    ) -> Iterator[Row]:
        items, sizes = self._frozen.of(numbers[numbers >= 0])
        stored = iter(zip(items.tolist(), self._stored.at(items).stored(), strict=True))
        left = iter(sizes)
        for prefix, number in zip(prefixes, numbers.tolist(), strict=True):
            if number >= 0:
                yield from self._of_columns(prefix, list(islice(stored, next(left))))
            elif (found := there[-1 - number]) is not None:
                yield from self._of_dicts(prefix, found)

    @abstractmethod
    def _of_columns(self, prefix: bytes, items: list[tuple[int, Stored]]) -> Iterator[Row]:
        """The rows of a key whose items have these numbers."""

    @abstractmethod
    def _of_dicts(self, prefix: bytes, found: Any) -> Iterator[Row]:
        """The rows of a key's list or map."""


class FrozenLists(FrozenChains):
    """A list per key."""

    def _of_columns(self, prefix: bytes, items: list[tuple[int, Stored]]) -> Iterator[Row]:
        return self._of_dicts(prefix, [stored for _, stored in items])

    def _of_dicts(self, prefix: bytes, found: Any) -> Iterator[Row]:
        yield Row(prefix + MERGED, self._layout.encode_items(found))


class FrozenMaps(FrozenChains):
    """A map per key. An empty one is a row without a user key, which no entry can have."""

    def _of_columns(self, prefix: bytes, items: list[tuple[int, Stored]]) -> Iterator[Row]:
        name = self._frozen.user_key
        return self._rows(prefix, [(name(number), stored) for number, stored in items])

    def _of_dicts(self, prefix: bytes, found: Any) -> Iterator[Row]:
        encode = self._layout.encode_user_key
        return self._rows(prefix, [(encode(each), stored) for each, stored in found.items()])

    def _rows(self, prefix: bytes, entries: list[tuple[bytes, Stored]]) -> Iterator[Row]:
        if not entries:
            yield Row(prefix, b"")
        for user_key, stored in sorted(entries, key=itemgetter(0)):
            yield Row(prefix + user_key, self._layout.encode(stored))
