"""Many items per key on heap, as columns: no object per key, list, map or item.

    index          `ByteIndex` numbers the keys (owners); a key exists iff it has a list or map
    head, tail     per key its first and last item, -1 for none
    counts         per key its number of items
    values …       per item its value, owner, the owner's next item, and whether it exists

Items are numbered in the order of insertion, so the numbers in a key's chain increase. A removed
item stays in its chain until `compact`, or until its key is removed from a list.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Flags, Positions
from idlestate.backends.runs.byte_index import ABSENT, ByteIndex, distinct, grown
from idlestate.retention.policy import FOREVER_MS
from idlestate.state.batch_values import Cells, Column, Lists, Stored
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.heap.frozen_rows import FrozenItems
from idlestate.state.heap.heap_keys import SPARE, HeapKeys
from idlestate.state.key_batch import KeyBatch
from idlestate.state.usage import Usage

ONE: Final = np.int32(1)
"""One in the type of the counts: numpy counts 60 times as fast with it as with a Python int."""

FEW: Final = 8
"""Up to this many chains are followed one by one: array steps are not worth it."""


class HeapChains(HeapKeys):
    """Items of many keys.

    Attributes:
        count: number of items, including removed ones.
        live: number of existing items.
    """

    def __init__(self, layout: ValueLayout) -> None:
        """Start without keys."""
        super().__init__(layout)
        self.count = self.live = 0
        self._alive = np.empty(0, dtype=np.bool_)
        self._owner = np.empty(0, dtype=np.int32)
        self._next = np.empty(0, dtype=np.int32)
        self._head = np.empty(0, dtype=np.int32)
        self._tail = np.empty(0, dtype=np.int32)
        self._counts = np.empty(0, dtype=np.int32)

    def usage(self) -> Usage:
        """The bytes of the columns."""
        links = (self._alive, self._owner, self._next)
        size = self._stored.nbytes + sum([each.nbytes for each in links])
        owners = sum([each.nbytes for each in (self._head, self._tail, self._counts)])
        dead = size * (self.count - self.live) // max(self.count, 1)
        owners += self.index.total_bytes
        return Usage(size + owners, dead + self.index.dead_share(owners))

    # -------------------------------------------------------------- one key

    def find_one(self, data: bytes, namespace: Any) -> int:
        """The number of a key; `ABSENT` if it does not exist."""
        return self.index.find_one(data, self.spaces.find(namespace))

    def items_of(self, owner: int) -> list[int]:
        """The numbers of a key's items, in order."""
        return self._from(int(self._head[owner]))

    def _from(self, at: int) -> list[int]:
        """The items of a chain from this one on."""
        following, alive, found = self._next.data, self._alive.data, list[int]()
        while at >= 0:
            if alive[at]:
                found.append(at)
            at = following[at]
        return found

    def stored(self, number: int) -> Stored:
        """The content of an item."""
        return self._stored.one(number)

    # -------------------------------------------------------------- many keys

    def find(self, keys: KeyBatch, namespace: Any) -> Positions:
        """The number of each existing key, once."""
        numbers = self.index.find(keys.encoded, self.spaces.find(namespace))
        return distinct(numbers[numbers != ABSENT])

    def own(self, keys: KeyBatch, namespace: Any) -> Positions:
        """The number of each key; a new key gets a number, and has no items."""
        before = self.index.count
        numbers, _ = self.index.add(keys.encoded, self.spaces.number(namespace))
        count = self.index.count
        if count > before:
            self._head, self._tail = grown(self._head, count), grown(self._tail, count)
            self._counts = grown(self._counts, count)
            self._head[before:count] = self._tail[before:count] = ABSENT
            self._counts[before:count] = 0
        return numbers

    def append(
        self, keys: KeyBatch, namespace: Any, values: Column, has: Flags, stamps: Any
    ) -> None:
        """Append an item to each key; arguments as for `HeapColumns.store`."""
        owners, first = self.own(keys, namespace), self.count
        self._make_room(first + len(owners))
        numbers = np.arange(first, self.count)
        self._stored.set(numbers, values, has, stamps)
        self._alive[numbers] = True
        self._link(first, owners)
        self._count_in(owners)

    def _make_room(self, count: int) -> None:
        """Number new items, which do not exist yet, up to this count."""
        first, self.count = self.count, count
        self._alive = grown(self._alive, count)
        self._owner, self._next = grown(self._owner, count), grown(self._next, count)
        self._alive[first:count] = False

    def _count_in(self, owners: Positions) -> None:
        self.live += len(owners)
        np.add.at(self._counts, owners, ONE)

    def _link(self, first: int, owners: Positions) -> None:
        """Append the items from `first` on to the chains of these owners."""
        numbers = np.arange(first, first + len(owners), dtype=np.int32)
        self._owner[first : first + len(owners)] = owners
        self._next[first : first + len(owners)] = ABSENT
        before = self._tail[owners]
        self._tail[owners] = numbers
        if not np.array_equal(self._tail[owners], numbers):  # a key occurs more than once
            order = np.argsort(owners, kind="stable")
            owners, numbers, before = owners[order], numbers[order], before[order]
            same = owners[1:] == owners[:-1]
            self._next[numbers[:-1][same]] = numbers[1:][same]
            self._tail[owners[:-1][~same]] = numbers[:-1][~same]
            self._tail[owners[-1:]] = numbers[-1:]
            starts = np.concatenate(([True], ~same))
            owners, numbers, before = owners[starts], numbers[starts], before[starts]
        behind = before >= 0
        self._next[before[behind]] = numbers[behind]
        self._head[owners[~behind]] = numbers[~behind]

    def at(self, numbers: Positions) -> Cells:
        """The content of items; `ABSENT` and removed ones have none."""
        there = numbers != ABSENT
        there[there] = self._alive[numbers[there]]
        return self._stored.at(numbers, there)

    def lists(self, keys: KeyBatch, namespace: Any) -> Lists:
        """The items of each key."""
        owners = self.index.find(keys.encoded, self.spaces.find(namespace))
        sizes, items = self.items(owners)
        return Lists(owners != ABSENT, sizes, self.at(items))

    def items(self, owners: Positions) -> tuple[Positions, Positions]:
        """The number of items of each owner, and the items' numbers, in order per owner."""
        rows, items = self._chains(owners)
        return np.bincount(rows, minlength=len(owners)), items[np.argsort(rows, kind="stable")]

    def _chains(self, owners: Positions) -> tuple[Positions, Positions]:
        """All items of these owners, in order per owner, and the row of each."""
        rows = np.flatnonzero(owners != ABSENT)
        at = self._head[owners[rows]] if len(rows) else np.empty(0, dtype=np.int32)
        of, found = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        while len(at):
            more = at >= 0
            rows, at = rows[more], at[more]
            if len(at) < FEW:
                for row, item in zip(rows.tolist(), at.tolist(), strict=True):
                    items = np.array(self._from(item), dtype=np.int64)
                    of.append(np.full(len(items), row))
                    found.append(items)
                break
            of.append(rows)
            found.append(at.astype(np.int64))
            at = self._next[at]
        all_rows, all_items = np.concatenate(of), np.concatenate(found)
        alive = self._alive[all_items]
        return all_rows[alive], all_items[alive]

    # -------------------------------------------------------------- removing

    def clear(self, owners: Positions) -> None:
        """Remove existing keys, each given once, with their items."""
        _, items = self._chains(owners)
        self._take_out(items)
        self._counts[owners] = 0
        self._drop(owners)

    def remove(self, items: Positions) -> None:
        """Remove existing items, each given once; removing a key's last one removes the key."""
        self._take_out(items)
        owners = self._owner[items]
        np.subtract.at(self._counts, owners, ONE)
        self._drop(distinct(owners[self._counts[owners] == 0].astype(np.int64)))

    def _take_out(self, items: Positions) -> None:
        self._alive[items] = False
        self.live -= len(items)
        self._stored.let_go(items)

    def _drop(self, owners: Positions) -> None:
        self.index.remove(owners)
        self._head[owners] = self._tail[owners] = ABSENT

    def compact_if_sparse(self) -> None:
        """Rebuild the columns if most of their content was removed."""
        owners = self.index
        if self.count > 2 * self.live + SPARE or owners.count > 2 * owners.live + SPARE:
            self.compact()

    def compact(self) -> None:
        """Rebuild the columns without removed items, and drop unused namespaces."""
        self.made += 1
        kept = np.flatnonzero(self._alive[: self.count])
        owners = self.index.compact()
        renumbered = np.empty(int(owners[-1]) + 1 if len(owners) else 0, dtype=np.int64)
        renumbered[owners] = np.arange(len(owners))
        mine = renumbered[self._owner[kept]]
        self._stored.keep(kept)
        self.count = self.live = len(kept)
        self._alive = np.ones(len(kept), dtype=np.bool_)
        self._owner, self._next = np.empty((2, len(kept)), dtype=np.int32)
        self._head = np.full(len(owners), ABSENT, dtype=np.int32)
        self._tail = self._head.copy()
        self._counts = np.bincount(mine, minlength=len(owners)).astype(np.int32)
        self._link(0, mine)
        self._forget_spaces()

    # -------------------------------------------------------------- the whole

    def old(self, first: int, end: int, horizon_ms: int) -> tuple[Positions, int, int]:
        """Of the items from `first` to `end`: the old ones, the number of all, the oldest kept."""
        numbers = first + np.flatnonzero(self._alive[first:end])
        stamps = self._stored.stamps[numbers]
        kept = stamps[stamps > horizon_ms]
        oldest = int(kept.min(initial=FOREVER_MS))
        return numbers[stamps <= horizon_ms], len(numbers), oldest

    def stamps(self) -> Positions:
        """The timestamps of all items."""
        return self._stored.stamps[np.flatnonzero(self._alive[: self.count])]

    def owners_of(self, items: Positions) -> tuple[pa.BinaryArray, list[Any]]:
        """The encoded keys of items, and their namespaces."""
        owners, names = self._owner[items].astype(np.int64), self.spaces.names
        return self.keys(owners), [names[each] for each in self.index.spaces[owners].tolist()]

    def freeze(self) -> FrozenItems:
        """The current keys and items, unaffected by later changes; only flags are copied."""
        # An item's owner never changes, and a key's items are numbered in their order.
        alive = self._alive[: self.count].copy()
        return FrozenItems(super().freeze(), self._owner, alive, self._item_names())

    def _item_names(self) -> ByteIndex:
        return ByteIndex()
