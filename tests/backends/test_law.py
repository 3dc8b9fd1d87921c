"""The law of batches: the table equals the reference, however a sequence is cut into batches."""

from dataclasses import replace
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.sums import SumOverflowError
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import FOREVER_MS, Policy
from tests.backends.law_cases import KEYS, ROW_VALUES, Case, cases
from tests.backends.law_runner import assert_equal_runs, plain_rows, restored, run_reference
from tests.frequent import assert_frequent
from tests.lengths import by_cases
from tests.reference import ON_READ_AND_WRITE, Record, Rule

MUST_SEE = ("closed_in_its_batch", "returning_keys", "rearms", "skipped_rearms", "at_deadline")
SHARE = 0.2
MERGE = MergePolicy()
ONE_KEY = (("k", pa.string()),)


@by_cases("examples", 36)
@pytest.mark.parametrize("is_sorted", [True, False], ids=["as_a_pipeline_sorts", "array_or_list"])
def test_table_equals_reference(is_sorted, examples):
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(cases(is_sorted=is_sorted))
    def law(case: Case) -> None:
        assert_equal_runs(case, run_reference(case))

    law()


@pytest.mark.long
@pytest.mark.parametrize("is_sorted", [True, False], ids=["as_a_pipeline_sorts", "array_or_list"])
def test_cases_turn_at_every_corner(is_sorted):
    def corners(case: Case) -> set[str]:
        return {name for name, count in run_reference(case).counts.items() if count}

    assert_frequent(corners, dict.fromkeys(MUST_SEE, SHARE), cases(is_sorted=is_sorted))


# ---------------------------------------------------------------- by name

IDLE = Rule(idle_min_ms=30, idle_max_ms=45, remember_ms=FOREVER_MS)
IDLE_READS = replace(IDLE, update=ON_READ_AND_WRITE)
TTL, TTL_READS = Rule(ttl_ms=10), Rule(ttl_ms=10, ttl_update=ON_READ_AND_WRITE)
IDLE_TTL, IDLE_READS_TTL = replace(IDLE, ttl_ms=10), replace(IDLE_READS, ttl_ms=10)
TIE = Rule(idle_min_ms=5, idle_max_ms=10, ttl_ms=10, max_lifetime_ms=10)
OFF, LONG = Rule(), Rule(idle_min_ms=100, idle_max_ms=200)


def batch(text):
    """Records of one batch: `a100 b120?` is a write of a at 100 and a read of b at 120."""
    words = [(word.rstrip("?"), word.endswith("?")) for word in text.split()]
    return [
        Record((word[0],), int(word[1:]), ROW_VALUES[0], read=read, order=(1,))
        for word, read in words
    ]


def named_case(
    rule, batches, sweeps, *, is_sorted, aggregates, change=None, order=(), merges=(MERGE,)
):
    return Case(
        key_kind="string",
        aggregates=aggregates,
        order=order,
        rule=rule,
        changes=(change,) if change else (),
        batches=batches,
        sweeps=sweeps,
        reference_sweeps=True,
        is_sorted=is_sorted,
        at_batch_time=False,
        weak_hash=False,
        parts=1,
        shards=1,
        restores=(True,),
        merges=merges,
    )


