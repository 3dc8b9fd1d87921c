"""Pipelines whose state is in a sidecar: the same lives and expired records as in Spark's store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from idlestate import retain
from idlestate.pipeline.folder import Folder
from idlestate.pipeline.private_sidecar import stop_private_sidecars
from idlestate.pipeline.sidecar_start import finish_input, link_of
from tests.backends.law_runner import policy_of
from tests.compare import assert_rows, assert_states
from tests.pipeline.spark_cases import CASES, SETTINGS, Setting, Stream, make_stream
from tests.pipeline.streams import Feed, Sink, last_rows, plain_rows, run, states


@pytest.fixture(autouse=True)
def no_sidecars_left() -> Iterator[None]:
    yield
    stop_private_sidecars()


def changes(spark: SparkSession, feed: Feed, setting: Setting, backend: str) -> DataFrame:
    return retain(
        feed.stream(spark),
        key=setting.keys,
        aggregates=setting.aggregates,
        uid="law",
        time="event_time",
        delay=f"{setting.delay_ms}ms",
        policy=policy_of(setting.rule),
        order=setting.order,
        read_when="looks",
        backend=backend,
    )


def run_to_the_end(make: Any, checkpoint: Path, sink: Sink) -> None:
    """A bounded run: its batches, the final sweep, and what that closed."""
    run(make(), checkpoint, sink)
    link = link_of(Folder(str(checkpoint)), "law")
    assert link is not None
    finish_input(link, sweep=True)
    run(make(), checkpoint, sink)


@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_law(spark: SparkSession, tmp_path: Path, setting: Setting, backend: str) -> None:
    stream: Stream = make_stream(setting)
    feed = Feed(tmp_path / "input", setting.schema)
    sink = Sink()
    checkpoint = tmp_path / "checkpoint"

    def make() -> DataFrame:
        return changes(spark, feed, setting, backend)

    for batch in stream.batches[: setting.stops_after]:
        feed.add(setting.rows(batch))
    run(make(), checkpoint, sink)
    stop_private_sidecars()
    for batch in stream.batches[setting.stops_after :]:
        feed.add(setting.rows(batch))
    run_to_the_end(make, checkpoint, sink)

    rows = last_rows(plain_rows(sink.table, setting.keys))
    found = states(spark, checkpoint, setting.keys)
    for number in range(CASES):
        reference = stream.reference(number)
        mine = [row for row in rows if row["key"][0] == number]
        assert_rows(reference.last_rows(), mine, setting.aggregates)
        lives = [row for row in found if row["key"][0] == number]
        assert_states(reference.states(), lives, setting.aggregates)
