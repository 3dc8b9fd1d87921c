"""Checksums of a state store's files: Hadoop's on a local disk, Spark's own elsewhere."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from idlestate.pipeline.spark.spark_query import CHECKSUMS, leave_checksums_to_hadoop
from tests.pipeline.clicks import SCHEMA, hours, retained
from tests.pipeline.streams import Feed, run


class Settings(dict[str, str]):
    """Spark's settings of a session."""

    def contains(self, name: str) -> bool:
        return name in self

    def setConfString(self, name: str, value: str) -> None:  # noqa: N802 - Spark's name
        self[name] = value


@pytest.mark.parametrize(
    ("is_local", "chosen", "found"),
    [
        pytest.param(True, None, "false", id="local"),
        pytest.param(True, "true", "true", id="the-user-chose"),
        pytest.param(False, None, None, id="far"),
    ],
)
def test_spark_writes_no_checksums_where_hadoop_does(
    is_local: bool, chosen: str | None, found: str | None
) -> None:
    settings = Settings({} if chosen is None else {CHECKSUMS: chosen})
    session = SimpleNamespace(sessionState=lambda: SimpleNamespace(conf=lambda: settings))
    execution = SimpleNamespace(sparkSessionForStream=lambda: session)
    checkpoint: Any = SimpleNamespace(is_local=is_local)
    leave_checksums_to_hadoop(execution, checkpoint)
    assert settings.get(CHECKSUMS) == found


def test_a_flipped_byte_of_a_local_state_store_is_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "input", pa.schema(SCHEMA))
    checkpoint = tmp_path / "checkpoint"
    feed.add(hours(0, 1)[0])
    run(retained(feed.stream(spark)), checkpoint)
    files = list((checkpoint / "state").rglob("*.changelog"))
    assert files
    assert all(file.with_name(f".{file.name}.crc").exists() for file in files)
    assert not [path for path in checkpoint.rglob("*.crc") if not path.name.startswith(".")]
    assert spark.conf.get(CHECKSUMS) == "true"  # the session's other queries keep what they had

    for file in files:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    feed.add(hours(1, 2)[0])
    with pytest.raises(StreamingQueryException, match="CANNOT_LOAD_STATE_STORE"):
        run(retained(feed.stream(spark)), checkpoint)
