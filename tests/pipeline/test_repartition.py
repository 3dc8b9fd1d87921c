"""Months of state on another number of state partitions: nothing else is different."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.files.folder import Folder
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.repartition import repartition
from tests.compare import assert_rows, assert_states
from tests.pipeline.clicks import AGGREGATES, KEYS, MINUTE_MS, RULE, SCHEMA, hours, record, retained
from tests.pipeline.streams import Feed, Sink, forget, last_rows, plain_rows, run, states
from tests.reference_pipeline import play
from tests.spark_versions import needs_repartition

pytestmark = needs_repartition
HOURS = 6


class Query:
    """A query over some hours of clicks, which ends when it has read them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.checkpoint = folder / "checkpoint"
        self.feed = Feed(folder / "input", SCHEMA)
        self.sink = Sink()

    def run_on(self, batches: list) -> None:
        for batch in batches:
            self.feed.add(batch)
        run(retained(self.feed.stream(self.spark)), self.checkpoint, self.sink)

    def repartition(self, partitions: int) -> int:
        return repartition(self.spark, str(self.checkpoint), partitions)

    def held(self) -> dict[int, int]:
        """Shards by state partition, as Spark has them."""
        stored = (
            self.spark.read.format("statestore")
            .option("path", str(self.checkpoint))
            .option("stateVarName", "shard")
            .load()
        )
        return {
            row.partition_id: row["count"]
            for row in stored.groupBy("partition_id").count().collect()
        }


@pytest.mark.long
def test_a_query_goes_on_over_other_partitions(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    batches = hours(0, HOURS)
    query.run_on(batches[:2])
    assert query.held() == {0: 4, 1: 4}
    query.repartition(8)
    assert query.held() == dict.fromkeys(range(8), 1)
    query.run_on(batches[2:4])
    done = query.repartition(1)

    # As if it had been killed before Spark was through: only the same number helps.
    forget(query.checkpoint / "commits", done)
    with pytest.raises(RefusedError, match=f"batch {done} .* has not ended"):
        query.repartition(4)
    query.repartition(1)
    assert query.held() == {0: 8}
    assert read_layout(Folder(str(query.checkpoint)), "clicks").state_partitions == 1
    query.repartition(1)  # once more is no harm
    query.run_on(batches[4:])

    # A batch that rewrites state carries no time: the watermark is where it was.
    played = play(
        [[record(row) for row in batch] for batch in batches],
        RULE,
        AGGREGATES,
        delay_ms=10 * MINUTE_MS,
    ).reference
    found = last_rows(plain_rows(query.sink.table, KEYS))
    assert_rows(played.last_rows(), found, AGGREGATES)
    assert_states(played.states(), states(spark, query.checkpoint, KEYS), AGGREGATES)


def test_what_repartition_refuses(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    with pytest.raises(RefusedError, match="does not exist"):
        query.repartition(4)
    query.run_on(hours(0, 1))
    with pytest.raises(RefusedError, match=r"8 shards.* 3 partitions.* one of 1, 2, 4, 8"):
        query.repartition(3)
    forget(query.checkpoint / "commits", 1)
    with pytest.raises(RefusedError, match=r"batch 1 of checkpoint .* let it finish"):
        query.repartition(4)