@pytest.mark.parametrize(
    ("is_sorted", "order"),
    [(False, ()), (True, ()), (True, ("seq",))],
    ids=["as given", "sorted", "sorted with an order column"],
)
@pytest.mark.parametrize(
    ("rule", "batches", "sweep", "change"),
    [
        pytest.param(IDLE, ["a100 a144"], None, None, id="write one before the deadline"),
        pytest.param(IDLE, ["a100 a145"], None, None, id="write at the deadline"),
        pytest.param(IDLE, ["a100 a146"], None, None, id="write one after the deadline"),
        pytest.param(IDLE, ["a100", "a145"], None, None, id="write at the deadline, next batch"),
        pytest.param(IDLE, ["a100 a115 a145"], None, None, id="no re-arming at the edge of min"),
        pytest.param(IDLE, ["a100 a116 a145"], None, None, id="re-arming one past the edge"),
        pytest.param(IDLE, ["a100", "a115", "a144"], None, None, id="the edge over batches"),
        pytest.param(IDLE, ["a100"], 144, None, id="sweep one before the deadline"),
        pytest.param(IDLE, ["a100"], 145, None, id="sweep at the deadline"),
        pytest.param(IDLE, ["a100", "b110"], 145, None, id="sweep of a key not in the batch"),
        pytest.param(IDLE, ["a100 a300 a600"], None, None, id="many windows in one batch"),
        pytest.param(IDLE, ["a100? b100"], None, None, id="read of nothing"),
        pytest.param(IDLE, ["a100 a145?"], 144, None, id="read at the deadline"),
        pytest.param(IDLE, ["a100 a144? a150"], None, None, id="read that does not count"),
        pytest.param(IDLE_READS, ["a100 a144? a150"], None, None, id="read that counts"),
        pytest.param(IDLE_READS, ["a100", "a144?", "a150"], None, None, id="read in its own batch"),
        pytest.param(IDLE, ["a100? a100"], None, None, id="write and read in one step"),
        pytest.param(IDLE, ["a100", "a90", "a140"], None, None, id="time runs back"),
        pytest.param(OFF, ["a100", "a110", "a120"], 146, (1, IDLE), id="never armed, then armed"),
        pytest.param(OFF, ["a100", "b110"], 145, (1, IDLE), id="never armed, not touched"),
        pytest.param(IDLE, ["a100", "a110"], 10**6, (1, OFF), id="rule switched off"),
        pytest.param(IDLE, ["a100", "a110", "a219"], 300, (1, LONG), id="longer windows"),
        pytest.param(LONG, ["a100", "a110", "a140"], 155, (1, IDLE), id="shorter windows"),
        pytest.param(LONG, ["a100 a180", "b180"], 210, (1, IDLE), id="new min after an access"),
        pytest.param(IDLE, ["a100 a145 a190"], 235, None, id="returning_keys"),
        pytest.param(TTL, ["a100 a105?"], 109, None, id="sweep one before ttl"),
        pytest.param(TTL, ["a100 a105?"], 110, None, id="sweep at ttl, read in the batch"),
        pytest.param(TTL, ["a100 a105?", "b106"], 110, None, id="sweep at ttl, read before"),
        pytest.param(TTL, ["a100 a105? a110"], None, None, id="write at ttl after a read"),
        pytest.param(TTL_READS, ["a100 a105?"], 114, None, id="sweep one before ttl of a read"),
        pytest.param(TTL_READS, ["a100 a105?"], 115, None, id="sweep at ttl of a read"),
        pytest.param(TTL_READS, ["a100 a105?", "b106"], 114, None, id="ttl of a read, later"),
        pytest.param(TTL_READS, ["a100 a105? a114 a124"], None, None, id="write within ttl"),
        pytest.param(IDLE_TTL, ["a100 a105?", "b106"], 110, None, id="ttl before idle"),
        pytest.param(IDLE_READS_TTL, ["a100 a105?", "b106"], 110, None, id="reads for idle alone"),
        pytest.param(IDLE_READS_TTL, ["a100 a105? a110"], None, None, id="and in one batch"),
        pytest.param(TIE, ["a100"], 110, None, id="a tie swept"),
        pytest.param(TIE, ["a100 a110"], None, None, id="a tie closed by a write"),
        pytest.param(TIE, ["a100 a109 a110"], 120, None, id="lifetime whatever happens"),
    ],
)
def test_table_equals_reference_by_name(rule, batches, sweep, change, is_sorted, order):
    """Cases that random ones may miss, each as one run of the law."""
    case = named_case(
        rule,
        [batch(each) for each in batches],
        [None] * (len(batches) - 1) + [sweep],
        change=change,
        is_sorted=is_sorted,
        order=order,
        aggregates={"n": "count", "first": "first(i64)"},
    )
    assert_equal_runs(case, run_reference(case))


