"""Runs of the command line: in this process over one shared session, or in a process of its own."""

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.conftest import spark, start_in  # noqa: F401 - fixtures
from tests.service.command_line import CommandLine
from tests.sidecar.conftest import folder, made, no_hang  # noqa: F401 - fixtures

LIMIT_S = 600


@pytest.fixture
def line(tmp_path: Path) -> CommandLine:
    """The command line with a folder of its own; a configuration is written with `line.write`."""
    return CommandLine(tmp_path)


@pytest.fixture
def here(
    line: CommandLine,
    spark: Any,  # noqa: F811 - the fixture, not the import
    no_hang: None,  # noqa: F811 - the fixture, not the import
    monkeypatch: pytest.MonkeyPatch,
) -> CommandLine:
    """The command line in this process: runs take the shared session and leave it running."""
    from pyspark.sql import SparkSession

    def given(partitions: int | None, log: Path) -> Any:
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions or 2))
        return spark

    monkeypatch.setattr("idlestate.service.job.start_spark", given)
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    return line
