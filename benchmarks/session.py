"""The Spark session that every contestant gets, and nothing in it that favours one."""

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from idlestate import configure
from inputs import FILES_PER_BATCH

CORES = 2
LOCAL = f"local[{CORES}]"
HEAP = "4g"


def start_session(scratch: Path, master: str) -> SparkSession:
    """A new session with the settings that idlestate recommends for all."""
    (scratch / "log").mkdir(parents=True)
    spark = (
        SparkSession.builder.master(master)
        .appName("idlestate-bench")
        .config("spark.driver.memory", HEAP)
        .config("spark.sql.shuffle.partitions", str(CORES))
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .config("spark.ui.enabled", "false")
        .config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        .config("spark.executor.memory", "2g")
        # Says which executor had which partition of the state.
        .config("spark.eventLog.enabled", str(master != LOCAL).lower())
        .config("spark.eventLog.dir", (scratch / "log").as_uri())
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.rolling.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return configure(spark)


def read_events(spark: SparkSession, folder: Path, inputs: int = 1) -> list[DataFrame]:
    """The input as one stream or several, one batch of it per micro-batch."""
    files = ["*.parquet"] if inputs == 1 else [f"*-{part}.parquet" for part in range(inputs)]
    return [
        spark.readStream.schema("key string, event_time timestamp")
        .option("maxFilesPerTrigger", FILES_PER_BATCH // inputs)
        .option("pathGlobFilter", each)
        .parquet(str(folder / "events"))
        for each in files
    ]
