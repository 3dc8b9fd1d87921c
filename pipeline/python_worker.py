"""Settings of Spark's Python worker processes, which run one task after another."""

import gc
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from threading import Thread
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession

from idlestate.pipeline.spark_version import private_part
from idlestate.pipeline.worker_launcher import runs_this_python, skip_zip_files

_CHOSEN = "PYSPARK_PYTHON"
_DAEMON_SETTING = "spark.python.daemon.module"
_DAEMON = "idlestate.pipeline.worker_daemon"
_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
_LONGEST_FOLDER = 60
"""Of bytes: the path of a Unix socket has at most 103, and Spark adds a name of 42."""


def use_same_python(spark: SparkSession) -> None:
    """Let the workers of a local session run the driver's Python, unless the user has chosen one.

    Spark would run the `python3` of the PATH, which need not have idlestate.
    """
    context = spark.sparkContext
    if not _is_local(spark):
        return
    if context.pythonExec == "python3" and _CHOSEN not in os.environ:
        context.pythonExec = sys.executable
    skip_zip_files(spark)


def load_once(spark: SparkSession) -> None:
    """Let the workers of a local session be forked from a process that has loaded our libraries.

    The process starts at once, while the query is written and planned. Otherwise Spark starts it
    for the first task that needs it, and the first batch waits until it has loaded.

    The executors of a cluster have already started, and may get idlestate only later, with the
    job's files. So Spark's own daemon stays there, and also if the user has chosen a daemon.
    """
    context = spark.sparkContext
    if not (_is_local(spark) and runs_this_python(spark) and _is_installed()):
        return
    with private_part("the settings of a running SparkContext (_jsc)"):
        settings: Any = cast("Any", context)._jsc.sc().conf()  # noqa: SLF001
        if settings.contains(_DAEMON_SETTING):
            return
        settings.set(_DAEMON_SETTING, _DAEMON)
    Thread(target=_run_a_task, args=(spark,), name="idlestate-python-workers", daemon=True).start()


def use_unix_sockets(spark: SparkSession) -> None:
    """Let a local session and its workers talk over Unix sockets, unless the user has chosen.

    Over TCP, the last bytes of a small batch wait 40 ms for an acknowledgement that the other side
    delays, in each stage. Spark asks for the setting when it starts a worker.
    """
    if not _is_local(spark) or not hasattr(socket, "AF_UNIX"):
        return
    context: Any = cast("Any", spark.sparkContext)
    with private_part("the settings of a running SparkContext (_jsc)"):
        settings: Any = context._jsc.sc().conf()  # noqa: SLF001
        if settings.contains(_UNIX_SOCKETS):
            return
        folder = context._jvm.java.lang.System.getProperty("java.io.tmpdir")  # noqa: SLF001
        folder = settings.get(_SOCKET_FOLDER, folder)
        if len(os.fsencode(folder)) <= _LONGEST_FOLDER:
            settings.set(_UNIX_SOCKETS, "true")


def _is_local(spark: SparkSession) -> bool:
    return str(spark.sparkContext.master).split("[")[0] == "local"


def _run_a_task(spark: SparkSession) -> None:
    """Have Spark start a worker. If it cannot, the tasks of a query say so."""
    with suppress(Exception):
        spark.range(1).mapInArrow(_same, "id long").collect()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _is_installed() -> bool:
    """Whether another process of this Python finds idlestate too."""
    try:
        distribution("idlestate")
    except PackageNotFoundError:
        return False
    return True


@cache
def settle() -> None:
    """Exclude all current objects from garbage collection, once per process.

    Spark's worker runs a full collection after every task, which visits every object of every
    imported library: about 50 ms, more than a small batch takes.
    """
    gc.freeze()
