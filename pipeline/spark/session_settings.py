"""The settings of a Spark session that idlestate needs or recommends."""

import logging

from pyspark.sql import SparkSession

from idlestate.errors import RefusedError
from idlestate.pipeline.spark.argument_type import check_spark
from idlestate.pipeline.spark.hadoop import Hadoop
from idlestate.pipeline.spark.python_worker import load_once, use_same_python, use_unix_sockets
from idlestate.pipeline.spark.spark_version import check_version, spark_version

_STATE_STORE = "spark.sql.streaming.stateStore"
REQUIRED_SETTINGS = {
    f"{_STATE_STORE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE_STORE}.checkpointFormatVersion": "2",
}
"""Settings that versioned state requires; all can be set at run time."""
if spark_version() < (4, 2):
    # Python sources, such as a sidecar's expired records, cannot support the trigger availableNow
    # themselves yet. Without this, Spark would run such a query for a single batch.
    REQUIRED_SETTINGS["spark.sql.streaming.triggerAvailableNowWrapper.enabled"] = "true"

RECOMMENDED_SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647b",
}
"""Settings for fast transfer between Spark and Python; results do not depend on them."""

GUARDING_SETTINGS = {"spark.sql.streaming.stopActiveRunOnRestart": "false"}
"""Recommended: refuses a second query on the checkpoint of a running one. Without it, Spark stops
the first query.
"""

LOCAL_SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}
"""Recommended if files are local by default: Spark's own choice starts several `readlink` processes
for each file of a checkpoint, about thirty per batch."""

_SIMPLIFIED = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
_SIMPLIFIES = "SPARK_SIMPLIFIED_TRACEBACK"
"""Spark sets this variable for the Python workers of all functions except stateful ones, and starts
a daemon per environment, which forks workers. If stateful functions have the variable too, their
workers come from the existing daemon, and may be those of the previous steps.
"""

_MANY_PARTITIONS_PER_CORE = 16
_log = logging.getLogger("idlestate")


def configure(spark: SparkSession) -> SparkSession:
    """Apply the session settings that idlestate needs, and those that make it fast.

    Raises:
        RefusedError: this is not a session, or its version of Spark is not supported.
    """
    check_spark(spark)
    check_version()
    for name, value in (REQUIRED_SETTINGS | RECOMMENDED_SETTINGS | GUARDING_SETTINGS).items():
        spark.conf.set(name, value)
    if spark.conf.get(_SIMPLIFIED) == "true":
        spark.sparkContext.environment[_SIMPLIFIES] = "1"
    use_same_python(spark)
    use_unix_sockets(spark)
    load_once(spark)
    if Hadoop(spark).is_local():
        for name, value in LOCAL_SETTINGS.items():
            if spark.conf.get(name, None) is None:
                spark.conf.set(name, value)
    return spark


def check_session(spark: SparkSession) -> None:
    """Refuse a version of Spark or a session that does not support the state.

    Raises:
        RefusedError: with the settings to add.
    """
    check_version()
    wrong = [
        f'spark.conf.set("{name}", "{value}")'
        for name, value in REQUIRED_SETTINGS.items()
        if spark.conf.get(name, None) != value  # None: an int's default cannot be ""
    ]
    if wrong:
        lines = "\n    ".join(wrong)
        raise RefusedError(
            "this session's state store cannot keep idlestate's state; set these before the "
            f"query starts (or call idlestate.configure(spark)):\n    {lines}"
        )
    partitions = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    cores = spark.sparkContext.defaultParallelism
    if partitions > _MANY_PARTITIONS_PER_CORE * cores:
        _log.warning(
            "spark.sql.shuffle.partitions is %d on %d cores: each of them costs time in every "
            "batch, and the number is fixed for a checkpoint; set it to about the number of cores",
            partitions,
            cores,
        )
