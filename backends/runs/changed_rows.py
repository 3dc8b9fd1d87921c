"""The changes to write for a table whose rows never expire on their own."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Flags, Positions
from idlestate.backends.runs.byte_index import ABSENT
from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import Next, Runs
from idlestate.retention.lives import Lives
from idlestate.retention.policy import Policy
from idlestate.retention.rules import NEVER_MS

NO_POLICY: Final = Policy()
"""Nothing expires on its own, because the layer above tables handles time to live."""


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """The changes of a table to write: rows in order of place, and the rows that they replace."""

    rows: Rows
    closed: Positions
    live: int

    @classmethod
    def nothing(cls, runs: Runs) -> "WrittenRows":
        """No row changed."""
        return cls(Rows.empty(runs.schema), np.zeros(0, dtype=np.int64), runs.live)

    def after(self, runs: Runs, version: int, merge: MergePolicy) -> Next:
        """The runs after these changes."""
        return runs.after(self.rows, self.closed, self.live, NO_POLICY, None, version, merge)


def changed_rows(
    stored: Runs,
    at: Positions,
    gone: Flags,
    keys: pa.BinaryArray,
    columns: Iterable[pa.BinaryArray],
    places: Positions,
) -> WrittenRows | None:
    """The changes to write for changed rows; None if there are none.

    Args:
        stored: the runs below.
        at: the position of each row, or `ABSENT`.
        gone: whether each row is removed.
        keys: the rows' keys.
        columns: their current data.
        places: their places in a run.
    """
    was = at != ABSENT
    kept = was | ~gone
    if not kept.any():
        return None
    live = stored.live + int((~gone & ~was).sum()) - int((gone & was).sum())
    keys = keys.filter(pa.array(kept))
    payload = [each.filter(pa.array(kept)) for each in columns]
    return WrittenRows(rows_of(places[kept], keys, gone[kept], payload), at[was], live)


def rows_of(
    places: Positions, keys: pa.BinaryArray, gone: Flags, payload: Iterable[pa.Array] = ()
) -> Rows:
    """Rows for a run, in order of place; tombstones for removed keys."""
    order = np.argsort(places, kind="stable")
    at = pa.array(order)
    written = np.where(gone[order], NEVER_MS, 0)
    never = np.broadcast_to(np.int64(NEVER_MS), len(order))
    lives = Lives(written, written, never, never)
    return Rows(places[order], [keys.take(at)], lives, [each.take(at) for each in payload])
