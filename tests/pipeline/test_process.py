"""`process` through Spark: the rows of the harness, over restarts, errors and changed states."""

import os
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from idlestate import (
    BatchedProcessFunction,
    KeyedProcessFunction,
    Policy,
    process,
    read_state,
    run_to_end,
)
from idlestate.errors import RefusedError
from idlestate.functions.large_states import ROW_BYTES
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from idlestate.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from idlestate.testing import FunctionHarness
from tests.pipeline.streams import TIMESTAMP, Feed, Sink, run, start

UID = "alerts"
BEGIN = datetime(2024, 5, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [("user", pa.string()), ("at", TIMESTAMP), ("page", pa.string()), ("unused", pa.string())]
)
OUTPUT = "user string, what string, at_ms bigint"
REJECTS = {"rejects": True, "on_error": "reject"}
POLICY = Policy(idle_min="20s", idle_max="30s", min_gap="0s")


class Alert(KeyedProcessFunction):
    count = ValueStateDescriptor(name="count", value_type=pa.int32(), default=0)
    pages = ListStateDescriptor(name="pages", value_type=pa.string())
    last = MapStateDescriptor(
        name="last",
        key_type=pa.string(),
        value_type=TIMESTAMP,
        ttl=StateTtlConfig(ttl="5s"),
    )

    def process_element(self, row: Any, ctx: Any) -> Any:
        count = ctx.state(self.count)
        count.update(count.value() + 1)
        ctx.state(self.pages).add(row.page)
        ctx.state(self.last).put(row.page, row.at)
        ctx.timer("quiet", ctx.timestamp_ms + 4_000)
        if count.value() % 5 == 0:
            yield ctx.key, f"{count.value()}", ctx.timestamp_ms
        if row.page == "bad":
            raise ZeroDivisionError("no such page")

    def on_timer(self, name: str | None, ctx: Any) -> Any:
        pages = ",".join(ctx.state(self.pages).get())
        yield ctx.key, f"{name} {pages} {sorted(ctx.state(self.last).keys())}", ctx.timestamp_ms
        ctx.state(self.pages).clear()

    def on_expire(self, ctx: Any) -> Any:
        yield ctx.key, f"end {ctx.state(self.count).value()}", ctx.timestamp_ms


class Fast(BatchedProcessFunction):
    """Counts, in calls with many users."""

    count = ValueStateDescriptor(name="count", value_type=pa.int64(), default=0)

    def process_batch(self, rows: Any, ctx: Any) -> Any:
        count = ctx.state(self.count)
        count.update(count.value() + 1)
        ctx.timer("quiet", ctx.timestamps_ms + 4_000)
        yield self.rows(rows.page, ctx)

    def on_timers(self, name: str | None, ctx: Any) -> Any:
        return self.rows([name] * len(ctx.keys), ctx)

    def rows(self, what: Any, ctx: Any) -> Any:
        at_ms = ctx.timestamps_ms * 1000 + ctx.state(self.count).value()
        return {"user": ctx.keys, "what": what, "at_ms": at_ms}


class Keeping(KeyedProcessFunction):
    """Keeps the pages of each user."""

    pages = ListStateDescriptor(name="pages", value_type=pa.string())

    def process_element(self, row: Any, ctx: Any) -> None:
        ctx.state(self.pages).add(row.page)


class Forgiving(Alert):
    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.page != "bad":
            yield from super().process_element(row, ctx)


class Exiting(Alert):
    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.page == "bad":
            os._exit(5)
        yield from super().process_element(row, ctx)


class Hanging(Alert):
    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.page == "bad":
            threading.Event().wait()
        yield from super().process_element(row, ctx)


class Loud(Forgiving):
    def process_element(self, row: Any, ctx: Any) -> Any:
        print("x" * 100_000)
        yield from super().process_element(row, ctx)


