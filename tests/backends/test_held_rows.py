"""Packets of waiting rows: what a definition changes, what is written again, what is counted."""

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.run_codec import encode_run
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.shards import packet_codec
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.bounded_over import over_kind
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.definition_change import compare_definitions
from idlestate.backends.shards.frames import Frame, FrameUnit
from idlestate.backends.shards.held_rows import release
from idlestate.backends.shards.packet_codec import KeptPacketError
from idlestate.backends.shards.shard_record import HELD
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy, TimeDomain

TYPES = {"v": pa.int64(), "w": pa.int64()}
KEYS = (("k", pa.string()),)


def spec_of(**aggregates: str) -> TableSpec:
    return TableSpec(KEYS, aggregation(aggregates, TYPES), in_order=True)


COUNTS = spec_of(n="count")


def steps(spec: TableSpec, keys: list[str], times_ms: list[int], **values: list[int]) -> Steps:
    columns = {name: pa.array(column, TYPES[name]) for name, column in values.items()}
    return Steps.from_records(spec, [pa.array(keys, pa.string())], np.array(times_ms), columns)


def nothing_held(spec: TableSpec) -> Runs:
    return Runs(spec.tables[HELD])


def test_rows_that_wait_keep_their_values_when_an_aggregate_is_added() -> None:
    before, after = spec_of(total="sum(v)"), spec_of(total="sum(v)", lowest="min(w)")
    rows = steps(before, ["a", "b", "a"], [10, 20, 30], v=[1, 2, 3])
    _, following = release(nothing_held(before), before, rows, 5, 0, MergePolicy())
    held = following.in_memory().with_schema(after.tables[HELD])
    released, _ = release(held, after, Steps.empty(after), 30, 1, MergePolicy())
    blank = steps(after, ["a", "b", "a"], [10, 20, 30], v=[1, 2, 3], w=[0, 0, 0])
    assert len(released.carried) == len(blank.carried)
    assert [pa.array(each) for each in released.carried[: len(rows.carried)]] == [
        pa.array(each) for each in rows.carried
    ]
    for column, field in zip(after.kind.carried, released.carried, strict=True):
        if column.id not in {each.id for each in before.kind.carried}:
            assert pa.array(field).equals(pa.array(column.blanks(3)))


def test_rows_that_wait_keep_their_values_when_an_aggregate_is_removed() -> None:
    before = spec_of(lowest="min(w)", total="sum(v)")
    rows = steps(before, ["a", "b"], [10, 20], v=[1, 2], w=[7, 8])
    _, following = release(nothing_held(before), before, rows, 5, 0, MergePolicy())
    kept = before.kind.aggregates[1:]
    after = TableSpec(KEYS, type(before.kind)(kept), in_order=True)
    released, _ = release(following.in_memory(), after, Steps.empty(after), 30, 1, MergePolicy())
    ids = [column.id for column in before.kind.carried]
    expected = [rows.carried[ids.index(column.id)] for column in after.kind.carried]
    assert [pa.array(each) for each in released.carried] == [pa.array(each) for each in expected]


