"""Lists and maps of functions that are too large for the row of their life.

Such a list or map has a *marker* in the row (`idlestate.backends.shards.entry_markers`), and an
owner number. Its entries are rows of a table of the state:

| column | is |
|---|---|
| key `owner` | the number of the list or map; no other one of the shard has it |
| key `entry` | the user key; of a list the number of the element |
| `value` | the value |
| `number` | of a map, the place of the entry in the order of the map |

The position of a row in its runs depends on the hashes of the life's key and of the entry
(`idlestate.backends.runs.entry_places`). The row's write time is the entry's stamp, so with a time
to live it ends like a life under a policy with this `ttl`: a sweep removes it even if nobody reads
it, and if the time to live changes, runs are read as after a policy change.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.byte_index import ABSENT
from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.entry_places import (
    ENTRY_BITS,
    places_in,
    ranges_at,
    stored_in,
    upper_bits,
)
from idlestate.backends.runs.fields import Field, take
from idlestate.backends.runs.keys import take_keys
from idlestate.backends.runs.python_values import python_values
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import Next, Runs
from idlestate.backends.runs.table_schema import Column, TableSchema
from idlestate.backends.shards.entry_markers import Marker, items_since
from idlestate.backends.shards.function_state_columns import StateColumns
from idlestate.retention.lives import Lives
from idlestate.retention.policy import Policy
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Edits:
    """Changes to entries, grouped by list or map; each entry occurs once.

    Attributes:
        markers, hashes, sizes: for each list or map, its previous marker, the hash of its key, and
            the number of changes.
        keys, values, stamps_ms: for each change; a removed entry has no value.
        at_end: whether an entry moves to the end of the order even if it is already stored.
        horizons_ms: stored entries with stamps up to this were removed before the change.
    """

    markers: list[Marker] = field(default_factory=list)
    hashes: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    stamps_ms: list[int] = field(default_factory=list)
    at_end: list[bool] = field(default_factory=list)
    horizons_ms: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ChangedEntries:
    """A batch's changes to the table of a state: rows to write, positions of rows that they replace
    or end, and the change in the number of entries.
    """

    rows: Rows
    closed: Ints
    more: int


def entry_schema(state: StateColumns) -> TableSchema:
    """The columns of the entry table of a list or map state."""
    keys = (("owner", pa.int64()), ("entry", state.key_type or pa.int64()))
    value = Column("value", pa.nulls(1, state.type))
    if state.key_type is None:
        return TableSchema(keys, (value,), ends_run_back=True)
    number = Column("number", np.zeros(1, dtype=np.int64))
    return TableSchema(keys, (value, number), ends_run_back=True)


def entry_counts(cells: Field) -> Ints:
    """The number of entries of each marker cell."""
    assert isinstance(cells, pa.Array)
    return np.array([0 if each is None else Marker.of(each).entries for each in cells.to_pylist()])


class StateEntries:
    """The entry table of one state in one shard."""

    def __init__(self, state: StateColumns, runs: Runs) -> None:
        """The entries before a batch."""
        self._is_map = state.key_type is not None
        self._key_type = state.key_type or pa.int64()
        self._type, self._is_stamped = state.type, state.stamped
        self._runs = runs

    def one(self, marker: Marker, key_hash: int, key: Any) -> Any:
        """The value of an entry, paired with its stamp if there is a time to live; None if it does
        not exist.
        """
        keys = [pa.array([marker.owner]), pa.array([key], self._key_type)]
        _, rows = self._runs.look_up(self._places(np.array([key_hash]), keys), keys)
        if not len(rows):
            return None
        (value,) = python_values(rows.payload[0])
        return (value, int(rows.lives.written_at_ms[0])) if self._is_stamped else value

    def contents(self, markers: Sequence[Marker], key_hashes: Ints) -> list[Any]:
        """Complete lists and maps; with a time to live, each value is paired with its stamp.

        Args:
            markers, key_hashes: the marker of each, and the hash of its key.
        """
        owners = np.array([each.owner for each in markers], dtype=np.int64)
        _, rows = self._of(owners, key_hashes)
        owner = _int64(rows.keys[0])
        order = np.lexsort((self._numbers(rows), owner))
        values = python_values(take(rows.payload[0], order))
        if self._is_stamped:
            values = list(zip(values, rows.lives.written_at_ms[order].tolist(), strict=True))
        names = python_values(rows.keys[1].take(pa.array(order))) if self._is_map else values
        begins = np.searchsorted(owner[order], owners).tolist()
        ends = np.searchsorted(owner[order], owners, side="right").tolist()
        found = list[Any]()
        for marker, begin, end in zip(markers, begins, ends, strict=True):
            part: Any = values[begin:end]
            if self._is_map:
                part = dict(zip(names[begin:end], part, strict=True))
            found.append(items_since(part, marker.horizon_ms) if self._is_stamped else part)
        return found

    def changed(
        self, edits: Edits, ended: Sequence[int], ended_hashes: Sequence[int]
    ) -> tuple[ChangedEntries, list[Marker]]:
        """The rows to write for changes, and the markers after them.

        Args:
            edits: the changes.
            ended, ended_hashes: the owner numbers of lists and maps that ended, and the hashes of
                their keys.
        """
        sizes = np.array(edits.sizes, dtype=np.int64)
        of = np.repeat(np.arange(len(sizes)), sizes)
        owners = np.array([each.owner for each in edits.markers], dtype=np.int64)[of]
        keys = [pa.array(owners), pa.array(edits.keys, self._key_type)]
        places = self._places(np.array(edits.hashes, dtype=np.int64)[of], keys)
        order = np.argsort(places, kind="stable")
        at, numbers = np.full(len(of), ABSENT), np.full(len(of), ABSENT)
        written_ms = np.full(len(of), NEVER_MS)
        at[order], old = self._runs.look_up(places[order], take_keys(keys, order))
        found = order[at[order] != ABSENT]
        written_ms[found] = old.lives.written_at_ms
        if self._is_map:
            numbers[found] = np.asarray(old.payload[1])
        was, stays = at != ABSENT, np.array([each is not None for each in edits.values], dtype=bool)
        is_gone = written_ms <= np.array(edits.horizons_ms, dtype=np.int64)
        is_last = stays & (is_gone | ~was | np.array(edits.at_end, dtype=bool))
        rank = np.cumsum(is_last) - 1
        before = np.cumsum(_counts(of, is_last, len(sizes))) - _counts(of, is_last, len(sizes))
        first = np.array([each.following for each in edits.markers], dtype=np.int64) - before
        numbers[is_last] = (first[of] + rank)[is_last]
        stamps_ms = np.array(edits.stamps_ms, dtype=np.int64)
        counts = _counts(of, stays & ~was, len(sizes)) - _counts(of, ~stays & was, len(sizes))
        steps = zip(
            edits.markers, counts.tolist(), _counts(of, is_last, len(sizes)).tolist(), strict=True
        )
        markers = [
            each._replace(entries=each.entries + more, following=each.following + new)
            for each, more, new in steps
        ]
        rows = Rows(
            places,
            keys,
            _lives(stamps_ms, stays),
            self._payload(pa.array(edits.values, self._type), numbers),
        ).take(stays | was)
        gone_at, gone = self._of(
            np.array(ended, dtype=np.int64), np.array(ended_hashes, dtype=np.int64)
        )
        none = np.zeros(len(gone), dtype=np.int64)
        tombs = replace(
            gone,
            lives=_lives(none, none != 0),
            payload=self._payload(pa.nulls(len(gone), self._type), none),
        )
        every = np.concatenate([rows.hashes, tombs.hashes])
        return (
            ChangedEntries(
                Rows.gathered([rows, tombs], np.argsort(every, kind="stable")),
                np.concatenate([at[was], gone_at]),
                int((stays & ~was).sum()) - int((~stays & was).sum()) - len(gone),
            ),
            markers,
        )

    def after(
        self,
        changed: ChangedEntries | None,
        ttl_ms: int,
        sweep_at_ms: int | None,
        batch_id: int,
        merge: MergePolicy,
    ) -> Next:
        """The table after a batch.

        Args:
            changed: the batch's changes; None if there are none.
            ttl_ms: the time to live of entries; 0 without one.
            sweep_at_ms, batch_id, merge: as in `Runs.after`.
        """
        runs, rule = self._runs, Policy(ttl_ms=ttl_ms)
        if changed is None:
            changed = ChangedEntries(Rows.empty(runs.schema), np.zeros(0, dtype=np.int64), 0)
        due = runs.due(rule, sweep_at_ms, changed.closed)
        closed = np.concatenate([changed.closed, due])
        live = runs.live + changed.more - len(due)
        return runs.after(changed.rows, closed, live, rule, sweep_at_ms, batch_id, merge)

    def _of(self, owners: Ints, key_hashes: Ints) -> tuple[Ints, Rows]:
        """The entries of lists and maps, and their positions."""
        at, rows = stored_in(self._runs, ranges_at(key_hashes))
        mine = np.isin(_int64(rows.keys[0]), owners) & ~self._runs.are_swept(at, rows)
        return at[mine], rows.take(mine)

    def _numbers(self, rows: Rows) -> Ints:
        return np.asarray(rows.payload[1]) if self._is_map else _int64(rows.keys[1])

    def _places(self, key_hashes: Ints, keys: Sequence[pa.Array]) -> Ints:
        found: Ints = places_in(ranges_at(key_hashes), upper_bits(keys[1], ENTRY_BITS))
        return found

    def _payload(self, values: pa.Array, numbers: Ints) -> list[Field]:
        return [values, numbers] if self._is_map else [values]


def _lives(stamps_ms: Ints, stays: Flags) -> Lives:
    """The times of remaining rows, and of tombstones."""
    never = np.full(len(stays), NEVER_MS)
    written_ms = np.where(stays, stamps_ms, NEVER_MS)
    return Lives(written_ms, written_ms, never, never)


def _counts(of: Ints, flags: Flags, n: int) -> Ints:
    return np.bincount(of[flags], minlength=n)


def _int64(column: pa.Array) -> Ints:
    found: Ints = column.to_numpy(zero_copy_only=False)
    return found
