"""Pipelines whose state is in a sidecar: the same lives and expired records as in Spark's store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from idlestate import SidecarClient, retain, run_to_end
from idlestate.backends.files.folder import Folder
from idlestate.pipeline.expired_source import FORMAT
from idlestate.pipeline.sidecar_attachment import finish_input, link_of
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from tests.backends.law_runner import policy_of
from tests.compare import assert_rows, assert_states
from tests.pipeline.spark_cases import (
    BACKGROUND,
    CASES,
    PARAMS,
    SETTINGS,
    Setting,
    Stream,
    case_of,
    make_stream,
)
from tests.pipeline.streams import (
    Feed,
    Sink,
    batch_times_ms,
    counted,
    last_rows,
    plain_rows,
    run,
    start,
    states,
)
from tests.pipeline.test_processing_time import (
    AGGREGATES,
    RULE_PARAMS,
    RULES,
    SCHEMA,
    UID,
    make_batches,
    played,
    retained,
)
from tests.sidecar.sidecar_process import Sidecar


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
        event_time="event_time",
        delay=f"{setting.delay_ms}ms",
        policy=policy_of(setting.rule),
        order=setting.order,
        read_when="looks",
        backend=backend,
    )


def run_to_the_end(make: Any, checkpoint: Path, sink: Sink) -> None:
    """A bounded run: its batches, the final sweep, and what that closed."""
    run_to_end(lambda: start(make(), checkpoint, sink, availableNow=True))


@pytest.mark.long
@pytest.mark.parametrize("setting", PARAMS)
def test_law(spark: SparkSession, tmp_path: Path, setting: Setting) -> None:
    # What differs between the two stores is tested without Spark: here each has half.
    backend = ("rocksdb", "heap")[SETTINGS.index(setting) % 2]
    stream: Stream = make_stream(setting)
    feed = Feed(tmp_path / "input", setting.schema)
    sink = Sink()
    checkpoint = tmp_path / "checkpoint"

    def make() -> DataFrame:
        return changes(spark, feed, setting, backend)

    *earlier, last = stream.stretches
    for stretch in earlier:
        for batch in stretch:
            feed.add(setting.rows(batch))
        run(make(), checkpoint, sink)
        stop_private_sidecars()
    for batch in last:
        feed.add(setting.rows(batch))
    run_to_the_end(make, checkpoint, sink)

    rows = last_rows(plain_rows(sink.table, setting.keys))
    found = states(spark, checkpoint, setting.keys)
    for number in (*range(CASES), BACKGROUND):
        reference = stream.reference(number)
        mine = [row for row in rows if case_of(row["key"]) == number]
        assert_rows(reference.last_rows(), mine, setting.aggregates)
        lives = [row for row in found if case_of(row["key"]) == number]
        assert_states(reference.states(), lives, setting.aggregates)


@pytest.mark.parametrize("name", RULE_PARAMS)
def test_processing_time_equals_the_reference_at_its_own_times(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """The sidecar's own sweeps are far apart, so each batch is judged by its journaled time."""
    folder, rule = tmp_path_factory.mktemp("p"), RULES[name]
    sidecar = Sidecar(folder, operators={}, sweep_every="1h").start()
    batches, sink, checkpoint = make_batches(4, seed=len(name)), Sink(), folder / "checkpoint"
    feed = Feed(folder / "input", SCHEMA)
    for batch in batches:
        feed.add(batch)
    place = f"unix:{sidecar.data_socket}"
    changed = retained(feed.stream(spark), rule, backend="heap", sidecar=place)
    run(changed, checkpoint, sink)
    link = link_of(Folder(str(checkpoint)), UID)
    assert link is not None
    finish_input(Folder(str(checkpoint)), link, sweep=False)
    expected = played(batches, batch_times_ms(checkpoint), rule).reference
    with SidecarClient(place, UID) as client:
        ends = [row for rows in client.expired() for row in plain_rows(rows, ["user"])]
    rows = last_rows([*plain_rows(sink.table, ["user"]), *ends])
    assert_rows(expected.last_rows(), rows, AGGREGATES)
    source = spark.readStream.format(FORMAT).option("sidecar", place).option("uid", UID).load()
    copied = run(source, folder / "copied")
    assert counted(plain_rows(copied.table, ["user"])) == counted(
        {name: row[name] for name in row if name != "seq"} for row in ends
    )
    assert sidecar.stop() == 0
