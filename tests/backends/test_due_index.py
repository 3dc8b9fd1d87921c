"""The due index finds every row that it should, and few others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.backends.runs.due_index import DueIndex
from idlestate.backends.runs.reading import IN_MEMORY, together
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS

TIMES = st.one_of(
    st.integers(0, 100), st.integers(0, 10**7), st.sampled_from([NEVER_MS + 1, 2**62, FOREVER_MS])
)


def index_of(deadlines):
    return DueIndex.of(np.array(deadlines, dtype=np.int64))


def read(reading):
    (found,) = together(IN_MEMORY, [reading])
    return found


@given(st.lists(TIMES, max_size=40), TIMES, TIMES)
def test_every_row_due_in_a_span_is_found(deadlines, one, other):
    after, upto = min(one, other), max(one, other)
    found = read(index_of(deadlines).between(after, upto)).tolist()
    assert len(set(found)) == len(found)
    assert {row for row, at in enumerate(deadlines) if after < at <= upto} <= set(found)
    everything = read(index_of(deadlines).between(NEVER_MS, FOREVER_MS)).tolist()
    assert sorted(everything) == list(range(len(deadlines)))


@given(st.lists(TIMES, max_size=40), TIMES)
def test_what_follows_is_never_late(deadlines, after):
    rows, next_ms = read(index_of(deadlines).following(after))
    first = min((at for at in deadlines if at > after), default=FOREVER_MS)
    assert min([deadlines[row] for row in rows if deadlines[row] > after] + [next_ms]) <= first
    assert next_ms > after or next_ms == FOREVER_MS


def test_a_span_gives_hardly_more_rows_than_are_due_in_it():
    deadlines = np.random.default_rng(1).integers(0, 10**9, 100_000)
    index = DueIndex.of(deadlines)
    found = read(index.between(10**8, 2 * 10**8))
    due = int(((deadlines > 10**8) & (deadlines <= 2 * 10**8)).sum())
    assert due <= len(found) <= due + 20
    assert len(read(index.between(5 * 10**8, 5 * 10**8))) <= 10


@pytest.mark.parametrize("rows", [None, [3, 5]])
def test_rows_keep_their_numbers(rows):
    named = None if rows is None else np.array(rows)
    index = DueIndex.of(np.array([20, 10]), named)
    expected = [0, 1] if rows is None else rows
    assert read(index.between(0, 15)).tolist() == [expected[1]]
    assert read(index.between(15, 30)).tolist() == [expected[0]]
