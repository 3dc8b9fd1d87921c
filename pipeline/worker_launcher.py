"""The program that a local session starts its Python processes with.

Spark puts its Python code first on their path, as a zip file without compiled code: every process
compiles what it imports, which takes over half a second at each start of a query. The installed
pyspark that contains the zip file has the same code, compiled. So the program takes the zip files
of Spark off the path, and runs the same Python.
"""

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, cast

import pyspark
from pyspark.sql import SparkSession

from idlestate.pipeline.spark_version import private_part

_PROGRAM = """#!/bin/sh
PYTHONPATH="${{PYTHONPATH#*/py4j-*-src.zip:}}" exec {python} "$@"
"""


def skip_zip_files(spark: SparkSession) -> None:
    """Let the Python processes of a local session import the installed pyspark.

    Nothing changes if they run another Python than this process, or Spark is not the installed one.
    """
    context = spark.sparkContext
    if context.pythonExec != sys.executable or not _runs_installed_spark(spark):
        return
    program = _program()
    if os.access(program, os.X_OK):  # not so where temporary files may not be executed
        context.pythonExec = str(program)


def runs_this_python(spark: SparkSession) -> bool:
    """Whether the session's Python processes run the Python of this one."""
    return spark.sparkContext.pythonExec in (sys.executable, str(_program()))


def _runs_installed_spark(spark: SparkSession) -> bool:
    with private_part("the JVM of a SparkContext (_jvm)"):
        machine: Any = cast("Any", spark.sparkContext)._jvm  # noqa: SLF001
        home = machine.java.lang.System.getenv("SPARK_HOME")
    installed = Path(pyspark.__file__).parent
    return home is not None and Path(home).resolve() == installed.resolve()


@cache
def _program() -> Path:
    """The program, in a folder of this process."""
    folder = Path(tempfile.mkdtemp(prefix="idlestate-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "python"
    program.write_text(_PROGRAM.format(python=shlex.quote(sys.executable)))
    program.chmod(0o700)
    return program
