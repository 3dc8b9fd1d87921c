"""Two inputs of which one is idle: time goes on, and what it then brings too late is counted."""

from collections import Counter
from itertools import chain

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from idlestate import Policy
from idlestate.backends.shards.input_watermarks import InputRecord, InputTerms, joint_watermark_ms
from idlestate.backends.shards.row_counts import RowCounts
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_statistics import ShardStatistics
from idlestate.errors import RefusedError
from idlestate.metrics.operator_metrics import samples_of
from idlestate.metrics.shard_totals import operator_statistics
from idlestate.pipeline.join_asof import as_of_operator
from idlestate.pipeline.spark.spark_types import spark_schema
from idlestate.retention.rules import NEVER_MS
from tests.frequent import assert_frequent
from tests.lengths import law
from tests.metrics.some_operators import OF_TWO_INPUTS
from tests.pipeline.clicks import EPOCH
from tests.pipeline.two_input_runs import TwoInputRun
from tests.reference import Record, Rule
from tests.reference_joins import AsOfReference, in_turn

TIMESTAMP = pa.timestamp("us", "UTC")
PROBES = pa.schema([("k", pa.string()), ("t", TIMESTAMP), ("p", pa.int64())])
VERSIONS = pa.schema([("k", pa.string()), ("t_v", TIMESTAMP), ("v", pa.int64())])
SCHEMAS = {"probes": PROBES, "versions": VERSIONS}
SECOND, MINUTE = 1000, 60_000
T0 = 100 * 24 * 60 * MINUTE
"""Event times count from here."""


def query(shards=2, **changed):
    arguments = {
        "on": "k", "uid": "q", "event_time": "t", "version_event_time": "t_v", "how": "left",
        "columns": None, "delay": "0s", "version_delay": None, "idle_after": "5m", "order": (),
        "policy": Policy(), "config": None, "max_ahead": "365d", "min_event_time": "1970-01-02",
        "null_key": "keep", "rejects": False, "shards": None, "place": {"runs": None},
    }  # fmt: skip
    inputs = as_of_operator(
        spark_schema(PROBES), spark_schema(VERSIONS), ignores_case=True, **(arguments | changed)
    )
    return TwoInputRun(inputs, SCHEMAS, shards)


def probe(t_ms, key="a"):
    return {"k": key, "t": moment(t_ms), "p": t_ms}


def version(t_ms, key="a"):
    return {"k": key, "t_v": moment(t_ms), "v": t_ms}


def moment(t_ms):
    return None if t_ms is None else EPOCH + (T0 + t_ms) * (EPOCH.resolution * 1000)


def pairs(rows):
    return sorted(((row["p"], row["v"]) for row in rows if row["p"] is not None), key=repr)


def reached(run):
    """The watermark, as event times count here."""
    return run.watermark_ms - T0


# ---------------------------------------------------------------- by name


def test_without_idle_after_an_input_without_rows_stops_time():
    run = query(idle_after=None)
    run.batch(0, probes=[probe(10)], versions=[version(5)])
    assert reached(run) == 4
    for minute in range(1, 100):
        assert run.batch(minute * MINUTE, probes=[probe(minute * 100)]) == []
    assert reached(run) == 4


def test_time_goes_on_once_an_input_was_quiet_for_so_long():
    run = query()
    run.batch(0, probes=[probe(10)], versions=[version(5)])
    run.batch(MINUTE, probes=[probe(20)])  # the first without versions
    assert reached(run) == 4
    run.batch(6 * MINUTE - 1, probes=[probe(30)])  # 5 minutes less 1 ms
    run.batch(6 * MINUTE, probes=[probe(40)])
    assert reached(run) == 4
    run.batch(6 * MINUTE + 1, probes=[probe(50)])  # the last batch made it idle
    assert reached(run) == 49
    assert pairs(run.batch(7 * MINUTE, probes=[probe(60)])) == [(t, 5) for t in (10, 20, 30, 40)]


def test_an_input_that_never_had_a_row_becomes_idle():
    run = query()
    for minute in range(8):
        run.batch(minute * MINUTE, probes=[probe(minute * 10)])
    assert reached(run) == 69


def test_rows_of_an_input_that_comes_back_are_judged_by_the_time_that_went_on():
    run = query(rejects=True)
    run.batch(0, probes=[probe(10)], versions=[version(5)])
    for minute in range(1, 8):
        run.batch(minute * MINUTE, probes=[probe(minute * 100)])
    assert reached(run) == 699
    found = run.batch(8 * MINUTE, versions=[version(699), version(700)])
    late = [row for row in found if row["reason"]]
    assert [(row["reason"], row["input"]) for row in late] == [("late", "versions")]
    assert '"v": 699' in late[0]["rejected"]
    assert run.late == {"probes": 0, "versions": 1}


