"""The harness for tests of jobs: the change rows of a query, without one."""

import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from idlestate import TimeDomain
from idlestate.errors import RefusedError
from idlestate.testing import FakeClock, RetainHarness
from tests.backends.law_runner import policy_of
from tests.compare import assert_rows, assert_states
from tests.docs_pages import blocks
from tests.lengths import law
from tests.pipeline.clicks import (
    AGGREGATES,
    AT,
    EPOCH,
    KEYS,
    POLICY,
    SCHEMA,
    click,
    hours,
    retained,
)
from tests.pipeline.streams import Feed, Found, Sink, counted, last_rows, plain_rows, run
from tests.reference import ON_CREATE_AND_WRITE, ON_READ_AND_WRITE, Record, Rule
from tests.reference_pipeline import Played, play

CLICKS: dict[str, Any] = {
    "key": KEYS,
    "event_time": "event_time",
    "delay": "10m",
    "aggregates": AGGREGATES,
    "policy": POLICY,
}
SMALL = pa.schema(
    [
        ("user", pa.string()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("amount", pa.int64()),
        ("looks", pa.bool_()),
    ]
)
SUMS = {"n": "count", "total": "sum(amount)", "newest": "last(amount)"}
START_MS = 1_700_000_000_000


def plain(rows: list[Found], schema: pa.Schema) -> list[Found]:
    return plain_rows(pa.Table.from_pylist(rows, schema), ["user"]) if rows else []


def moment(t_ms: int | None) -> datetime | None:
    return None if t_ms is None else EPOCH + timedelta(milliseconds=t_ms)


CHANGES = pa.schema(
    [
        ("user", pa.string()),
        ("n", pa.int64()),
        ("total", pa.int64()),
        ("newest", pa.int64()),
        ("change", pa.string()),
        *((name, pa.timestamp("us", "UTC")) for name in ("created_at", "last_access")),
        ("expired_at", pa.timestamp("us", "UTC")),
        ("reason", pa.string()),
        ("batch_id", pa.int64()),
        ("rejected", pa.string()),
    ]
)
LIVES = pa.schema(
    [
        *((name, CHANGES.field(name).type) for name in ("user", "n", "total", "newest")),
        *(
            (name, pa.timestamp("us", "UTC"))
            for name in ("created_at", "written_at", "read_at", "armed_at", "last_access")
        ),
        *((name, pa.timestamp("us", "UTC")) for name in ("cleanup_at", "deadline")),
        ("reason", pa.string()),
    ]
)

records = st.builds(
    lambda user, t_ms, amount, read: Record(
        (user,), None if t_ms is None else START_MS + t_ms, {"amount": amount}, read
    ),
    st.sampled_from(["a", "b", None]),
    st.one_of(st.integers(-20, 60), st.none()),
    st.one_of(st.integers(-5, 5), st.none()),
    st.booleans(),
)
rules = st.builds(
    lambda low, gap, ttl, lifetime, update: Rule(
        idle_min_ms=low,
        idle_max_ms=low + gap if low else 0,
        update=update,
        ttl_ms=ttl,
        max_lifetime_ms=lifetime,
    ),
    st.sampled_from([0, 2, 5, 9]),
    st.integers(0, 8),
    st.sampled_from([0, 6, 15]),
    st.sampled_from([0, 11, 30]),
    st.sampled_from([ON_CREATE_AND_WRITE, ON_READ_AND_WRITE]),
)


def harness_of(**more: Any) -> RetainHarness:
    return RetainHarness(
        SMALL, key="user", aggregates=SUMS, read_when="looks", rejects=True, **more
    )


def fed(harness: RetainHarness, batches: list[list[Record]]) -> list[list[Found]]:
    return [
        harness.batch(
            [
                {
                    "user": record.key[0],
                    "event_time": moment(record.t_ms),
                    "amount": record.values["amount"],
                    "looks": record.read,
                }
                for record in batch
            ]
        )
        for batch in batches
    ]


def assert_same(played: Played, harness: RetainHarness, rows: list[Found]) -> None:
    rejected = [row for row in rows if row["change"] == "reject"]
    found = plain([row for row in rows if row["change"] != "reject"], CHANGES)
    assert_rows(played.reference.last_rows(), last_rows(found), SUMS)
    assert_states(played.reference.states(), plain(harness.lives(), LIVES), SUMS)
    reasons = ["late"] * len(played.late) + [reason for _, reason in played.rejected]
    assert sorted(row["reason"] for row in rejected) == sorted(reasons)


@law(
    24,
    rule=rules,
    batches=st.lists(st.lists(records, min_size=1, max_size=8), min_size=1, max_size=5),
    delay_ms=st.integers(0, 20),
    clock_ms=st.one_of(st.none(), st.integers(0, 50)),
)
def test_event_time_equals_the_reference(
    rule: Rule, batches: list[list[Record]], delay_ms: int, clock_ms: int | None
) -> None:
    clock = None if clock_ms is None else FakeClock(START_MS + clock_ms)
    harness = harness_of(
        event_time="event_time",
        delay=f"{delay_ms}ms",
        policy=policy_of(rule),
        max_ahead="5ms",
        clock=clock,
    )
    times = None if clock is None else [clock.now_ms()] * len(batches)
    played = play(batches, rule, SUMS, delay_ms=delay_ms, batch_times_ms=times, max_ahead_ms=5)
    rows = [row for part in fed(harness, batches) for row in part]
    assert_same(played, harness, [*rows, *harness.finish()])


@law(
    20,
    rule=rules,
    batches=st.lists(
        st.tuples(st.integers(0, 30), st.lists(records, min_size=1, max_size=6)),
        min_size=1,
        max_size=5,
    ),
)
def test_processing_time_equals_the_reference(
    rule: Rule, batches: list[tuple[int, list[Record]]]
) -> None:
    policy = replace(policy_of(rule), time=TimeDomain.PROCESSING, min_gap_ms=0)
    clock = FakeClock(START_MS)
    harness = harness_of(policy=policy, clock=clock)
    rows, times = [], []
    for pause_ms, batch in batches:
        clock.advance(pause_ms)
        times.append(clock.now_ms())
        rows += fed(harness, [batch])[0]
    assert harness.finish() == []
    every = [batch for _, batch in batches]
    played = play(every, rule, SUMS, batch_times_ms=times, processing_time=True)
    assert_same(played, harness, rows)


def test_a_life_ends_in_the_first_batch_whose_watermark_has_passed_its_deadline() -> None:
    harness = RetainHarness(SCHEMA, **CLICKS)
    (update,) = harness.batch([click("ada", 0)])
    assert (update["change"], update["n"]) == ("update", 1)
    assert harness.batch([click("bob", 56)])[0]["user"] == "bob"  # judged by W of minute -10
    (expired,) = harness.batch([])
    assert (expired["user"], expired["change"], expired["reason"]) == ("ada", "expire", "idle")
    assert expired["expired_at"] == AT + timedelta(minutes=45)
    assert [life["user"] for life in harness.lives()] == ["bob"]


def test_a_watermark_that_is_at_a_deadline_ends_the_life_and_one_before_does_not() -> None:
    for minute, ended in ((55, 0), (55 + 1 / 60_000, 1)):
        harness = RetainHarness(SCHEMA, **CLICKS)
        harness.batch([click("ada", 0), click("bob", minute)])
        assert len(harness.finish()) == ended


@pytest.mark.parametrize(
    ("arguments", "row", "reason"),
    [
        ({}, {"user": "a"}, "null_time"),
        ({}, {"user": "a", "event_time": EPOCH}, "too_old"),
        ({"null_key": "reject"}, {"event_time": AT}, "null_key"),
        ({"malformed": "page"}, {"user": "a", "event_time": AT, "page": "{"}, "malformed"),
        ({"clock": FakeClock()}, {"user": "a", "event_time": AT}, "too_far_ahead"),
    ],
)
def test_rows_that_cannot_count_come_out_as_rejects(
    arguments: dict[str, Any], row: Found, reason: str
) -> None:
    harness = RetainHarness(SCHEMA, **CLICKS, rejects=True, **arguments)
    (rejected,) = harness.batch([row])
    assert (rejected["change"], rejected["reason"]) == ("reject", reason)
    assert harness.lives() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"key": "nobody"}, "column nobody not found"),
        ({"aggregates": {"m": "median(amount)"}}, "median"),
        ({"event_time": None}, "its policy uses event time"),
        ({"null_key": "drop"}, "null_key 'drop' is not valid"),
        ({"policy": "sessions"}, "pass its file"),
        ({"clock": 5}, "clock 5 is not valid; pass a FakeClock"),
    ],
)
def test_what_retain_refuses_the_harness_refuses(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        RetainHarness(SCHEMA, **(CLICKS | arguments))


def test_columns_that_spark_does_not_have_and_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RefusedError, match=r"column at is of type timestamp\[ms\]"):
        RetainHarness({"at": pa.timestamp("ms")}, key="at", aggregates={"n": "count"})
    harness = RetainHarness(SCHEMA, **CLICKS)
    with pytest.raises(RefusedError, match="column pgae not found; available: user"):
        harness.batch([{"pgae": "/"}])
    with pytest.raises(RefusedError, match="the rows do not fit the schema"):
        harness.batch([{"amount": "many"}])
    for rows in (None, "a", ["a"], [b"a"], 5):
        with pytest.raises(RefusedError, match="pass a list of dicts, or an Arrow table"):
            harness.batch(rows)


