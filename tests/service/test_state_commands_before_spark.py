"""What commands on a checkpoint check and say before a JVM starts, and where Spark logs."""

import os
import shutil
from pathlib import Path
from tempfile import gettempdir

import pytest
from click.testing import CliRunner

from idlestate.errors import RefusedError
from idlestate.service import state_commands
from idlestate.service.cli import main
from tests.pipeline.made_checkpoint import make_clicks

Started = list[Path]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint"
    make_clicks(path)
    return path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The logs of the sessions that were asked for; none starts."""
    logs: Started = []

    def refuse(_partitions: int | None, log: Path) -> None:
        logs.append(log)
        raise RefusedError("Spark did not start")

    monkeypatch.setattr("idlestate.service.spark_session.start_spark", refuse)
    return logs


def refusal(*words: object) -> str:
    done = CliRunner().invoke(main, [*map(str, words)])
    assert done.exit_code != 0
    assert "Traceback" not in done.output
    return done.stderr


@pytest.mark.parametrize("command", ["ls", "stats", "verify"])
def test_a_uid_that_is_not_there_is_refused_without_spark(
    command: str, checkpoint: Path, started: Started
) -> None:
    assert "it holds" in refusal("state", command, checkpoint, "--uid", "other")
    assert started == []


def test_a_batch_that_cannot_be_is_refused_without_spark(
    checkpoint: Path, started: Started
) -> None:
    assert "-1 is not in the range" in refusal("state", "rollback", checkpoint, "--to", "-1")
    assert started == []


def test_plan_and_explain_say_why_they_need_spark(checkpoint: Path, started: Started) -> None:
    for record in checkpoint.rglob("*record*"):
        record.unlink()
    said = refusal("explain", checkpoint, "--key", "a")
    assert "Spark did not start; Spark is needed because of checkpoint" in said
    assert "has no whole copy of its newest records" in said
    assert started == [checkpoint.parent / "checkpoint.spark.log"]


def test_spark_logs_elsewhere_if_nothing_can_be_written_beside_the_checkpoint(
    checkpoint: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root, as which tests may run, may write everywhere.
    monkeypatch.setattr(state_commands.os, "access", lambda _, mode: mode != os.W_OK)
    refusal("state", "ls", checkpoint)
    (log,) = started
    assert log.is_relative_to(gettempdir())
    assert not log.is_relative_to(checkpoint.parent)
    shutil.rmtree(log.parent)