def test_an_input_that_came_back_holds_time_until_it_is_no_longer_behind():
    run = query()
    run.batch(0, probes=[probe(10)], versions=[version(5)])
    for minute in range(1, 8):
        run.batch(minute * MINUTE, probes=[probe(minute * 100)])
    run.batch(8 * MINUTE, versions=[version(600)])
    run.batch(9 * MINUTE, probes=[probe(2000)])
    assert reached(run) == 699
    run.batch(10 * MINUTE, probes=[probe(2100)], versions=[version(800)])
    assert reached(run) == 799
    run.batch(11 * MINUTE, probes=[probe(2200)], versions=[version(1000)])
    assert reached(run) == 999


def test_the_time_in_which_a_query_is_down_makes_no_input_idle():
    run = query()
    run.batch(0, probes=[probe(10)], versions=[version(5)])
    run.batch(SECOND, probes=[probe(20)], versions=[version(15)])
    run.batch(60 * MINUTE, probes=[probe(30)])  # the first batch after an hour
    run.batch(61 * MINUTE, probes=[probe(40)])
    assert reached(run) == 14


def test_one_input_may_be_idle_and_the_other_not():
    run = query(idle_after={"versions": "0s"})
    run.batch(0, probes=[probe(10)], versions=[version(5)])
    for minute in range(1, 8):
        run.batch(minute * MINUTE, versions=[version(minute * 100)])
    assert reached(run) == 9
    run.batch(8 * MINUTE, probes=[probe(650)])
    run.batch(9 * MINUTE, probes=[probe(660)])
    run.batch(10 * MINUTE, probes=[probe(670)])
    assert reached(run) == 669


def test_rejected_rows_keep_no_input_awake():
    run = query()
    run.batch(0, probes=[probe(10)], versions=[version(5)])
    for minute in range(1, 8):
        run.batch(minute * MINUTE, probes=[probe(minute * 100)], versions=[version(None)])
    assert reached(run) == 699


def test_each_input_has_its_own_delay():
    run = query(delay="10ms", version_delay="50ms", idle_after="0s")
    run.batch(0, probes=[probe(1000)], versions=[version(1000)])
    run.batch(1, probes=[probe(1000)], versions=[version(1000)])
    assert reached(run) == 949
    for at in range(2, 5):
        run.batch(at, probes=[probe(1000)])
    assert reached(run) == 989


def test_the_record_of_a_shard_names_its_inputs():
    run = query()
    run.batch(5, probes=[probe(10)])
    first, second = (ShardRecord.decode(each.encode()) for each in run.records)
    assert first.inputs == run.records[0].inputs
    assert {name: each.quiet for name, each in first.inputs.items()} == {
        "probes": None,
        "versions": (5, 5),
    }
    assert second.inputs == {}


@pytest.mark.parametrize(
    ("idle_after", "says"),
    [
        ({"orders": "5m"}, "idle_after: orders is not an input; the inputs are probes and version"),
        ("soon", 'idle_after: "soon" is not a valid duration'),
    ],
)
def test_refused(idle_after, says):
    with pytest.raises(RefusedError, match=says):
        query(idle_after=idle_after)


# ---------------------------------------------------------------- null keys and rejects


@pytest.mark.parametrize(("how", "found"), [("left", [(1, None), (2, 1)]), ("inner", [(2, 1)])])
def test_a_null_key_matches_nothing(how, found):
    run = query(how=how, idle_after=None)
    nulls = {"probes": [probe(1, None)], "versions": [version(0, None)]}
    run.batch(0, probes=[*nulls["probes"], probe(2)], versions=[*nulls["versions"], version(1)])
    run.batch(1, probes=[probe(100)], versions=[version(100)])
    assert pairs(run.batch(2, probes=[probe(101)], versions=[version(101)])) == found
    assert sum(record.live_keys for record in run.records) == 1


def test_rows_with_a_null_key_are_rejected_on_request():
    run = query(null_key="reject", rejects=True)
    found = run.batch(0, probes=[probe(1, None), probe(2)], versions=[version(None)])
    reasons = Counter((row["input"], row["reason"]) for row in found)
    assert reasons == {("probes", "null_key"): 1, ("versions", "null_time"): 1}


def test_the_column_of_rejects_is_not_taken():
    with pytest.raises(RefusedError, match=r"column input is added by rejects=True"):
        as_of_operator(
            spark_schema(PROBES.append(pa.field("input", pa.string()))),
            spark_schema(VERSIONS), ignores_case=True, on="k", uid="q", event_time="t",
            version_event_time="t_v", how="left", columns=None, delay="0s", version_delay=None,
            idle_after=None, order=(), policy=Policy(), config=None, max_ahead="1h",
            min_event_time="1970-01-02", null_key="keep", rejects=True, shards=None,
            place={"runs": None},
        )  # fmt: skip


def test_metrics_count_the_rows_of_each_input():
    run = query(null_key="reject", idle_after="0s")
    run.batch(0, probes=[probe(10), probe(11, None)], versions=[version(10)])
    run.batch(1, probes=[probe(12)], versions=[version(12)])
    run.batch(2, probes=[probe(3), probe(14)])
    reports = [ShardStatistics.of(each, Policy()) for each in run.records]
    figures = operator_statistics(
        "q", Policy(), reports, batch_id=2, batch_time_ms=2, policy_version=1,
        input_names=["versions", "probes"],
    )  # fmt: skip
    shown = samples_of([figures], 0)
    found = {name.name: shown[name] for name in OF_TWO_INPUTS}
    assert found == {
        "idlestate_rows_by_input_total": {("q", "probes"): 5, ("q", "versions"): 2},
        "idlestate_late_rows_by_input_total": {("q", "probes"): 1, ("q", "versions"): 0},
        "idlestate_rejected_rows_by_input_total": {("q", "probes"): 1, ("q", "versions"): 0},
    }


