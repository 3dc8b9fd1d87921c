"""What is read of a run follows what is asked of it, and nothing is read unasked."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.reading import IN_MEMORY, Touch, together
from idlestate.backends.runs.run_codec import decode_run, encode_run
from idlestate.backends.runs.sorted_search import STRIDE, fences_of, first_at_least
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps import Steps
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
    sink = pa.BufferOutputStream()
    encode_run(run.segments, SPEC.schema, POLICY, sink)
    return Veiled(sink.getvalue())


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
    # A fence's reach of hashes for each key, and some bytes of every column.
    assert veiled.bytes_shown - opened < 3 * (STRIDE + 1) * 8 + 3 * 500
    assert before.current.next_end_ms(POLICY) == table.current.next_end_ms(POLICY)
    assert veiled.bytes_shown - opened < 0.05 * veiled.data.size


SORTED = st.lists(st.integers(-50, 50), max_size=30).map(sorted)


@given(SORTED, st.integers(1, 200), st.lists(st.integers(-60, 60), min_size=1, max_size=5))
def test_a_place_between_fences_is_that_of_a_whole_search(some, repeat, wanted):
    """Also where equal values reach over many fences."""
    values = np.repeat(np.array(some, dtype=np.int64), repeat)
    places = first_at_least(values, fences_of(values), np.array(wanted))
    (found,) = together(IN_MEMORY, [places])
    assert found.tolist() == np.searchsorted(values, wanted).tolist()


@pytest.mark.parametrize("size", [STRIDE - 1, STRIDE, STRIDE + 1, 3 * STRIDE, 9 * STRIDE + 7])
def test_places_at_the_edges_of_fences(size):
    values = np.arange(0, 2 * size, 2)
    for wanted in (-1, 0, 1, 2 * STRIDE - 2, 2 * STRIDE, 2 * size - 2, 2 * size - 1, 2 * size):
        places = first_at_least(values, fences_of(values), np.array([wanted]))
        assert together(IN_MEMORY, [places])[0].tolist() == [np.searchsorted(values, wanted)]


def test_readings_ask_in_step():
    asked = []

    class Source(Veiled):
        def need(self, begins, stops):
            asked.append((begins.tolist(), stops.tolist()))
            super().need(begins, stops)

    source = Source(pa.py_buffer(np.arange(100, dtype=np.int64)))
    column = np.frombuffer(source.data, dtype=np.int64)

    def chain(at, length):
        for _ in range(length):
            yield Touch.rows([column], np.array([at]))
            at = int(column[at]) + 1
        return at

    assert together(source, [chain(0, 3), chain(50, 1)]) == [3, 51]
    assert [len(begins) for begins, _ in asked] == [2, 1, 1]
