"""The law of frames: a record's aggregates are those of the last rows or the last span of time."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards.bounded_over import over_kind
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.definition_change import compare_definitions
from idlestate.backends.shards.frames import Frame, FrameUnit
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy, TimeDomain
from tests.backends.law_cases import COLUMNS, ORDERS, Case
from tests.backends.law_runner import (
    assert_equal_ends,
    plain_rows,
    policy_of,
    run_table,
    spec_of,
)
from tests.backends.test_deduplication_law import with_writes_and_order
from tests.backends.test_definition_law import opened
from tests.backends.test_in_order_law import disordered
from tests.compare import assert_aggregates
from tests.lengths import by_cases
from tests.pipeline.test_own_accumulators import Longest
from tests.reference_over import OverReference

ID = "id"
TYPES = {name: kind for name, (kind, _) in (COLUMNS | ORDERS).items()} | {ID: pa.int64()}
OWN = [name for name in COLUMNS if name != "stamp"]  # `plain_rows` takes times for whole ms
ROWS, RANGE = FrameUnit.ROWS, FrameUnit.RANGE
FRAMES = [
    *(Frame(ROWS, size) for size in (None, 1, 2, 3, 5, 8)),
    *(Frame(RANGE, size) for size in (0, 1, 2, 5, 12, 60)),
]


def numbered(case: Case) -> Case:
    """The case with a number in every record, so that rows can be told apart."""
    at, batches = 0, []
    for batch in with_writes_and_order(case).batches:
        batches.append([])
        for record in batch:
            batches[-1].append(replace(record, values=dict(record.values) | {ID: at}))
            at += 1
    return replace(case, batches=batches)


@by_cases("examples", 14)
def test_records_and_states_equal_those_of_the_reference(examples):
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(disordered(), st.sampled_from(FRAMES))
    def law(drawn: Case, frame: Frame) -> None:
        case = numbered(drawn)
        own = [*OWN, *case.order, ID]
        kind = over_kind(case.aggregates, own, TYPES, case.order, frame)
        spec = replace(spec_of(case), kind=kind, in_order=True)
        reference = OverReference(case.rule, case.aggregates, frame.unit, frame.size)
        expected = reference.run([*chain.from_iterable(case.batches)], own)
        lives = reference.lives
        assert case.sweeps[-1] is not None
        lives.sweep(case.sweeps[-1])
        tables, rows, tally = run_table(case, spec, in_form=False)
        found = {row[ID]: row for row in rows}
        assert len(found) == len(rows) == len(expected)
        for record, results in expected:
            row = found[record.values[ID]]
            assert row["key"] == record.key
            assert row["text"] == record.values["text"]
            assert_aggregates(results, row, case.aggregates, (frame, record))
        assert_equal_ends(case, lives, tables, tally)
        last = {record.key: results for record, results in expected if record.key in lives.lives}
        policy = policy_of(case.rule)
        for state in (row for each in tables for row in plain_rows(spec, each.lives(policy))):
            assert_aggregates(last[state["key"]], state, case.aggregates, (frame, state))

    law()


# ---------------------------------------------------------------- by name


NEVER = Policy()


def spec_with(frame, texts=None, types=None):
    types = types or {"v": pa.int64()}
    kind = over_kind(texts or {"n": "count", "s": "sum(v)"}, [*types], types, (), frame)
    return TableSpec((("k", pa.string()),), kind, in_order=True)


def applied(table, records, upto_ms, batch_id, policy=NEVER):
    """The outcome of a batch of (time, value)."""
    times_ms, values = zip(*records, strict=True) if records else ((), ())
    steps = Steps.from_records(
        table.spec, [pa.array(["a"] * len(records), pa.string())],
        np.array(times_ms, dtype=np.int64), {"v": pa.array(values, pa.int64())},
    )  # fmt: skip
    return table.apply(steps, policy, upto_ms, batch_id, MergePolicy())


def sums(frame, batches, policy=NEVER):
    """Of batches of (time, value) the results, by time and value."""
    table, found = ShardTable.empty(spec_with(frame)), []
    for batch_id, (records, upto_ms) in enumerate(batches):
        outcome = applied(table, records, upto_ms, batch_id, policy)
        table = outcome.table
        found += [(row["v"], row["n"], row["s"]) for row in outcome.changes.to_pylist()]
    return found


LAST = [(100, 1), (120, 2), (150, 4), (151, 8)]


@pytest.mark.parametrize(
    ("frame", "batches", "expected"),
    [
        pytest.param(
            Frame(ROWS, 2),
            [(LAST, 0), ([], 200)],
            [(1, 1, 1), (2, 2, 3), (4, 2, 6), (8, 2, 12)],
            id="the last two rows, itself among them",
        ),
        pytest.param(
            Frame(ROWS, 2),
            [(LAST[:2], 0), (LAST[2:], 120), ([], 200)],
            [(1, 1, 1), (2, 2, 3), (4, 2, 6), (8, 2, 12)],
            id="rows of earlier batches",
        ),
        pytest.param(
            Frame(ROWS, 1), [(LAST, 0), ([], 200)],
            [(1, 1, 1), (2, 1, 2), (4, 1, 4), (8, 1, 8)], id="itself alone",
        ),
        pytest.param(
            Frame(RANGE, 50),
            [(LAST, 0), ([], 200)],
            [(1, 1, 1), (2, 2, 3), (4, 3, 7), (8, 3, 14)],
            id="the row exactly a range before counts, a millisecond later it does not",
        ),
        pytest.param(
            Frame(RANGE, 0),
            [([(100, 1), (100, 2), (101, 4)], 0), ([], 101)],
            [(1, 2, 3), (2, 2, 3), (4, 1, 4)],
            id="a range of nothing: the rows of one time",
        ),
        pytest.param(
            Frame(RANGE, 1),
            [([(101, 4), (100, 1)], 0), ([(101, 8)], 100), ([], 101)],
            [(1, 1, 1), (4, 3, 13), (8, 3, 13)],
            id="rows of one time count together, from whichever batch",
        ),
        pytest.param(
            Frame(ROWS, 2),
            [([(100, 3), (100, 1)], 0), ([(100, 2)], 99), ([], 100)],
            [(1, 1, 1), (2, 2, 3), (3, 2, 5)],
            id="rows of one time go by their values, not by arrival",
        ),
        pytest.param(
            Frame(ROWS),
            [([(100, 3), (100, 1)], 0), ([], 100)],
            [(1, 1, 1), (3, 2, 4)],
            id="without a size too",
        ),
    ],
)  # fmt: skip
def test_a_frame_is(frame, batches, expected):
    assert sums(frame, batches) == expected


@pytest.mark.parametrize("size", [None, 2])
def test_order_columns_order_rows_of_one_time_before_the_columns_ahead_of_them(size):
    types = {"v": pa.int64(), "turn": pa.int64()}
    kind = over_kind({"s": "sum(v)"}, [*types], types, ("turn",), Frame(ROWS, size))
    spec = TableSpec((("k", pa.string()),), kind, in_order=True)
    values = {"v": pa.array([1, 2, 4]), "turn": pa.array([3, 2, 1])}
    steps = Steps.from_records(spec, [pa.array(["a"] * 3)], np.full(3, 100), values)
    outcome = ShardTable.empty(spec).apply(steps, NEVER, 100, 0, MergePolicy())
    found = [(row["v"], row["s"]) for row in outcome.changes.to_pylist()]
    assert found == [(4, 4), (2, 6), (1, 7 if size is None else 3)]


@pytest.mark.parametrize("frame", [Frame(ROWS, 3), Frame(RANGE, 100)])
def test_the_end_of_a_life_empties_the_frame(frame):
    batches = [([(100, 1)], 0), ([(149, 2), (199, 4)], 100), ([], 200)]
    assert sums(frame, batches, Policy(ttl_ms=50)) == [(1, 1, 1), (2, 2, 3), (4, 1, 4)]


@pytest.mark.parametrize(("frame", "most"), [(Frame(ROWS, 10), 10), (Frame(RANGE, 30), 31)])
def test_state_holds_the_rows_of_one_frame_and_no_more(frame, most):
    table = ShardTable.empty(spec_with(frame))
    for batch_id in range(40):
        first_ms = 50 * batch_id
        records = [(first_ms + at, at) for at in range(50)]
        table = applied(table, records, first_ms - 1, batch_id).table
    (run,) = table.current.runs
    ((times, *_),) = [run.take(np.arange(len(run)), keys=False).payload]
    assert len(times[0].as_py()) == 8 * most


def test_sums_of_many_overlapping_frames_are_exact():
    values = np.random.default_rng(1).integers(-9, 9, 1000)
    found = sums(Frame(ROWS, 300), [([(at, int(v)) for at, v in enumerate(values)], 0), ([], 1000)])
    expected = [int(values[max(0, at - 299) : at + 1].sum()) for at in range(1000)]
    assert [row[2] for row in found] == expected


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (Frame(ROWS, 2), [["bb", "1"], ["bb", "1"], ["a", "1"], ["ccc", "2"]]),
        (Frame(RANGE, 20), [["bb", "1"], ["bb", "1"], ["bb", "2"], ["ccc", "2"]]),
    ],
)
def test_a_users_accumulator(frame, expected):
    texts = {"longest": f"{Longest.__module__}:Longest(s, v)"}
    spec = spec_with(frame, texts, {"s": pa.string(), "v": pa.int64()})
    table, found = ShardTable.empty(spec), []
    rows = [(100, "bb", 1), (110, "a", None), (120, "", 3), (130, "ccc", 4)]
    for batch_id, part in enumerate([rows[:3], rows[3:], []]):
        times_ms, texts, values = zip(*part, strict=True) if part else ((), (), ())
        steps = Steps.from_records(
            spec, [pa.array(["a"] * len(part), pa.string())], np.array(times_ms, dtype=np.int64),
            {"s": pa.array(texts, pa.string()), "v": pa.array(values, pa.int64())},
        )  # fmt: skip
        outcome = table.apply(steps, NEVER, 110 + 10 * batch_id, batch_id, MergePolicy())
        table = outcome.table
        found += [row["longest"] for row in outcome.changes.to_pylist()]
    assert found == expected


# ---------------------------------------------------------------- definitions


@pytest.mark.parametrize("frame", FRAMES)
def test_a_definition_says_the_frame_again(frame):
    definition = Definition.of(spec_with(frame), TimeDomain.EVENT)
    assert Definition.from_json(definition.to_json()).spec() == spec_with(frame)


def test_another_frame_is_refused():
    before, after = (
        Definition.of(spec_with(frame), TimeDomain.EVENT)
        for frame in (Frame(ROWS, 10), Frame(ROWS, 20))
    )
    (refusal,) = compare_definitions(before, after).refusals
    assert refusal == "kind was over rows 10, is now over rows 20"


def test_columns_in_a_frame_keep_their_type():
    before, after = (
        Definition.of(spec_with(Frame(ROWS, 2), {"n": "count(v)"}, {"v": kind}), TimeDomain.EVENT)
        for kind in (pa.int32(), pa.int64())
    )
    (refusal,) = compare_definitions(before, after).refusals
    assert "aggregate n: column v was int32, is now int64, but lists keep their type" in refusal


def test_an_aggregate_that_is_added_counts_the_rows_of_the_frame():
    """Of columns that no aggregate read before it counts nulls."""
    types = {"v": pa.int64(), "w": pa.string()}
    before = spec_with(Frame(ROWS, 3), {"s": "sum(v)"}, types)
    texts = {"s": "sum(v)", "m": "max(v)", "l": "collect_list(w, 9)"}
    after = spec_with(Frame(ROWS, 3), texts, types)
    takeover = compare_definitions(
        Definition.of(before, TimeDomain.EVENT), Definition.of(after, TimeDomain.EVENT)
    )
    assert takeover.refusals == []
    table = ShardTable.empty(before)
    for batch_id, spec in enumerate([before, takeover.definition.spec()]):
        table = with_spec(table, spec)
        steps = Steps.from_records(
            spec, [pa.array(["a", "a"])], np.array([1, 2]) + 10 * batch_id,
            {"v": pa.array([5, 7]), "w": pa.array(["x", "y"])},
        )  # fmt: skip
        outcome = table.apply(steps, Policy(), 10 * batch_id + 9, batch_id, MergePolicy())
        table = outcome.table
    last = outcome.changes.to_pylist()[-1]
    assert (last["s"], last["m"], last["l"]) == (19, 7, ["x", "y"])


TWO = {"n": "count", "s": "sum(v)"}
MERGES = [MergePolicy(dense=0.0), MergePolicy(dense=9.0, ratio=0.0)]


def redefined(definition, spec):
    """The definition with which the state of another one goes on."""
    return compare_definitions(definition, Definition.of(spec, TimeDomain.EVENT)).definition


def with_spec(table, spec):
    """The table, whose files are opened with the columns of a spec."""
    tables = {"open": table.current, "remembered": table.remembered, **table.others}
    runs = {name: opened(each, spec.tables[name]) for name, each in tables.items()}
    return ShardTable.of(spec, runs, table.seen)


@pytest.mark.parametrize("merge", MERGES, ids=["merged", "not merged"])
def test_a_column_that_no_aggregate_read_for_a_while_returns_empty(merge):
    """Whether runs of the first definition are merged under the second one does not matter."""
    table, definition = None, Definition.of(spec_with(Frame(ROWS, 3)), TimeDomain.EVENT)
    for batch_id, (texts, key, value) in enumerate(
        [(TWO, "a", 5), ({"n": "count"}, "b", 6), (TWO, "a", 7)]
    ):
        definition = redefined(definition, spec_with(Frame(ROWS, 3), texts))
        spec = definition.spec()
        table = ShardTable.empty(spec) if table is None else with_spec(table, spec)
        steps = Steps.from_records(
            spec, [pa.array([key])], np.array([batch_id]), {"v": pa.array([value])}
        )
        outcome = table.apply(steps, NEVER, batch_id, batch_id, merge)
        table = outcome.table
    (row,) = outcome.changes.to_pylist()
    assert (row["n"], row["s"]) == (2, 7)


@pytest.mark.parametrize("between_ms", [9, 19], ids=["untouched", "divided"])
def test_a_waiting_row_has_nothing_of_a_column_that_returns(between_ms):
    """Whether its packet is written again under the second definition does not matter."""
    types = {"v": pa.int64(), "k": pa.string()}
    kinds = (
        over_kind(texts, ["v"], types, (), Frame(ROWS, 3))
        for texts in ({"n": "count", "m": "max(k)"}, {"n": "count"})
    )
    specs = [TableSpec((("k", pa.string()),), kind, in_order=True) for kind in kinds]
    definition = Definition.of(specs[0], TimeDomain.EVENT)
    steps = Steps.from_records(
        specs[0], [pa.array(["a", "a"])], np.array([15, 50]),
        {"v": pa.array([1, 2]), "k": pa.array(["a", "a"])},
    )  # fmt: skip
    table = ShardTable.empty(specs[0]).apply(steps, NEVER, 5, 0, MergePolicy()).table
    for batch_id, (at, upto_ms) in enumerate([(1, between_ms), (0, 50)], 1):
        definition = redefined(definition, specs[at])
        spec = definition.spec()
        outcome = with_spec(table, spec).apply(
            Steps.empty(spec), NEVER, upto_ms, batch_id, MergePolicy()
        )
        table = outcome.table
    row = outcome.changes.to_pylist()[-1]
    assert (row["v"], row["n"], row["m"]) == (2, 2, None)
