"""What a running query is told by, from Spark's progress; without Spark."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from idlestate.backends.files.batch_log import BatchTimes
from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.metrics.driver_metrics import DriverMetrics
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.growth import GrowthLog
from idlestate.pipeline.checkpoint.operator_layout import PolicyJournal, PolicyVersion
from idlestate.pipeline.shard_report import OBSERVATION, ShardReport, report_of
from idlestate.retention.policy import Policy
from idlestate.service.monitor import Monitor
from idlestate.timers.clock import FakeClock

UID, POLICY = "clicks", Policy(ttl_ms=10)
REPORT = report_of(ShardRecord(UID), PolicyVersion(1, 0, POLICY), BatchTimes(0, 0, 0))


def progress(batch_id: int, read: int, *reports: ShardReport) -> Any:
    """A batch that read so many rows of all sources, with its reports."""
    return SimpleNamespace(
        batchId=batch_id,
        numInputRows=read,
        durationMs={"triggerExecution": 500},
        observedMetrics={f"{OBSERVATION}{UID}": {"shards": [asdict(each) for each in reports]}},
    )


@pytest.mark.parametrize("before", [0, 100])
def test_expired_records_that_come_back_are_no_input(tmp_path: Path, before: int) -> None:
    checkpoint = Folder(str(tmp_path))
    PolicyJournal(checkpoint, UID).append(POLICY, 0)
    (tmp_path / "offsets").mkdir()
    times = {"batchTimestampMs": 0, "batchWatermarkMs": 0}
    (tmp_path / "offsets" / "0").write_text(f"v1\n{json.dumps(times)}")
    metrics = DriverMetrics(Exporter(FakeClock()), UID)
    growth = GrowthLog(tmp_path / "growth.jsonl")
    monitor = Monitor(UID, POLICY, checkpoint, metrics, growth)
    if before:
        monitor.begin_with_reports([replace(REPORT, input=before)], 0)
    batches = [
        progress(1, 30, replace(REPORT, input=before + 30, batch_id=1)),
        progress(2, 25),
        progress(3, 65, replace(REPORT, input=before + 70, batch_id=3)),
    ]
    assert [each.rows for each in monitor.take(batches)] == [30, 0, 40]
