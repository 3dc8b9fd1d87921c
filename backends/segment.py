"""A segment: up to some 260,000 rows of a run with their filter and due index, as one Arrow batch.

Layout, run format version 2: a record batch of one row whose columns are lists, so that columns
may differ in length and each stays a slice of the mapped file. `hash` int64, ascending; the key
columns `k0` ...; `created`, `written`, `read`, `armed` int64 milliseconds (empty where they say
nothing: `created` equal to `written` throughout, never read, never armed); `a<i>_<j>` field j of
aggregate i; `due` uint32 and `code` uint16, the due index, with `scale` its base and shift (int64);
`filter` uint64. The last four are empty where the segment has no index or no filter.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.due_index import DueIndex
from idlestate.backends.fields import from_arrow, to_arrow
from idlestate.backends.filter import Filter
from idlestate.backends.keys import Keys, look_up, take_keys
from idlestate.backends.rows import Rows
from idlestate.backends.steps import TableSpec
from idlestate.retention.lives import Lives
from idlestate.retention.policy import Policy
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows in order of hash, at least one; equal hashes never lie in two segments of a run."""

    rows: Rows
    due: DueIndex | None
    """None where the policy ends nothing."""
    filter: Filter | None
    """None in the oldest run: nearly every key that is looked for there is there."""

    @classmethod
    def of(cls, rows: Rows, policy: Policy, *, with_filter: bool) -> "Segment":
        """The segment of these rows, indexed by their deadlines under a policy."""
        due = None
        if not policy.is_unbounded:
            gone = rows.are_tombstones
            if gone.any():
                real = np.flatnonzero(~gone)
                due = DueIndex.of(rows.lives.take(real).ends(policy).deadline_ms, real)
            else:
                due = DueIndex.of(rows.lives.ends(policy).deadline_ms)
        return cls(rows, due, Filter.of(rows.hashes) if with_filter else None)

    def __len__(self) -> int:
        return len(self.rows)

    def look_up(self, hashes: Ints, keys: Keys) -> Ints:
        """The row of each key, -1 where there is none; hashes within the segment's."""
        if self.filter is None:
            return look_up(hashes, keys, self.rows.hashes, self.rows.keys)
        found = np.full(len(hashes), -1)
        wanted = np.flatnonzero(self.filter.may_hold(hashes))
        if len(wanted):
            found[wanted] = look_up(
                hashes[wanted], take_keys(keys, wanted), self.rows.hashes, self.rows.keys
            )
        return found

    def encode(self) -> pa.RecordBatch:
        """The segment as its record batch."""
        rows, lives, due = self.rows, self.rows.lives, self.due
        none = np.zeros(0, dtype=np.int64)
        columns: dict[str, Any] = {"hash": rows.hashes}
        columns |= {f"k{at}": column for at, column in enumerate(rows.keys)}
        is_plain = np.array_equal(lives.created_at_ms, lives.written_at_ms)
        columns["created"] = none if is_plain else lives.created_at_ms
        columns["written"] = lives.written_at_ms
        for name, times in (("read", lives.read_at_ms), ("armed", lives.armed_at_ms)):
            columns[name] = times if (times != NEVER_MS).any() else none
        for i, fields in enumerate(rows.fields):
            columns |= {f"a{i}_{j}": field for j, field in enumerate(fields)}
        columns["due"] = due.rows if due else none.astype(np.uint32)
        columns["code"] = due.codes if due else none.astype(np.uint16)
        columns["scale"] = np.array([due.base_ms, due.shift]) if due else none
        columns["filter"] = self.filter.blocks if self.filter else none.astype(np.uint64)
        return pa.RecordBatch.from_pydict(
            {name: _listed(to_arrow(column)) for name, column in columns.items()}
        )

    @classmethod
    def decode(cls, batch: pa.RecordBatch, spec: TableSpec) -> "Segment":
        """Read it back; columns stay mapped."""

        def column(name: str) -> pa.Array:
            return batch.column(name).flatten()

        def numbers(name: str) -> Any:
            return column(name).to_numpy()

        hashes, written = numbers("hash"), numbers("written")

        def times(name: str, otherwise: Ints) -> Ints:
            found: Ints = numbers(name)
            return found if len(found) else otherwise

        never = np.broadcast_to(np.int64(NEVER_MS), len(hashes))
        lives = Lives(
            times("created", written), written, times("read", never), times("armed", never)
        )
        fields = [
            [
                from_arrow(column(f"a{i}_{j}"), like)
                for j, like in enumerate(aggregate.accumulator.field_types)
            ]
            for i, aggregate in enumerate(spec.aggregates)
        ]
        rows = Rows(hashes, [column(f"k{at}") for at in range(len(spec.keys))], lives, fields)
        scale, blocks = numbers("scale"), numbers("filter")
        due = (
            DueIndex(numbers("due"), numbers("code"), int(scale[0]), int(scale[1]))
            if len(scale)
            else None
        )
        held = Filter(blocks, int(hashes[0]), int(hashes[-1])) if len(blocks) else None
        return cls(rows, due, held)


def _listed(values: pa.Array) -> pa.Array:
    """The array as the one row of a list column."""
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
