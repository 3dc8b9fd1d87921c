"""What is read of a run follows what is asked of it, and nothing is read unasked."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.backends.runs.block_checksums import BLOCK_BYTES
from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.run_codec import decode_run
from idlestate.backends.runs.segment import fence_rows
from idlestate.backends.runs.sorted_search import between_fences, first_at_least
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy
from tests.backends.veiled import Veiled

SPEC = TableSpec(
    keys=(("k", pa.string()), ("n", pa.int32())),
    kind=aggregation(
        {"n": "count", "total": "sum(d)", "last": "last(s)", "yes": "max(b)"},
        {"d": pa.decimal128(10, 2), "s": pa.string(), "b": pa.bool_()},
    ),
)
POLICY = Policy(idle_min_ms=1000, idle_max_ms=1000, min_gap_ms=0)
KEYS = 40_000


def steps(ids: np.ndarray, t_ms: np.ndarray) -> Steps:
    names = pa.array([f"key {'x' * (at % 7)}{at}" for at in ids.tolist()])
    texts = [None if at % 5 == 0 else f"text {at}" for at in ids.tolist()]
    inputs = {
        "d": pa.array(ids.tolist(), pa.decimal128(10, 2)),
        "s": pa.array(texts, pa.string()),
        "b": pa.array([None if at % 3 == 0 else at % 2 == 0 for at in ids.tolist()], pa.bool_()),
    }
    return Steps.from_records(SPEC, [names, pa.array(ids, pa.int32())], t_ms, inputs)


@pytest.fixture(scope="module", params=[KEYS, 9_000], ids=["one segment", "five segments"])
def table(request):
    ids = np.arange(KEYS)
    merge = MergePolicy(segment_rows=request.param)
    return ShardTable.empty(SPEC).apply(steps(ids, ids % 1000), POLICY, None, 0, merge).table


@pytest.fixture
def veiled(table):
    (run,) = table.current.runs
    return Veiled(run.source.data)


def of_file(table, veiled):
    current = table.current
    run = decode_run(veiled, SPEC.schema, 0)
    return ShardTable(SPEC, type(current)(SPEC.schema, (run,), current.sweeps, current.live))


@pytest.mark.parametrize("count", [1, 3, 100, KEYS])
def test_a_batch_on_a_file_gives_what_it_gives_in_memory(table, veiled, count):
    some = np.linspace(0, KEYS - 1, count).astype(np.int64)
    batch = steps(some, np.full(count, 1500))
    apart = MergePolicy(ratio=0, dense=1e9, space=1e9)
    expected, found = (
        each.apply(batch, POLICY, 1200, 1, apart) for each in (table, of_file(table, veiled))
    )
    assert found.changes.equals(expected.changes)
    assert found.tally == expected.tally


def test_few_keys_read_few_bytes(table, veiled):
    batch = steps(np.array([5, 17_000, 39_999]), np.full(3, 500))
    before = of_file(table, veiled)
    opened = veiled.bytes_shown
    at, rows = before.current.look_up(batch.hashes, batch.keys)
    assert (at >= 0).all()
    assert len(rows) == 3
    assert opened < 16_000
    # The rows of one block for each key, and its texts.
    assert veiled.bytes_shown - opened < 3 * BLOCK_BYTES + 3 * 200
    assert before.current.next_end_ms(POLICY) == table.current.next_end_ms(POLICY)
    assert veiled.bytes_shown - opened < 0.05 * veiled.data.size


@pytest.mark.parametrize("columns", [1, 30])
def test_a_look_up_reads_a_block_or_two_however_many_columns_there_are(columns):
    spec = TableSpec(
        (("n", pa.int64()),), aggregation({f"n{at}": "count" for at in range(columns)}, {})
    )
    keys, every = 3_000, np.arange(3_000)
    times = np.zeros(keys, dtype=np.int64)
    batch = Steps.from_records(spec, [pa.array(every)], times, {})
    merge = MergePolicy(segment_rows=1_000)
    (whole,) = ShardTable.empty(spec).apply(batch, POLICY, None, 0, merge).table.current.runs
    blocks = []
    for at in range(0, keys, 60):
        read = set()

        class Source(Veiled):
            def need(self, begins, stops, read=read):
                ends = zip(begins // BLOCK_BYTES, (stops - 1) // BLOCK_BYTES, strict=True)
                read |= {block for one, two in ends for block in range(one, two + 1)}
                super().need(begins, stops)

        run = decode_run(Source(whole.source.data), spec.schema, 0)
        read.clear()
        (row,) = run.look_up(batch.hashes[at : at + 1], [batch.keys[0][at : at + 1]])
        assert row == at
        assert len(run.take(np.array([row]), keys=True)) == 1
        blocks.append(len(read))
    assert max(blocks) <= 2
    assert sum(blocks) < 1.3 * len(blocks)


SORTED = st.lists(st.integers(-50, 50), max_size=30).map(sorted)


@given(
    SORTED,
    st.integers(1, 20),
    st.integers(1, 50),
    st.lists(st.integers(-60, 60), min_size=1, max_size=5),
)
def test_a_place_between_fences_is_that_of_a_whole_search(some, repeat, stride, wanted):
    """Also where equal values reach over many fences."""
    values = np.repeat(np.array([-50, *some], dtype=np.int64), repeat)
    places = np.arange(0, len(values), stride)
    begins, stops = between_fences(values[places], places, len(values), np.array(wanted))
    assert (stops - begins <= stride).all()
    found = first_at_least(values, begins, stops, np.array(wanted))
    assert found.tolist() == np.searchsorted(values, wanted).tolist()


@given(st.integers(0, 9_000), st.integers(1, 300), st.sampled_from([8, 24, 48, 4096, 5000]))
def test_the_rows_between_two_fences_begin_in_one_block(begin, rows, width):
    fences = fence_rows(begin, rows, width).tolist()
    blocks = [(begin + row * width) // BLOCK_BYTES for row in range(rows)]
    assert fences == [row for row in range(rows) if row == 0 or blocks[row] != blocks[row - 1]]
