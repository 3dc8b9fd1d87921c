"""Settings of Spark's Python worker processes, which run one task after another."""

import gc
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from idlestate.pipeline.spark.spark_version import private_part

_CHOSEN = "PYSPARK_PYTHON"
_NAME = "idlestate-python"
_DAEMON_SETTING = "spark.python.daemon.module"
_DAEMON = "idlestate.pipeline.worker_daemon"
_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
_LONGEST_FOLDER = 60
"""Of bytes: the path of a Unix socket has at most 103, and Spark adds a name of 42."""


def use_same_python(spark: SparkSession) -> None:
    """Let the workers of a local session run the driver's Python, unless the user has chosen one.

    Spark would run the `python3` of the PATH, which need not have idlestate. Where Spark is the
    installed one, they start faster with our program (`worker_python`).
    """
    context = spark.sparkContext
    if not _is_local(spark):
        return
    if context.pythonExec == "python3" and _CHOSEN not in os.environ:
        context.pythonExec = sys.executable
    program = _program()
    if program and context.pythonExec == sys.executable and _runs_installed_spark(spark):
        context.pythonExec = program


def load_once(spark: SparkSession) -> None:
    """Let the workers of a local session be forked from a process that has loaded our libraries.

    The process starts at once, while the query is written and planned. Otherwise Spark starts it
    for the first task that needs it, and the first batch waits until it has loaded.

    The executors of a cluster have already started, and may get idlestate only later, with the
    job's files. So Spark's own daemon stays there, and also if the user has chosen a daemon.
    """
    context = spark.sparkContext
    runs_this = context.pythonExec in (sys.executable, _program())
    if not (_is_local(spark) and runs_this and _is_installed()):
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


def _runs_installed_spark(spark: SparkSession) -> bool:
    with private_part("the JVM of a SparkContext (_jvm)"):
        jvm: Any = cast("Any", spark.sparkContext)._jvm  # noqa: SLF001
        home = jvm.java.lang.System.getenv("SPARK_HOME")
    installed = Path(pyspark.__file__).parent
    return home is not None and Path(home).resolve() == installed.resolve()


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


def _program() -> str | None:
    """Where `idlestate-python` is; None where it is not installed for this Python."""
    files = (distribution("idlestate").files or []) if _is_installed() else []
    of_this = f"{Path(sys.executable).parent}{os.sep}"
    for program in (Path(os.path.normpath(file.locate())) for file in files if file.name == _NAME):
        # In an environment that was moved, it names a Python that is gone.
        if os.access(program, os.R_OK | os.X_OK) and of_this in program.read_text():
            return str(program)
    return None


@cache
def settle() -> None:
    """Exclude all current objects from garbage collection, once per process.

    Spark's worker runs a full collection after every task, which visits every object of every
    imported library: about 50 ms, more than a small batch takes.
    """
    gc.freeze()