def make_batches() -> list[list[dict[str, Any]]]:
    """Some 25 users, a batch of ten seconds; rows up to two seconds out of order."""
    chance = Random(5)
    batches = []
    for batch in range(4):
        times_ms = [10_000 * batch + at for at in range(0, 10_000, 40)]
        times_ms.sort(key=lambda t_ms: t_ms + chance.randrange(2_000))
        batches.append(
            [
                {
                    "user": f"u{chance.randrange(25)}" if chance.random() < 0.95 else None,
                    "at": BEGIN + timedelta(milliseconds=t_ms),
                    "page": chance.choice("abc"),
                    "unused": "-",
                }
                for t_ms in times_ms
            ]
        )
    return batches


def processed(events: DataFrame, function: KeyedProcessFunction, **more: Any) -> DataFrame:
    arguments = {
        "key": "user",
        "function": function,
        "output": OUTPUT,
        "uid": UID,
        "event_time": "at",
        "columns": ["at", "page"],
        "delay": "3s",
        "policy": POLICY,
    }
    return process(events, **{**arguments, **more})


def expected(function: KeyedProcessFunction, **more: Any) -> FunctionHarness:
    """A harness with these arguments."""
    return FunctionHarness(
        SCHEMA,
        key="user",
        function=function,
        output=OUTPUT,
        event_time="at",
        columns=["at", "page"],
        delay="3s",
        policy=POLICY,
        **more,
    )


