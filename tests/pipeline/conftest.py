from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from idlestate import configure

PARTITIONS = 2
LOG4J = "status = error\nrootLogger.level = off\n"
# A JVM that lives for minutes never earns back what its second compiler costs two cores.
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


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
        .config(
            "spark.driver.extraJavaOptions", f"{JVM} -Dlog4j2.configurationFile={quiet.as_uri()}"
        )
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", PARTITIONS)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        # One task per input file, however small: these two together leave no room for a second.
        .config("spark.sql.files.openCostInBytes", 4 << 20)
        .config("spark.sql.files.maxPartitionBytes", 4 << 20)
        .getOrCreate()
    )
    try:
        yield configure(session)
    finally:
        session.stop()