def test_keys_with_one_hash_are_told_apart_in_whatever_order_they_come():
    draw, keys = Random(1), list("abcdefghijklmnop")
    batches = []
    for at in range(100):
        named = draw.sample(keys, draw.randint(1, len(keys)))
        batches.append(batch(" ".join(f"{key}{100 + at}" for key in named)))
    plain = named_case(OFF, batches, [None] * 100, is_sorted=False, aggregates={"n": "count"})
    case = replace(plain, weak_hash=True)
    assert_equal_runs(case, run_reference(case))


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("cuts", [1, 7])
@pytest.mark.parametrize(
    "rule",
    [
        IDLE,
        replace(IDLE_READS, ttl_ms=60, ttl_update=ON_READ_AND_WRITE),
        replace(IDLE, ttl_ms=40, max_lifetime_ms=300),
    ],
    ids=["idle", "idle and ttl of reads", "all"],
)
def test_table_equals_reference_on_hot_keys(rule, cuts, is_sorted):
    """Thousands of records, most of one key, over hundreds of windows in one batch."""
    chance = Random(f"{rule} {cuts} {is_sorted}")
    t_ms, records = 0, []
    for _ in range(4000):
        t_ms += chance.choice([0, 0, 1, 2, 5, 14, 15, 16, 29, 30, 31, 44, 45, 46])
        own_ms = t_ms if is_sorted else t_ms - chance.choice([0, 0, 0, 3, 50])
        key = chance.choice(["a", "a", "a", "b", "b", chr(99 + chance.randrange(60))])
        read = chance.random() < 0.3
        records.append(Record((key,), own_ms, ROW_VALUES[chance.randrange(24)], read=read))
    size = -(-len(records) // cuts)
    case = named_case(
        rule,
        [records[at : at + size] for at in range(0, len(records), size)],
        [None] * (cuts - 1) + [t_ms],
        is_sorted=is_sorted,
        aggregates={"n": "count", "s": "sum(i64)", "last": "last(text)", "top": "max_by(f64, i32)"},
    )
    assert_equal_runs(case, run_reference(case))


def test_a_batch_without_records_changes_nothing():
    spec = TableSpec(keys=ONE_KEY, kind=aggregation({"n": "count"}, {}))
    empty = Steps.empty(spec)
    policy = Policy(idle_min_ms=30, idle_max_ms=45, min_gap_ms=0)
    outcome = ShardTable.empty(spec).apply(empty, policy, 100, 0, MERGE)
    assert (len(outcome.table), outcome.changes.num_rows) == (0, 0)


def test_returning_keys_tell_apart_keys_that_spark_hashes_alike():
    """Spark's hash passes over nulls: (a, null) and (null, a) hash to one number."""
    spec = TableSpec(
        keys=(("one", pa.string()), ("two", pa.string())), kind=aggregation({"n": "count"}, {})
    )
    policy = Policy(idle_min_ms=10, idle_max_ms=10, remember_ms=FOREVER_MS, min_gap_ms=0)

    def steps(key, t_ms):
        return Steps.from_records(
            spec, [pa.array([part], pa.string()) for part in key], np.array([t_ms]), {}
        )

    first = ShardTable.empty(spec).apply(steps(("a", None), 0), policy, 10, 0, MERGE)
    assert first.tally.expired == (0, 0, 1)
    assert (
        first.table.apply(steps((None, "a"), 20), policy, None, 1, MERGE).tally.returning_keys == 0
    )
    assert (
        first.table.apply(steps(("a", None), 20), policy, None, 1, MERGE).tally.returning_keys == 1
    )


# ---------------------------------------------------------------- equal hashes


@pytest.mark.parametrize("modulus", [1, 4])
@pytest.mark.parametrize("kind", KEYS)
def test_equal_hashes_never_merge_keys(kind, modulus):
    """Every key counted apart, over batches, sweeps and restarts, though hashes say nothing."""
    types, keys = KEYS[kind]
    spec = TableSpec(
        keys=tuple((f"k{at}", each) for at, each in enumerate(types)),
        kind=aggregation({"n": "count", "total": "sum(x)"}, {"x": pa.int64()}),
    )
    policy = Policy(idle_min_ms=10, idle_max_ms=10, min_gap_ms=0)
    table = ShardTable.empty(spec)
    for batch_id in range(4):
        # Key i comes i + 1 times, in turns; in the last batch only every second key.
        rows = [i for turn in range(len(keys)) for i in range(turn, len(keys))]
        rows = rows if batch_id < 3 else [i for i in rows if i % 2 == 0]
        steps = Steps.from_records(
            spec,
            [pa.array([keys[i][at] for i in rows], each) for at, each in enumerate(types)],
            np.full(len(rows), batch_id),
            {"x": pa.array([10**i for i in rows])},
            hashes=np.array(rows, dtype=np.int64) % modulus,
        )
        table = restored(table.apply(steps, policy, None, batch_id, MERGE).table)
    found = {row["key"]: (row["n"], row["total"]) for row in plain_rows(spec, table.lives(policy))}
    times = {i: (i + 1) * (4 if i % 2 == 0 else 3) for i in range(len(keys))}
    assert found == {keys[i]: (n, n * 10**i) for i, n in times.items()}

    idle = Steps.from_records(
        spec,
        [pa.array([keys[0][at]], each) for at, each in enumerate(types)],
        np.array([12]),
        {"x": pa.array([0])},
        hashes=np.array([0]),
    )
    swept = table.apply(idle, policy, 12, 4, MERGE)
    expired = [row["key"] for row in plain_rows(spec, swept.changes) if row["change"] == "expire"]
    assert sorted(expired, key=repr) == sorted((keys[i] for i in times if i % 2), key=repr)


# ---------------------------------------------------------------- sums that leave their type


def sum_of(batches, kind, text="sum(x)"):
    spec = TableSpec(keys=ONE_KEY, kind=aggregation({"total": text}, {"x": kind}))
    table, policy = ShardTable.empty(spec), Policy(ttl_ms=FOREVER_MS)
    for batch_id, batch in enumerate(batches):
        steps = Steps.from_records(
            spec,
            [pa.array(["a"] * len(batch))],
            np.arange(len(batch)),
            {"x": pa.array(batch, kind)},
        )
        table = table.apply(steps, policy, None, batch_id, MERGE).table
    (row,) = plain_rows(spec, table.lives(policy))
    return row["total"]


MOST, LEAST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("batches", "total"),
    [
        ([[MOST]], MOST),
        ([[LEAST]], LEAST),
        ([[MOST, MOST, LEAST, LEAST]], -2),
        ([[MOST], [LEAST], [MOST]], MOST - 1),
        ([[2**62, 2**62, -1]], MOST),
        ([[-(2**62)] * 2], LEAST),
        ([[MOST] * 9 + [LEAST] * 9 + [5]], -4),
    ],
)
def test_sums_at_the_edge_of_their_type_are_exact(batches, total):
    assert sum_of(batches, pa.int64()) == total


