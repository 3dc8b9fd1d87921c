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
"""In bytes: the path of a Unix socket has at most 103, and Spark appends a name of 42."""


def use_same_python(spark: SparkSession) -> None:
    """Let the workers of a local session run the driver's Python, unless the user has chosen one.

    Spark would run the `python3` on the PATH, which may lack idlestate. If Spark is the installed
    pyspark, workers start faster with our program (`worker_python`).
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
    """Fork the workers of a local session from a process that has loaded our libraries.

    The process starts immediately, while the query is defined and planned. Otherwise Spark would
    start it for the first task that needs it, and the first batch would wait until it has loaded.

    The executors of a cluster have already started, and may get idlestate only later, with the
    job's files. So Spark's own daemon is used there, and also if the user has configured a daemon.
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

    Over TCP, the last bytes of a small batch wait 40 ms per stage for a delayed acknowledgement.
    Spark asks for the setting when it starts a worker.
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
    """Make Spark start a worker. If that fails, the tasks of a query report it."""
    with suppress(Exception):
        spark.range(1).mapInArrow(_same, "id long").collect()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _is_installed() -> bool:
    """Whether another process of this Python can import idlestate too."""
    try:
        distribution("idlestate")
    except PackageNotFoundError:
        return False
    return True


def _program() -> str | None:
    """The path of `idlestate-python`; None if it is not installed for this Python."""
    files = (distribution("idlestate").files or []) if _is_installed() else []
    of_this = f"{Path(sys.executable).parent}{os.sep}"
    for program in (Path(os.path.normpath(file.locate())) for file in files if file.name == _NAME):
        # In an environment that was moved, it refers to a Python that no longer exists.
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
