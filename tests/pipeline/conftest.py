from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pyspark.sql import SparkSession

from idlestate import configure
from tests.quick_python import quick_python

PARTITIONS = 2
SHUFFLE = "spark.sql.shuffle.partitions"
LOG4J = """status = error
appender.none.type = Null
appender.none.name = none
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
"""
"""Without an appender Spark would take it for no configuration, and log every message."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for Spark carries the marker."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session on two cores with two state partitions, set up as users are told to."""
    folder = tmp_path_factory.mktemp("spark")
    quiet = folder / "log4j2.properties"
    quiet.write_text(LOG4J)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("idlestate tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={quiet.as_uri()}")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config(SHUFFLE, PARTITIONS)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        # One task per input file, however small: these two together leave no room for a second.
        .config("spark.sql.files.openCostInBytes", 4 << 20)
        .config("spark.sql.files.maxPartitionBytes", 4 << 20)
        # Compiling Java for each small query costs more than it saves; processes that tests start
        # themselves keep Spark's default.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        # What `configure` sets for the Python that runs the tests.
        .config("spark.python.daemon.module", "idlestate.pipeline.worker_daemon")
        # As in `idlestate run`.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .getOrCreate()
    )
    with TemporaryDirectory() as short, quick_python(Path(short)) as program:
        session.sparkContext.pythonExec = str(program)
        try:
            yield configure(session)
        finally:
            session.stop()


@pytest.fixture
def start_in(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Path], None]]:
    """Lets programs and commands run here as if started in a folder, though Spark runs already.

    Relative paths start in the folder, and the session stays as it is and is not stopped: a JVM of
    their own would cost them more than all they do.
    """
    hadoop = spark._jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(spark._jsc.hadoopConfiguration())
    before, partitions = files.getWorkingDirectory(), spark.conf.get(SHUFFLE)
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)

    def enter(folder: Path) -> None:
        monkeypatch.chdir(folder)
        files.setWorkingDirectory(hadoop.Path(str(folder)))

    yield enter
    files.setWorkingDirectory(before)
    spark.conf.set(SHUFFLE, partitions)