@pytest.mark.parametrize("batches", [[[MOST, 1]], [[MOST], [1]], [[LEAST, -1]], [[LEAST], [-1]]])
def test_a_sum_that_does_not_fit_is_an_error(batches):
    with pytest.raises(SumOverflowError):
        sum_of(batches, pa.int64())


def test_an_average_of_large_integers_is_right():
    assert sum_of([[MOST] * 3], pa.int64(), "avg(x)") == pytest.approx(2.0**63, rel=1e-15)
    assert sum_of([[LEAST] * 5, [LEAST]], pa.int64(), "avg(x)") == -(2.0**63)


@pytest.mark.parametrize(
    ("batches", "total"),
    [
        ([[1e16, 1.0, -1e16]], 1.0),
        ([[1e16], [1.0], [-1e16]], 1.0),
        ([[1e16, 1.0] * 50, [-1e16] * 50], 50.0),
        ([[0.1] * 10], 1.0),
        ([[0.1]] * 10, 1.0),
        ([[1e300, 1e-300], [-1e300]], 1e-300),
    ],
)
def test_floats_are_added_up_with_compensation(batches, total):
    assert sum_of(batches, pa.float64()) == pytest.approx(total, rel=1e-12)
    n = sum(len(batch) for batch in batches)
    assert sum_of(batches, pa.float64(), "avg(x)") == pytest.approx(total / n, rel=1e-12)


@pytest.mark.parametrize("text", ["sum(x)", "avg(x)"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_sum_of_decimals_that_leaves_128_bits_is_an_error(text, sign, cut):
    """Three of them would come out as a small number of the other sign."""
    values = [Decimal(9 * 10**37 * sign)] * 3
    with pytest.raises(SumOverflowError):
        sum_of([values[:cut], values[cut:]] if cut < 3 else [values], pa.decimal128(38, 0), text)
