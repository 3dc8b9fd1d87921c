"""The Spark session of `idlestate run`: configured for idlestate, quiet on the terminal."""

import contextlib
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from idlestate.errors import RefusedError
from idlestate.pipeline.spark.session_settings import configure
from idlestate.pipeline.spark.spark_version import check_version, private_part
from idlestate.service.java import java_trouble

RETAIN_BATCHES = 10
"""Batches that a checkpoint retains for rollbacks; each keeps its runs on disk."""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.minBatchesToRetain": str(RETAIN_BATCHES),
    "spark.sql.sources.partitionOverwriteMode": "static",
    # Asks the JVM several times for each column that is built, to name its line in errors.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set in the environment if `spark-submit` started this process."""


def start_spark(state_partitions: int | None, log: Path) -> SparkSession:
    """A session on this machine, or under the master that `spark-submit` set.

    Args:
        state_partitions: state partitions of a new checkpoint; None takes one per core
            of the machine or cluster.
        log: the file for all output of Spark and its workers.

    Raises:
        RefusedError: this version of Spark is not supported, or Spark did not start, usually
            because no suitable Java was found.
    """
    check_version()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    if running is None:
        running = _launch(log)
    partitions = state_partitions or cores_of(running.sparkContext)
    running.conf.set("spark.sql.shuffle.partitions", str(partitions))
    return configure(running)


def cores_of(context: SparkContext) -> int:
    """Cores of the machine or cluster, including requested ones that are still starting."""
    conf = context.getConf()
    asked = int(conf.get("spark.executor.instances", "0")) * int(
        conf.get("spark.executor.cores", "1")
    )
    return max(context.defaultParallelism, asked)


def _launch(log: Path) -> SparkSession:
    if _SUBMITTED in os.environ:
        # The JVM is already running, and the arguments of spark-submit take precedence over ours.
        with private_part("SparkContext._ensure_initialized"):
            SparkContext._ensure_initialized()  # noqa: SLF001
    conf = SparkConf()
    for name, value in _SETTINGS.items():
        conf.setIfMissing(name, value)
    conf.setIfMissing("spark.master", "local[*]")
    conf.setIfMissing("spark.app.name", "idlestate")
    conf.setIfMissing("spark.driver.memory", "2g")
    log.parent.mkdir(parents=True, exist_ok=True)
    _log_to(log)
    gateway = None
    if _SUBMITTED not in os.environ:
        with log.open("ab") as output:
            try:
                gateway = launch_gateway(conf, {"stdout": output, "stderr": subprocess.STDOUT})
            except Exception as error:
                why = java_trouble() or f"what it printed is in {log}"
                raise RefusedError(f"Spark did not start: {why}") from error
    context = SparkContext(conf=conf, gateway=gateway)
    context.setLogLevel("WARN")
    # It prints a stack trace when the JVM is killed; that belongs into the log.
    with private_part("SparkContext._accumulatorServer"):
        accumulators: Any = context._accumulatorServer  # noqa: SLF001
    accumulators.handle_error = lambda *_: logging.exception("the JVM left its accumulators")
    return SparkSession(context)


def _log_to(log: Path) -> None:
    """Send errors of the connection to the JVM to the log; our messages stay on the terminal."""
    ours = logging.getLogger("idlestate")
    if logging.lastResort is not None:
        ours.addHandler(logging.lastResort)
    ours.propagate = False
    logging.getLogger().addHandler(LogFile(log, delay=True))


class LogFile(logging.FileHandler):
    """Drops lines that cannot be written, as on a full disk, without a stack trace for each."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; opening the file may fail too."""
        with contextlib.suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Ignore the error."""
