"""What a merge copies as it is, what is indexed of it, and what a look-up keeps in memory."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.sweeps import timed
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.runs.table_schema import Column, TableSchema
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS

KEYS = (("k", pa.int64()),)
ONE, TWO = (Column(name, pa.nulls(1, pa.int64())) for name in ("one", "two"))
EVERYTHING = MergePolicy(dense=0)
NONE = np.zeros(0, dtype=np.int64)


def rows(keys: Sequence[int], values: Sequence[pa.Array], wakes_ms: int | None = None) -> Rows:
    hashes = np.array(keys)
    began, never = np.zeros(len(hashes), dtype=np.int64), np.full(len(hashes), NEVER_MS)
    wakes = None if wakes_ms is None else np.full(len(hashes), wakes_ms)
    return Rows(hashes, [pa.array(keys)], Lives(began, began, never, never, wakes), list(values))


def after(runs: Runs, fresh: Rows, batch_id: int, merge: MergePolicy = EVERYTHING) -> Runs:
    live = runs.live + len(fresh)
    return runs.after(fresh, NONE, live, timed(Policy()), None, batch_id, merge).in_memory()


def test_a_dropped_column_that_returns_is_blank_after_a_merge_too():
    both = TableSchema(KEYS, (ONE, TWO))
    old = pa.array([10, None, 30])
    runs = after(Runs(both), rows([1, 2, 3], [old, old]), 0)
    runs = runs.with_schema(TableSchema(KEYS, (ONE,))).with_schema(both)
    for batch_id, keys in ((1, [1, 2, 3]), (2, [1, 2, 3, 4])):
        one, two = (field.to_pylist() for field in runs.take(np.arange(len(keys))).payload)
        assert (one[:3], two[:3]) == (old.to_pylist(), [None] * 3)
        runs = after(runs, rows([keys[-1] + 1], [pa.array([1]), pa.array([1])]), batch_id)
        assert len(runs.runs) == 1


@pytest.mark.parametrize("batches", [1, 2])
def test_lives_that_never_end_are_in_no_due_index(batches: int):
    runs = Runs(TableSchema(KEYS))
    for at in range(batches):
        runs = after(runs, rows(range(at * 100, at * 100 + 100), [], FOREVER_MS), at)
    (run,) = runs.runs
    assert len(run) == batches * 100
    assert [segment.due_rows for segment in run.stored.segments] == [0]
    assert runs.next_end_ms(timed(Policy())) == FOREVER_MS


@pytest.mark.parametrize("segment_rows", [1000, 100])
def test_a_look_up_keeps_the_hashes_of_a_single_segment_only(segment_rows: int):
    merge = MergePolicy(dense=0, segment_rows=segment_rows)
    runs = after(Runs(TableSchema(KEYS)), rows(range(1000), []), 0, merge)
    (run,) = runs.runs
    runs.look_up(np.arange(500), [pa.array(range(500))])
    parts = vars(run.stored).values()
    large = [part.nbytes for part in parts if isinstance(part, np.ndarray) and len(part) >= 1000]
    own = 8 * 1000 if segment_rows == 1000 else 0
    assert run.stored.kept_bytes == own
    assert sum(size for size in large if size == 8 * 1000) == own
