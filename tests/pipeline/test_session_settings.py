"""What a session is set to, what a start says, and what a running query costs the driver."""

import logging
import re
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent

from idlestate import configure, retain
from idlestate.backends.checkpoint.operator_layout import OperatorLayout
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.pipeline.idle_cores import warn_of_idle_cores
from idlestate.pipeline.spark.session_settings import LOCAL_SETTINGS
from idlestate.retention.policy import TimeDomain
from tests.pipeline.streams import Feed, run

((FILE_MANAGER, LOCAL_MANAGER),) = LOCAL_SETTINGS.items()
SPEC = TableSpec((("user", pa.string()),), aggregation({"n": "count"}, {}))


@pytest.mark.parametrize(
    ("cores", "partitions", "words"),
    [
        pytest.param(4, 4, None, id="as-many"),
        pytest.param(2, 4, None, id="fewer"),
        pytest.param(6, 4, "4 of 6 cores busy at most: .* --partitions 8 ", id="repartition"),
        pytest.param(99, 4, "--partitions 16 ", id="as-far-as-it-goes"),
        pytest.param(
            20, 16, "number of shards .16. is fixed; a new checkpoint", id="more-than-shards"
        ),
    ],
)
def test_cores_that_would_stay_idle_are_told_of(
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    partitions: int,
    words: str | None,
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.2.0")
    layout = OperatorLayout.of(SPEC, TimeDomain.EVENT, partitions, shards=16, retain_batches=10)
    with caplog.at_level(logging.WARNING, "idlestate"):
        warn_of_idle_cores("clicks", layout, cores)
    if words is None:
        assert not caplog.messages
    else:
        (said,) = caplog.messages
        assert re.search(words, said)


def test_a_spark_that_cannot_repartition_is_not_told_to(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    warn_of_idle_cores(
        "clicks", OperatorLayout.of(SPEC, TimeDomain.EVENT, 4, shards=16, retain_batches=10), 6
    )
    (said,) = caplog.messages
    assert "a new checkpoint may have more" in said
    assert "repartition" not in said


def test_an_operator_in_a_sidecar_is_not_told_to_repartition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`idlestate state repartition` refuses it."""
    layout = OperatorLayout.of(
        SPEC, TimeDomain.EVENT, 4, shards=16, retain_batches=10, backend="rocksdb"
    )
    with caplog.at_level(logging.WARNING, "idlestate"):
        warn_of_idle_cores("clicks", layout, 6)
    (said,) = caplog.messages
    assert "repartition" not in said
    assert re.search("is in a sidecar, .* a new checkpoint may have more", said)


@pytest.mark.parametrize(
    ("default_fs", "chosen", "found"),
    [
        pytest.param("file:///", None, LOCAL_MANAGER, id="local"),
        pytest.param("file:///", "a.b.Manager", "a.b.Manager", id="the-user-chose"),
        pytest.param("hdfs://there", None, None, id="far"),
    ],
)
def test_local_checkpoints_get_the_manager_that_starts_no_processes(
    spark: SparkSession, default_fs: str, chosen: str | None, found: str | None
) -> None:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    before = hadoop.get("fs.defaultFS")
    session = spark.newSession()
    if chosen:
        session.conf.set(FILE_MANAGER, chosen)
    hadoop.set("fs.defaultFS", default_fs)
    try:
        configure(session)
    finally:
        hadoop.set("fs.defaultFS", before)
    assert session.conf.get(FILE_MANAGER, None) == found


def test_progress_is_not_turned_into_python_objects(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    monkeypatch.setattr(QueryProgressEvent, "fromJObject", made.append)
    feed = Feed(tmp_path / "in", pa.schema({"user": pa.string(), "t": pa.timestamp("us", "UTC")}))
    feed.add([{"user": "a", "t": 1_750_000_000_000_000}])
    changes = retain(
        feed.stream(spark), key=["user"], event_time="t", aggregates={"n": "count"}, uid="quiet"
    )
    assert run(changes, tmp_path / "checkpoint").table.num_rows
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
    assert not made
