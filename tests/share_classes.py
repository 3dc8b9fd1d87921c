"""Saves the classes that a small query loads, for all JVMs of `make test-all` and `make crash`.

A JVM of Spark spends 3 of its first 9 seconds of processor time on loading classes.
"""

import os
import sys
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.quick_jvm import CLASSES, JAVA_OPTIONS, WITHOUT_CLASSES  # noqa: E402 - found from here
from tests.quick_spark import quick_home  # noqa: E402


def main() -> None:
    """Make the archive in the tests' Spark home, unless it is there."""
    if "SPARK_HOME" in os.environ:
        return
    home = quick_home()
    archive = home / CLASSES
    if archive.exists():
        return
    print("test: saving the classes of Spark for all JVMs of the tests, once", flush=True)
    os.environ["SPARK_HOME"] = str(home)
    part = home / f"{CLASSES}.{os.getpid()}"
    os.environ[JAVA_OPTIONS] = WITHOUT_CLASSES
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with TemporaryDirectory() as folder, (home / "classes.log").open("w") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())  # the JVM has much to say
        process = run_a_query(Path(folder), f"-XX:ArchiveClassesAtExit={part} -Xlog:cds=off")
        process.stdin.close()
        process.wait()
    if part.exists():
        part.rename(archive)


def run_a_query(folder: Path, options: str) -> Popen[bytes]:
    """A query in a JVM with these options; returns its process, which ends without input."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from idlestate import Policy, configure, retain

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    rows = configure(session).range(9).selectExpr("id", "timestamp_seconds(id) at")
    rows.write.parquet(str(folder / "rows"))
    lives = retain(
        session.readStream.schema("id long, at timestamp").parquet(str(folder / "rows")),
        uid="lives",
        key="id",
        event_time="at",
        delay="1s",
        aggregates={"n": "count"},
        policy=Policy(idle_min="1h", idle_max="2h"),
    )
    writer = lives.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "changes")).awaitTermination()
    session.stop()
    return SparkContext._gateway.proc


if __name__ == "__main__":
    main()