def _as_of_query(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the harness as the query has it, without the number of its batch."""
    row = {name: value for name, value in row.items() if name != "batch_id"}
    return row | {"rejected": row["rejected"] and row["rejected"].replace("harness", UID)}


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


@pytest.mark.parametrize("backend", ["spark", pytest.param("heap", marks=pytest.mark.long)])
def test_a_query_gives_what_the_harness_gives_over_restarts_and_errors(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    batches = make_batches()
    feed, checkpoint, sink = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint", Sink()
    for batch in batches[:2]:
        feed.add(batch)
    run(processed(feed.stream(spark), Alert(), backend=backend, rejects=True), checkpoint, sink)
    stop_private_sidecars()
    batches[2].append(batches[2][-1] | {"page": "bad", "user": "u3"})
    feed.add(batches[2])
    feed.add(batches[3])

    def run_on() -> None:
        for _ in range(2):  # before Spark 4.2, rows in a sidecar may wait for the next run
            events = feed.stream(spark)
            run(processed(events, Alert(), backend=backend, rejects=True), checkpoint, sink)

    with pytest.raises(StreamingQueryException) as raised:
        run_on()
    for part in ("ZeroDivisionError: no such page", "'alerts'", "'u3'", "process_element"):
        assert part in str(raised.value)
    run_to_end(
        lambda: start(
            processed(feed.stream(spark), Alert(), backend=backend, **REJECTS),
            checkpoint,
            sink,
            availableNow=True,
        )
    )
    harness = expected(Alert(), **REJECTS)
    rows = [row for batch in batches for row in harness.batch(batch)] + harness.finish()
    found = sink.table.drop(["batch_id"]).to_pylist()
    assert counted(found) == counted([_as_of_query(row) for row in rows])
    assert [row["reason"] for row in found if row["reason"]] == ["function_error"]
    states = read_state(spark, str(checkpoint)).toArrow().to_pylist()
    assert counted(states) == counted(harness.lives())
    stop_private_sidecars()


@pytest.mark.long
def test_a_function_that_ends_or_holds_its_worker_loses_nothing(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batches = make_batches()[:2]
    batches[0].append(batches[0][-1] | {"page": "bad", "user": "u3"})
    feed, checkpoint, sink = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint", Sink()
    for batch in batches:
        feed.add(batch)
    settings: Any = spark.sparkContext._jsc.sc().conf()  # type: ignore[attr-defined]
    with pytest.raises(StreamingQueryException, match="Python worker exited unexpectedly"):
        run(processed(feed.stream(spark), Exiting()), checkpoint, sink)
    limits = {"idleTimeoutSeconds": "5", "killOnIdleTimeout": "true"}
    for name, value in limits.items():
        settings.set(f"spark.python.worker.{name}", value)
    try:
        with pytest.raises(StreamingQueryException, match="terminated due to idle timeout"):
            run(processed(feed.stream(spark), Hanging()), checkpoint, sink)
    finally:
        for name in limits:
            settings.remove(f"spark.python.worker.{name}")
    run_to_end(
        lambda: start(processed(feed.stream(spark), Loud()), checkpoint, sink, availableNow=True)
    )
    harness = expected(Forgiving())
    rows = [row for batch in batches for row in harness.batch(batch)] + harness.finish()
    assert counted(sink.table.to_pylist()) == counted(rows)
    told = [each.getMessage() for each in caplog.records if "'alerts'" in each.getMessage()]
    assert ["died" in told[0], "its code hangs" in told[1]] == [True, True]


def test_a_batch_dataframe_gives_what_bounded_input_gives(spark: SparkSession) -> None:
    batches = make_batches()
    rows = [row for batch in batches for row in batch]
    events = spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))
    found = processed(events, Alert()).toArrow().to_pylist()
    harness = expected(Alert())
    assert counted(found) == counted(harness.batch(rows) + harness.finish())


@pytest.mark.long
@pytest.mark.parametrize("backend", ["spark", "heap"])
def test_a_query_calls_a_function_with_many_keys(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    batches = make_batches()
    feed, checkpoint, sink = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint", Sink()
    for some in (batches[:2], batches[2:]):
        for batch in some:
            feed.add(batch)
        run_to_end(
            lambda: start(
                processed(feed.stream(spark), Fast(), backend=backend, in_order=False),
                *(checkpoint, sink),
                availableNow=True,
            )
        )
    stop_private_sidecars()
    harness = expected(Fast(), in_order=False)
    rows = [
        row
        for some in (batches[:2], batches[2:])
        for row in [*(row for batch in some for row in harness.batch(batch)), *harness.finish()]
    ]
    assert counted(sink.table.to_pylist()) == counted(rows)
    assert {row["what"] for row in rows} == {"a", "b", "c", "quiet"}


@pytest.mark.long
def test_states_change_as_definitions_do(spark: SparkSession, tmp_path: Path) -> None:
    class Wider(Alert):
        count = ValueStateDescriptor(name="count", value_type=pa.int64(), default=0)
        seen = ValueStateDescriptor(name="seen", value_type=pa.string())

        def on_timer(self, name: str | None, ctx: Any) -> Any:
            ctx.state(self.seen).update("yes")
            yield from super().on_timer(name, ctx)

    class Other(Alert):
        count = ValueStateDescriptor(name="count", value_type=pa.string())

    batches = make_batches()
    feed, checkpoint = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint"
    feed.add(batches[0])
    run(processed(feed.stream(spark), Alert()), checkpoint)
    feed.add(batches[1])
    with pytest.raises(RefusedError, match="state count was value int32, is now value string"):
        run(processed(feed.stream(spark), Other()), checkpoint)
    sink = run(processed(feed.stream(spark), Wider()), checkpoint)
    harness = expected(Alert())
    harness.batch(batches[0])
    harness.batch([])
    rows = harness.batch(batches[1]) + harness.batch([])
    assert counted(sink.table.to_pylist()) == counted(rows)
    states = read_state(spark, str(checkpoint)).toArrow()
    assert states.schema.field("count").type == pa.int64()
    assert "yes" in states.column("seen").to_pylist()


def test_lists_that_outgrew_their_row_are_read_back(spark: SparkSession, tmp_path: Path) -> None:
    feed, checkpoint = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint"
    pages = [f"{at}".zfill(400) for at in range(2 * ROW_BYTES // 400)]
    feed.add([{"user": "u", "at": BEGIN, "page": page, "unused": "-"} for page in pages])
    run(processed(feed.stream(spark), Keeping()), checkpoint)
    (state,) = read_state(spark, str(checkpoint)).toArrow().to_pylist()
    assert sorted(state["pages"]) == pages
