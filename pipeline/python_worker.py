"""The Python worker processes of Spark, which run task after task."""

import gc
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, cast

from pyspark.sql import SparkSession

from idlestate.pipeline.spark_version import private_part

_DAEMON_SETTING = "spark.python.daemon.module"
_DAEMON = "idlestate.pipeline.worker_daemon"


def load_once(spark: SparkSession) -> None:
    """Have the workers of a local session forked from a process that has loaded our libraries.

    Executors of a cluster were started with their settings, and may get idlestate only later, with
    the files of the job; there Spark's own daemon stays, as it does if the user chose another.
    """
    context = spark.sparkContext
    is_local = str(context.master).split("[")[0] == "local"
    if not (is_local and context.pythonExec == sys.executable and _is_installed()):
        return
    with private_part("the settings of a running SparkContext (_jsc)"):
        settings: Any = cast("Any", context)._jsc.sc().conf()  # noqa: SLF001
        settings.setIfMissing(_DAEMON_SETTING, _DAEMON)


def _is_installed() -> bool:
    """Whether another process of this Python finds idlestate too."""
    try:
        distribution("idlestate")
    except PackageNotFoundError:
        return False
    return True


@cache
def settle() -> None:
    """Take what is loaded by now out of garbage collection, once per process.

    Spark's worker collects in full after every task, which walks every object of every imported
    library each time: some 50 ms, more than a small batch takes.
    """
    gc.freeze()
