"""`make oracle`: the large real data sets, whole, through Spark, compared with a plain loop.

Ends with 1 when a final state, an expire row or a count differs from the oracle's.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from time import monotonic

# Behind everything else, so that no room of the project is found by its bare name first.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from idlestate import Policy, configure, retain
from idlestate.metrics.newest_shard_reports import reports_in
from idlestate.retention.policy import FOREVER_MS
from tests.oracle.comparing import differences
from tests.oracle.data_sets import DATA_SETS, DataSet
from tests.oracle.idle_oracle import AGGREGATES, IdleOracle
from tests.pipeline.streams import Feed, Sink, start

DATA_DIR = "IDLESTATE_DATA_DIR"
UID = "oracle"
POLL_S = 2
EQUAL, DIFFERENT, UNUSABLE = 0, 1, 2


class Expired(Sink):
    """Keeps the expire rows alone."""

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        super().__call__(frame.where("change = 'expire'"), batch_id)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="run data sets whose name contains this")
    words = parser.parse_args()
    named = os.environ.get(DATA_DIR)
    if not named or not Path(named).is_dir():
        say(f"set {DATA_DIR} to the folder of the real data sets")
        return UNUSABLE
    chosen = [data for data in DATA_SETS if (words.only or "") in data.name]
    if not chosen:
        say(f"no data set is named {words.only!r}; there are {[d.name for d in DATA_SETS]}")
        return UNUSABLE
    spark = start_session()
    wrong = [line for data in chosen for line in compare(spark, data, Path(named))]
    spark.stop()
    return DIFFERENT if wrong else EQUAL


def compare(spark: SparkSession, data: DataSet, folder: Path) -> list[str]:
    """Run one data set both ways and say how they differ."""
    began = monotonic()
    table = data.read(folder)
    say(f"{data.name}: {len(table):,} rows, the oracle first")
    oracle = IdleOracle(data.min_ms, data.max_ms)
    for batch in data.batches(table):
        oracle.take(data.plain(batch))
    oracle.sweep(data.delay_ms)
    say(
        f"  oracle: {len(oracle.seen):,} keys, {len(oracle.ended):,} lives ended, "
        f"{len(oracle.open):,} open, {oracle.returning_keys:,} returning keys, "
        f"{monotonic() - began:.0f} s"
    )
    with tempfile.TemporaryDirectory(prefix="idlestate-oracle-") as work:
        checkpoint, sink = Path(work, "checkpoint"), Expired()
        feed = Feed(Path(work, "input"), table.schema)
        for batch in data.batches(table):
            feed.add(batch)
        changes = retain(
            feed.stream(spark),
            key=list(data.keys),
            event_time="event_time",
            delay=f"{data.delay_ms}ms",
            aggregates=AGGREGATES,
            policy=Policy(idle_min_ms=data.min_ms, idle_max_ms=data.max_ms, remember_ms=FOREVER_MS),
            uid=UID,
        )
        began = monotonic()
        watch(start(changes, checkpoint, sink, availableNow=True), len(table), began)
        found = differences(
            oracle, sink.table, spark, checkpoint, uid=UID, keys=data.keys, rows=len(table)
        )
    say(f"  {monotonic() - began:.0f} s, {'DIFFERENT' if found else 'equal'}")
    for line in found:
        say(f"  {line}")
    return found


def watch(query: StreamingQuery, rows: int, began: float) -> None:
    """Wait for a query's end and tell of every batch."""
    told, done = -1, False
    while not done:
        done = bool(query.awaitTermination(POLL_S))
        for progress in query.recentProgress:
            if progress.batchId <= told:
                continue
            told = progress.batchId
            read = sum(each.numInputRows for each in query.recentProgress if each.batchId <= told)
            reports = reports_in(json.loads(progress.json), UID) or []
            live = sum(each.live_keys for each in reports)
            say(
                f"  batch {told}: {read:,} of {rows:,} rows, {live:,} live keys, "
                f"{monotonic() - began:.0f} s"
            )


def start_session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("idlestate oracle")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = configure(builder.getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
