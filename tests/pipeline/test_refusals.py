"""What `retain` refuses when it is called: each with what is wrong and what to write."""

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import Policy, read_state, retain
from idlestate.errors import RefusedError
from idlestate.pipeline.spark.session_settings import REQUIRED_SETTINGS
from idlestate.retention.policy import TimeDomain
from tests.pipeline.clicks import POLICY, retained

PROCESSING = Policy(idle_min_ms=2, idle_max_ms=3, time=TimeDomain.PROCESSING, min_gap_ms=0)


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    """A stream that is never started."""
    rate = spark.readStream.format("rate").load()
    return rate.select(
        F.col("value").cast("string").alias("user"),
        F.col("timestamp").alias("event_time"),
        F.col("value").cast("int").alias("amount"),
        F.col("value").cast("double").alias("ratio"),
        F.lit("/").alias("page"),
        F.array(F.col("value")).alias("list"),
        F.struct("value").alias("parts"),
        F.current_date().alias("day"),
        F.lit("?").alias("reason"),
    )


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown-key": (
        {"key": ["user", "usr"]},
        r"column usr not found.*available: user string.*amount int",
    ),
    "no-key": ({"key": []}, "key is empty"),
    "key-of-doubles": ({"key": "ratio"}, "ratio is of type double; .*cast it"),
    "key-of-lists": ({"key": "list"}, "column list not found, or not of a simple type"),
    "unknown-order": ({"order": ["seq"]}, "column seq not found"),
    "order-of-structs": ({"order": ["parts"]}, "column parts not found, or not of a simple type"),
    "unknown-time": (
        {"event_time": "at"},
        "time column at not found; available: user",
    ),
    "no-time": ({"event_time": None}, r"uses event time; .*event_time='\.\.\.'"),
    "time-of-integers": ({"event_time": "amount"}, "amount is of type int; cast it to timestamp"),
    "time-of-dates": ({"event_time": "day"}, "day is of type date; cast it to timestamp"),
    "unknown-read-when": ({"read_when": "looks"}, "read_when column looks not found"),
    "read-when-not-boolean": ({"read_when": "amount"}, "read_when column amount is not boolean"),
    "unknown-malformed": ({"malformed": "_bad"}, "malformed column _bad not found"),
    "in-order-in-processing-time": (
        {"in_order": True, "policy": PROCESSING},
        "in_order=True needs event time",
    ),
    "unknown-backend": (
        {"backend": "disk"},
        "backend 'disk' is not valid; use one of spark, rocksdb, heap",
    ),
    "sidecar-not-used": ({"sidecar": "unix:there"}, "a sidecar was passed, but backend is spark"),
    "runs-of-a-sidecar": ({"backend": "heap", "runs": "there"}, "remove runs"),
    "no-aggregates": ({"aggregates": {}}, "no aggregates; add"),
    "unknown-function": ({"aggregates": {"n": "median(amount)"}}, r"median\(amount\).*count"),
    "unknown-column": (
        {"aggregates": {"n": "sum(price)"}},
        "column price of sum.price. not found.*available: user",
    ),
    "sum-of-strings": ({"aggregates": {"n": "sum(page)"}}, "sum and avg take numbers"),
    "max-of-lists": ({"aggregates": {"n": "max(list)"}}, "list"),
    "aggregate-named-like-key": ({"aggregates": {"User": "count"}}, "name User is used twice"),
    "aggregate-twice": ({"aggregates": {"n": "count", "N": "count"}}, "name N is used twice"),
    "aggregate-named-like-ours": ({"aggregates": {"change": "count"}}, "name change is used twice"),
    "aggregate-named-rejected": ({"aggregates": {"rejected": "count"}}, "rejected is used twice"),
    "aggregate-of-read-state": ({"aggregates": {"deadline": "count"}}, "deadline is used twice"),
    "key-twice": ({"key": ["user", "user"]}, "name user is used twice"),
    "key-named-like-ours": ({"key": ["user", "reason"]}, "name reason is used twice.*expired_at"),
    "odd-uid": ({"uid": "../up"}, "letters, digits"),
    "empty-uid": ({"uid": ""}, "letters, digits"),
    "odd-delay": ({"delay": "soon"}, "delay: .*soon"),
    "negative-delay": ({"delay": "-5m"}, "delay: "),
    "odd-max-ahead": ({"max_ahead": "1 fortnight"}, "max_ahead: "),
    "odd-min-event-time": ({"min_event_time": "yesterday"}, "min_event_time.*yesterday.*use"),
    "early-min-event-time": ({"min_event_time": "1970-01-01"}, "before 1970-01-02; Spark"),
    "runs-with-a-secret": ({"runs": "s3://me:geh/eim@b/x"}, r"runs s3://\*\*\*@b/x holds a secret"),
    "no-shards": ({"shards": 0}, "shards is 0"),
    "policy-without-file": ({"policy": "sessions"}, r"'sessions' is a name.*config='"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_do_not_fit_are_refused(clicks: DataFrame, case: str) -> None:
    changed, message = REFUSED[case]
    with pytest.raises(RefusedError, match=message):
        retained(clicks, **changed)


@pytest.mark.parametrize("case", [name for name in REFUSED if "min-event" not in name])
def test_the_operator_is_named_in_most_of_them(clicks: DataFrame, case: str) -> None:
    changed, _ = REFUSED[case]
    with pytest.raises(RefusedError) as refused:
        retained(clicks, **changed)
    text = str(refused.value)
    assert (
        "clicks" in text
        or case in {"odd-uid", "empty-uid", "policy-without-file"}
        or (": " in text and case.endswith(("delay", "max-ahead")))
    )


def test_an_input_with_a_watermark_is_refused(clicks: DataFrame) -> None:
    marked = clicks.withWatermark("event_time", "1 minute")
    for policy in (POLICY, PROCESSING):
        with pytest.raises(RefusedError, match="watermark already; remove withWatermark"):
            retained(marked, policy=policy)


@pytest.mark.parametrize("name", REQUIRED_SETTINGS)
def test_a_session_without_a_setting_is_refused_with_the_line_to_write(
    spark: SparkSession, clicks: DataFrame, tmp_path: Path, name: str
) -> None:
    before = spark.conf.get(name)
    spark.conf.unset(name)
    try:
        # Set to anything else, or not at all.
        line = f'spark.conf.set("{name}", "{REQUIRED_SETTINGS[name]}")'
        with pytest.raises(RefusedError) as refused:
            retained(clicks)
        assert line in str(refused.value)
        assert "idlestate.configure(spark)" in str(refused.value)
        exec(line, {"spark": spark})
        retained(clicks)
    finally:
        spark.conf.set(name, before)


def test_a_batch_frame_needs_no_setting(spark: SparkSession) -> None:
    name = next(iter(REQUIRED_SETTINGS))
    before = spark.conf.get(name)
    spark.conf.unset(name)
    try:
        frame = spark.sql("select 'a' as user, timestamp'2024-05-01' as t")
        changes = retain(
            frame, key="user", event_time="t", aggregates={"n": "count"}, policy=POLICY, uid="batch"
        )
        assert changes.columns[:3] == ["user", "n", "change"]
    finally:
        spark.conf.set(name, before)


def test_many_partitions_on_few_cores_are_warned_about(
    spark: SparkSession, clicks: DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    try:
        with caplog.at_level(logging.WARNING, logger="idlestate"):
            retained(clicks)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert "spark.sql.shuffle.partitions is 200 on 2 cores" in caplog.text


def test_an_operator_without_retention_is_warned_about(
    clicks: DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="idlestate"):
        retained(clicks, policy=None)
    assert "without bound" in caplog.text
    assert "idle_min='30m', idle_max='45m'" in caplog.text


def test_a_policy_is_taken_from_a_file(
    clicks: DataFrame, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(
        "version: 1\n"
        "policies:\n"
        "  short: {idle: {min: 30m, max: 45m}}\n"
        "  wall: {idle: {min: 30m, max: 45m}, time: processing}\n"
        "selectors:\n"
        '  - {operator: "cli*", policy: wall}\n'
    )
    with caplog.at_level(logging.WARNING, logger="idlestate"):
        retained(clicks, policy="short", config=file)
        # The selector gives processing time, which needs no time column.
        retained(clicks, policy=None, config=file, event_time=None)
        assert caplog.text == ""
        retained(clicks, policy=None, config=str(file), uid="other")
        assert "operator other has no retention" in caplog.text
    with pytest.raises(RefusedError, match='has no policy "shrt"; use short'):
        retained(clicks, policy="shrt", config=file)


def test_reading_state_says_what_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    for uid in (None, "clicks"):
        with pytest.raises(RefusedError, match=r"folder .*/nothing does not exist; pass"):
            read_state(spark, str(tmp_path / "nothing"), uid=uid)
        with pytest.raises(RefusedError, match="is not a checkpoint; pass the folder"):
            read_state(spark, str(tmp_path), uid=uid)