def test_rows_that_wait_have_nothing_for_an_aggregate_that_reads_another_type() -> None:
    """Of a frame, of which the record's own columns travel beside those that aggregates read."""
    frame = Frame(FrameUnit.ROWS, 3)

    def defined(kind: pa.DataType, **aggregates: str) -> Definition:
        over = over_kind({"n": "count"} | aggregates, ["v"], TYPES | {"w": kind}, (), frame)
        return Definition.of(TableSpec(KEYS, over, in_order=True), TimeDomain.EVENT)

    before = defined(pa.string(), last="max(w)")
    after = compare_definitions(before, defined(pa.int64(), peak="max(w)")).definition
    was, now = before.spec(), after.spec()
    columns = {"v": pa.array([1, 2]), "w": pa.array(["x", "y"])}
    keys, times = [pa.array(["a", "b"])], np.array([10, 20])
    rows = Steps.from_records(was, keys, times, columns)
    _, following = release(nothing_held(was), was, rows, 5, 0, MergePolicy())
    held = following.in_memory().with_schema(now.tables[HELD])
    released, _ = release(held, now, Steps.empty(now), 30, 1, MergePolicy())
    named = dict(zip([each.id for each in now.carried], released.carried, strict=True))
    found = {name: pa.array(field).to_pylist() for name, field in named.items()}
    assert found.pop("t") == [10, 20]
    assert sorted(found.values(), key=str) == [[1, 2], [None, None]]


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(12, 0), pa.decimal128(14, 2)),
    ],
    ids=str,
)
def test_rows_that_wait_are_ordered_with_new_ones_when_an_order_column_widens(
    narrow: pa.DataType, wide: pa.DataType
) -> None:
    def ordered(kind: pa.DataType, number: int) -> tuple[TableSpec, Steps]:
        spec = TableSpec(KEYS, COUNTS.kind, (("w", kind),), in_order=True)
        order = [pa.array([number], pa.int32()).cast(kind)]
        return spec, Steps.from_records(spec, [pa.array(["a"])], np.array([10]), {}, order=order)

    (before, first), (after, second) = ordered(narrow, 2), ordered(wide, 1)
    _, following = release(nothing_held(before), before, first, 5, 0, MergePolicy())
    released, _ = release(following.in_memory(), after, second, 10, 1, MergePolicy())
    assert released.order == [pa.array([1, 2], pa.int32()).cast(wide)]


def test_rows_of_many_batches_are_released_sorted_once_by_key_and_time() -> None:
    held = nothing_held(COUNTS)
    for batch_id, times_ms in enumerate([[40, 21], [22, 41], [20, 42]]):
        rows = steps(COUNTS, ["a", "b"], times_ms)
        joined = Steps.joined([rows, steps(COUNTS, ["a"], [43 + batch_id])])
        released, following = release(held, COUNTS, joined, 10, batch_id, MergePolicy())
        assert not len(released)
        held = following.in_memory()
    released, following = release(held, COUNTS, Steps.empty(COUNTS), 43, 3, MergePolicy())
    assert (released.keys[0].to_pylist(), released.counts.tolist()) in (
        (["a", "b"], [4, 3]),
        (["b", "a"], [3, 4]),
    )
    times_ms = np.split(released.t_ms, [released.counts[0]])
    assert sorted(each.tolist() for each in times_ms) == [[20, 22, 40, 43], [21, 41, 42]]
    assert following.live == 2


def test_a_row_that_waits_for_many_batches_is_written_few_times() -> None:
    delay, rows_per_batch, batches = 64, 64, 256
    rng = np.random.default_rng(7)
    held, written, released_rows = nothing_held(COUNTS), 0, 0
    for batch_id in range(batches):
        # A batch covers the whole delay; the watermark advances by a 64th of it.
        upto_ms = batch_id * 100
        times_ms = upto_ms + 1 + rng.integers(0, delay * 100, rows_per_batch)
        rows = steps(COUNTS, [f"{at}" for at in range(rows_per_batch)], times_ms.tolist())
        released, following = release(held, COUNTS, rows, upto_ms, batch_id, MergePolicy())
        written += int(np.sum(following.fresh.payload[0]))
        released_rows += len(released.t_ms)
        held = following.in_memory()
        assert held.live + released_rows == rows_per_batch * (batch_id + 1)
    assert written < 7 * rows_per_batch * batches


def test_rows_that_another_version_left_waiting_are_refused_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = steps(COUNTS, ["a", "b"], [10, 20])
    _, following = release(nothing_held(COUNTS), COUNTS, rows, 5, 0, MergePolicy())
    monkeypatch.setattr(packet_codec, "_VERSION", b"next")
    with pytest.raises(KeptPacketError, match=r"stored in packet format .*; use the version of"):
        release(following.in_memory(), COUNTS, Steps.empty(COUNTS), 10, 1, MergePolicy())


def test_a_run_of_packets_counts_their_rows() -> None:
    rows = steps(COUNTS, ["a", "b", "c"], [10, 20, 30])
    _, following = release(nothing_held(COUNTS), COUNTS, rows, 10, 0, MergePolicy())
    sink = pa.BufferOutputStream()
    assert encode_run(following.segments(), COUNTS.tables[HELD], Policy(), sink)[0] == 2
    assert following.live == 2
    assert len(following.in_memory().runs[0]) == 1