# ---------------------------------------------------------------- the law

ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 400)), max_size=4)
BATCHES = st.lists(
    st.tuples(st.integers(0, 4 * MINUTE), ROWS, ROWS, st.booleans()), min_size=1, max_size=8
)
IDLE_AFTER = st.sampled_from(["5m", "0s", {"versions": "2m"}])


@law(15, BATCHES, IDLE_AFTER)
def test_rows_that_are_not_late_are_joined_whatever_the_batches_and_kills(batches, idle_after):
    assert_all_are_joined(batches, idle_after)


@pytest.mark.long
def test_cases_have_idle_inputs_late_rows_and_matches():
    shares = dict.fromkeys(["idle", "late", "matched"], 0.05)
    assert_frequent(assert_all_are_joined, shares, BATCHES, IDLE_AFTER, examples=25)


def assert_all_are_joined(batches, idle_after):
    """Each row is late and counted, or in the result; return what was among them."""
    seen = set()
    run = query(1, idle_after=idle_after, delay="100ms", policy=Policy(ttl_ms=150))
    late, records, found, time_ms = Counter(), [], [], 0
    for number, (gap_ms, probes, versions, is_killed) in enumerate(batches):
        time_ms += gap_ms
        rows = {
            "probes": [probe(number * 50 + t, key) for key, t in probes],
            "versions": [version(number * 50 + t, key) for key, t in versions],
        }
        for name, taken in rows.items():
            for row in taken:
                t_ms = row["p"] if name == "probes" else row["v"]
                is_late = t_ms <= reached(run)
                late[name] += is_late
                if not is_late:
                    records.append(Record((row["k"],), t_ms, row, read=name == "probes"))
        if is_killed:
            again = run.copied().batch(time_ms, **rows)
        before = run.watermark_ms
        output = run.batch(time_ms, **rows)
        assert run.watermark_ms >= before
        if is_killed:
            assert again == output
        found += output
        inputs = run.records[0].inputs.items()
        if any(each.is_idle(run.spec.terms[name]) for name, each in inputs):
            seen.add("idle")
    last = 1_000_000
    both = {"probes": [probe(last, "z")], "versions": [version(last, "z")]}
    for at in range(3):
        found += run.batch(time_ms + at, **both)
    assert run.late == {name: late[name] for name in SCHEMAS}
    if sum(late.values()):
        seen.add("late")
    reference = AsOfReference(Rule(ttl_ms=150), ["p"], ["v"], "left")
    for record in in_turn(records, ["v"], "v"):
        reference.take(record)
    expected = Counter((row["p"], row["v"]) for row in reference.found)
    assert Counter((row["p"], row["v"]) for row in found) == expected
    if any(v is not None for _, v in expected):
        seen.add("matched")
    return seen


def test_without_late_rows_the_division_into_batches_does_not_matter():
    probes, versions = range(100, 1500, 7), range(50, 1500, 23)
    outputs = []
    for size in (5, 30, 150):
        run = query(idle_after="0s", delay="200ms")
        found, time_ms = [], 0
        for begin in range(0, 1500, size * 10):
            span = range(begin, begin + size * 10)
            time_ms += SECOND
            found.append(
                run.batch(
                    time_ms,
                    probes=[probe(t) for t in probes if t in span],
                    versions=[version(t) for t in versions if t in span],
                )
            )
        for at in range(4):
            time_ms += SECOND
            found.append(run.batch(time_ms, probes=[probe(10_000 + at, "z")]))
        assert run.late == {"probes": 0, "versions": 0}
        outputs.append(pairs(chain.from_iterable(found)))
    assert outputs[0] == outputs[1] == outputs[2]
    assert len(outputs[0]) == len(probes)


# ---------------------------------------------------------------- times before 1970


@pytest.mark.parametrize("t_ms", [-1, 0, 1, -86_400_000])
def test_an_input_has_reached_its_highest_time_whatever_that_is(t_ms):
    """Zero is a time like any other: only an input without rows has reached none."""
    terms = {"probes": InputTerms(10, 60_000), "versions": InputTerms(10, 60_000)}
    seen = InputRecord().after(RowCounts(input=1, highest_ms=t_ms), 5)
    assert InputRecord().reached_ms(terms["probes"]) is None
    assert seen.reached_ms(terms["probes"]) == t_ms - 11
    assert InputRecord.from_json(seen.to_json()) == seen
    joint = joint_watermark_ms("probes", t_ms, {"versions": seen}, terms)
    assert joint == t_ms - 11
    assert joint_watermark_ms("probes", t_ms, {}, terms) is None
    assert joint_watermark_ms("probes", NEVER_MS, {"versions": seen}, terms) is None