@pytest.mark.parametrize("schema", [None, 5, "user", ["user"], {"user": 5}, {"user": "text"}])
def test_a_schema_that_is_none_is_refused(schema: Any) -> None:
    with pytest.raises(RefusedError, match="pass a pyarrow schema, or a dict"):
        RetainHarness(schema, **CLICKS)


def test_ddl_text_is_not_accepted_as_a_schema() -> None:
    with pytest.raises(RefusedError, match='schema "user string" is a DDL string, which is not'):
        RetainHarness("user string", **CLICKS)  # type: ignore[arg-type]


def test_a_window_that_is_text_is_refused_with_an_example() -> None:
    with pytest.raises(RefusedError, match=r"pass a window such as tumbling\('10m'\)$"):
        RetainHarness(SCHEMA, **CLICKS, window="10m")  # type: ignore[arg-type]


def test_a_table_is_as_good_as_rows() -> None:
    rows = [click("a", 0), click("b", 1), click("a", 2)]
    first, other = RetainHarness(SCHEMA, **CLICKS), RetainHarness(SCHEMA, **CLICKS)
    assert first.batch(rows) == other.batch(pa.Table.from_pylist(rows, SCHEMA))


def test_a_policy_comes_from_a_file_as_well(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("version: 1\npolicies: {sessions: {idle: {min: 30m, max: 45m}}}\n")
    harness = RetainHarness(SCHEMA, **(CLICKS | {"policy": "sessions", "config": file}))
    harness.batch([click("ada", 0), click("bob", 60)])
    assert [row["user"] for row in harness.finish()] == ["ada"]


def test_no_jvm_is_started() -> None:
    program = "\n\n".join(block.text for block in blocks("docs/testing.md"))
    program += "\n\nfrom pyspark import SparkContext\nassert SparkContext._gateway is None\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.spark
def test_a_query_gives_the_same_change_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Batch by batch: the same rows, rejects among them, and the same last sweep."""
    batches = hours(0, 6)
    batches[3].append(click("late", 0))
    batches[4].append({**click("no-time", 0), "event_time": None})
    feed = Feed(tmp_path / "input", SCHEMA)
    for batch in batches:
        feed.add(batch)
    changes = retained(feed.stream(spark), rejects=True)
    sink = run(changes, tmp_path / "checkpoint", Sink())
    found = [sink.batches[number].to_pylist() for number in sorted(sink.batches)]

    harness = RetainHarness(SCHEMA, **CLICKS, rejects=True)
    expected = [*(harness.batch(batch) for batch in batches), harness.finish()]
    assert [counted(rows) for rows in found] == [counted(rows) for rows in expected]
    assert {row["change"] for rows in found for row in rows} == {"update", "expire", "reject"}
