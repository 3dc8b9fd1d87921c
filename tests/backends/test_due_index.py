"""The due index finds every row that it should, and few others."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.backends.runs.byte_source import Whole
from idlestate.backends.runs.due_index import STRIDE, DueIndex, DueIndices, fence_of
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS

TIMES = st.one_of(
    st.integers(0, 100), st.integers(0, 10**7), st.sampled_from([NEVER_MS + 1, 2**62, FOREVER_MS])
)


def index_of(*segments):
    """The index of a run whose segments have these deadlines."""
    parts = [DueIndex.of(np.array(deadlines, dtype=np.int64)) for deadlines in segments]
    return read_back(parts, [len(deadlines) for deadlines in segments])


def read_back(parts, sizes):
    counts = np.array([len(part.rows) for part in parts])
    begins = np.cumsum(counts) - counts
    rows = np.concatenate([part.rows for part in parts])
    codes = np.concatenate([part.codes for part in parts])
    fences = [part.codes[::STRIDE] if len(part.codes) else np.zeros(1) for part in parts]
    after_rows = 2 * len(rows)
    places = [
        after_rows + begin + STRIDE * np.arange(len(some))
        for begin, some in zip(begins.tolist(), fences, strict=True)
    ]
    numbered = [fence_of(np.array(at), some.astype(np.int64)) for at, some in enumerate(fences)]
    return DueIndices(
        Whole(pa.py_buffer(rows.tobytes() + codes.tobytes())),
        sum(sizes),
        np.cumsum(sizes) - sizes,
        counts,
        begins,
        after_rows + begins,
        np.array([part.base_ms for part in parts]),
        np.array([part.shift for part in parts]),
        np.concatenate(numbered),
        np.concatenate(places),
    )


@given(st.lists(TIMES, max_size=40), TIMES, TIMES)
def test_every_row_due_in_a_span_is_found(deadlines, one, other):
    after, upto = min(one, other), max(one, other)
    for segments in ([deadlines], [deadlines[:7], deadlines[7:]], [[], deadlines]):
        index = index_of(*segments)
        found = index.between(after, upto).tolist()
        assert len(set(found)) == len(found)
        assert {row for row, at in enumerate(deadlines) if after < at <= upto} <= set(found)
        everything = index.between(NEVER_MS, FOREVER_MS).tolist()
        assert everything == list(range(len(deadlines)))


@given(st.lists(TIMES, max_size=40), TIMES)
def test_what_follows_is_never_late(deadlines, after):
    for segments in ([deadlines], [deadlines[:7], deadlines[7:]], [deadlines, []]):
        rows, next_ms = index_of(*segments).following(after)
        first = min((at for at in deadlines if at > after), default=FOREVER_MS)
        assert min([deadlines[row] for row in rows if deadlines[row] > after] + [next_ms]) <= first
        assert next_ms > after or next_ms == FOREVER_MS


def test_a_span_gives_hardly_more_rows_than_are_due_in_it():
    deadlines = np.random.default_rng(1).integers(0, 10**9, 100_000)
    index = index_of(deadlines)
    found = index.between(10**8, 2 * 10**8)
    due = int(((deadlines > 10**8) & (deadlines <= 2 * 10**8)).sum())
    assert due <= len(found) <= due + 20
    assert len(index.between(5 * 10**8, 5 * 10**8)) <= 10


@pytest.mark.parametrize("one_in", [1, 20, 50])
def test_rows_ascend_be_they_few_or_all(one_in):
    deadlines = np.random.default_rng(one_in).permutation(1_000)
    found = index_of(deadlines).between(-1, 1_000 // one_in)
    assert found.tolist() == np.flatnonzero(deadlines <= 1_000 // one_in).tolist()


@pytest.mark.parametrize("rows", [None, [3, 5]])
def test_rows_keep_their_numbers(rows):
    named = None if rows is None else np.array(rows)
    index = read_back([DueIndex.of(np.array([20, 10]), named)], [6])
    expected = [0, 1] if rows is None else rows
    assert index.between(0, 15).tolist() == [expected[1]]
    assert index.between(15, 30).tolist() == [expected[0]]


def test_a_segment_with_rows_that_are_not_indexed_keeps_their_numbers():
    parts = [DueIndex.of(np.array([1, 2])), DueIndex.of(np.array([10, 20]), np.array([1, 3]))]
    assert read_back(parts, [2, 4]).between(0, 30).tolist() == [0, 1, 3, 5]
