"""`in_order` through Spark: rows count in order of event time, and bounded input ends with all."""

import random
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from idlestate import run_to_end
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import committed_batch
from idlestate.pipeline.sidecar_attachment import link_of, reports_of
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from idlestate.testing import RetainHarness
from tests.compare import assert_rows, assert_states
from tests.pipeline.clicks import (
    AGGREGATES,
    KEYS,
    POLICY,
    RULE,
    SCHEMA,
    UID,
    hours,
    record,
    retained,
)
from tests.pipeline.streams import (
    Feed,
    Found,
    Sink,
    forget,
    last_rows,
    plain_rows,
    shards,
    start,
    states,
)
from tests.reference import Reference
from tests.reference_pipeline import make_sequence

DELAY_MIN = 90
LONG = pytest.mark.long


def disordered(seed: int, batches: int) -> list[list[Found]]:
    """Clicks of some hours, each up to `DELAY_MIN` late, in batches of any size."""
    chance = random.Random(seed)
    rows = list(chain.from_iterable(hours(0, 4)))
    rows.sort(key=lambda row: row["event_time"].timestamp() / 60 + chance.uniform(0, DELAY_MIN))
    cuts = sorted(chance.sample(range(1, len(rows)), batches - 1))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def in_sequence(batches: list[list[Found]]) -> Reference:
    reference = Reference(RULE, AGGREGATES)
    records = make_sequence(record(row) for row in chain.from_iterable(batches))
    for each in records:
        reference.take(each)
    assert records[-1].t_ms is not None
    reference.sweep(records[-1].t_ms)
    return reference


@pytest.mark.parametrize("seed", range(5))
def test_the_harness_gives_the_rows_of_the_sequence(seed: int) -> None:
    harness = RetainHarness(
        SCHEMA, key=KEYS, aggregates=AGGREGATES, event_time="event_time",
        delay=f"{DELAY_MIN}m", policy=POLICY, in_order=True,
    )  # fmt: skip
    batches = disordered(seed, batches=5)
    rows = list(chain.from_iterable(map(harness.batch, batches))) + harness.finish()
    expected = in_sequence(batches)
    assert_rows(expected.last_rows(), last_rows(_plain(rows)), AGGREGATES)


def _plain(rows: list[Found]) -> list[Found]:
    return plain_rows(pa.Table.from_pylist(rows), KEYS)


def held_rows(spark: SparkSession, checkpoint: Path) -> int:
    folder = Folder(str(checkpoint))
    link = link_of(folder, UID)
    if link is None:
        return sum(shard.held.live for shard in shards(spark, checkpoint, UID))
    return sum(each.held_rows for each in reports_of(folder, link, committed_batch(folder)))


@pytest.mark.parametrize(
    "backend", ["spark", *(pytest.param(each, marks=LONG) for each in ("heap", "rocksdb"))]
)
def test_bounded_input_ends_with_every_row_judged(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    feed, checkpoint, sink = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint", Sink()
    batches = disordered(7, batches=2)
    for batch in batches:
        feed.add(batch)

    def started() -> StreamingQuery:
        stop_private_sidecars()  # each start finds its state in the folder of the one before
        changes = retained(
            feed.stream(spark), in_order=True, delay=f"{DELAY_MIN}m", backend=backend
        )
        return start(changes, checkpoint, sink, availableNow=True)

    started().awaitTermination()
    assert held_rows(spark, checkpoint) > 0
    run_to_end(started)
    expected = in_sequence(batches)
    assert_rows(expected.last_rows(), last_rows(plain_rows(sink.table, KEYS)), AGGREGATES)
    assert_states(expected.states(), states(spark, checkpoint, KEYS), AGGREGATES)
    assert held_rows(spark, checkpoint) == 0
    if backend != "spark":
        stop_private_sidecars()
        return

    # A crash in the batch that ends the input: its plan stands, and it runs again.
    newest = max(sink.batches)
    ended = sink.batches.pop(newest)
    forget(checkpoint / "commits", newest)
    run_to_end(started)
    assert max(sink.batches) == newest
    assert sink.batches[newest].num_rows == ended.num_rows
    assert_rows(expected.last_rows(), last_rows(plain_rows(sink.table, KEYS)), AGGREGATES)

    whole = retained(feed.table(spark), in_order=True, delay=f"{DELAY_MIN}m").toArrow()
    assert_rows(expected.last_rows(), last_rows(plain_rows(whole, KEYS)), AGGREGATES)
