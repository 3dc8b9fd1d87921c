"""What a running query is told by, from Spark's progress; without Spark."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from idlestate.backends.checkpoint.operator_layout import OperatorLayout, read_layout, write_layout
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_report import OBSERVATION, ShardReport, report_of
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.metrics import families
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.growth_log import GrowthLog
from idlestate.pipeline import session_metrics
from idlestate.pipeline.session_metrics import SessionMetrics
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.retention.policy_version import PolicyVersion
from idlestate.service.monitor import Monitor
from idlestate.timers.clock import FakeClock

UID, POLICY, RUN = "clicks", Policy(ttl_ms=10), "run-1"
REPORT = report_of(ShardRecord(UID), PolicyVersion(1, 0, POLICY), BatchTimes(0, 0, 0))


class Query:
    """A query of one operator, as its checkpoint and Spark's progress tell of it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checkpoint = Folder(str(folder))
        self.clock = FakeClock(1_000_000)
        self.exporter = Exporter(self.clock)
        self.metrics = SessionMetrics(self.exporter)
        spec = TableSpec((("user", pa.string()),), aggregation({"n": "count"}, {}))
        layout = OperatorLayout.of(spec, TimeDomain.EVENT, 1, 2, 10)
        write_layout(self.checkpoint, UID, layout)
        PolicyJournal(self.checkpoint, UID).append(POLICY, 0)
        self.reports = [replace(REPORT, shard=shard) for shard in layout.shards]
        operator = SimpleNamespace(uid=UID, policy=POLICY, backend="spark", terms={})
        found = {RUN: (self.checkpoint, [operator])}
        monkeypatch.setattr(session_metrics, "started_query", lambda _, run_id: found.get(run_id))
        monkeypatch.setattr(self.metrics, "_spark", object())

    def log(self, log: str, batch_id: int, **facts: int) -> None:
        self.checkpoint.replace(f"{log}/{batch_id}", f"v1\n{json.dumps(facts)}".encode())

    def progress(self, batch_id: int, read: int, *reports: ShardReport, **other: Any) -> None:
        """Spark reports a batch that read so many rows of all sources."""
        observed = {f"{OBSERVATION}{UID}": {"reports": [each.to_json() for each in reports]}}
        facts = {
            "id": "query-1",
            "name": None,
            "runId": RUN,
            "batchId": batch_id,
            "timestamp": f"2025-03-03T10:00:{batch_id:02}.000Z",
            "numInputRows": read,
            "durationMs": {"triggerExecution": 500},
            "observedMetrics": observed,
        }
        self.metrics.handle("progress", json.dumps(facts | other))

    def shown(self, name: families.Name) -> Any:
        return self.exporter.samples().get(name, {}).get((UID,))


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Query:
    return Query(tmp_path, monkeypatch)


@pytest.mark.parametrize("before", [0, 100])
def test_expired_records_that_come_back_are_no_input(
    query: Query, tmp_path: Path, before: int
) -> None:
    query.log("offsets", 0, batchTimestampMs=0, batchWatermarkMs=0)
    growth = GrowthLog(tmp_path / "growth.jsonl")
    monitor = Monitor(UID, POLICY, query.checkpoint, query.metrics, growth)
    one, other = query.reports
    if before:
        monitor.begin_with_reports([replace(one, input=before), other], 0)
    query.progress(1, 30, replace(one, input=before + 30, batch_id=1))
    query.progress(2, 25)
    query.progress(3, 65, replace(one, input=before + 70, batch_id=3))
    assert [each.rows for each in monitor.take()] == [30, 0, 40]
    assert [each.rows for each in monitor.take()] == []


def test_an_operator_is_shown_when_all_its_shards_have_reported(query: Query) -> None:
    query.log("commits", 4, nextBatchWatermarkMs=0)
    query.log("offsets", 4, batchTimestampMs=0, batchWatermarkMs=0)
    one, other = query.reports
    query.progress(5, 1, replace(one, live_keys=3))
    assert query.shown(families.LIVE_KEYS) is None
    query.progress(6, 1, replace(other, live_keys=4))
    assert query.shown(families.LIVE_KEYS) == 7


def test_an_operator_of_a_new_checkpoint_is_shown_at_once(query: Query) -> None:
    query.metrics.handle("started", RUN)
    assert query.shown(families.LIVE_KEYS) == 0
    assert query.shown(families.RETENTION_TTL) == 0.01


def test_a_started_query_is_found_as_soon_as_it_is_known(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = session_metrics.started_query
    monkeypatch.setattr(session_metrics, "started_query", lambda *_: None)
    query.metrics.handle("started", RUN)
    assert query.shown(families.LIVE_KEYS) is None
    monkeypatch.setattr(session_metrics, "started_query", known)
    query.metrics.handle("", "")
    assert query.shown(families.LIVE_KEYS) == 0


def test_the_expiry_lag_in_event_time_goes_by_the_watermark_of_the_next_batch(
    query: Query,
) -> None:
    """Also while that batch hangs: its watermark is known from the commit before it."""
    query.log("commits", 1, nextBatchWatermarkMs=7_000)
    reports = [
        replace(each, next_end_ms=end)
        for each, end in zip(query.reports, (5_000, 6_500), strict=True)
    ]
    query.progress(1, 1, *(replace(each, time_ms=4_000) for each in reports))
    assert query.shown(families.WATERMARK) == 4
    assert query.shown(families.EXPIRY_LAG) == 2
    query.progress(2, 0, replace(reports[0], next_end_ms=9_000), reports[1])
    assert query.shown(families.EXPIRY_LAG) == 0.5


def test_the_expiry_lag_in_processing_time_goes_by_the_wall_clock(query: Query) -> None:
    policy = Policy(ttl_ms=10, time=TimeDomain.PROCESSING)
    PolicyJournal(query.checkpoint, UID).append(policy, 0)
    end_ms = query.clock.now_ms() + 5_000
    query.progress(
        1, 1, *(replace(each, next_end_ms=end_ms, policy_version=2) for each in query.reports)
    )
    for step_ms, lag_s in ((0, 0), (5_000, 0), (1, 0.001), (60_000, 60.001)):
        query.clock.advance(step_ms)
        assert query.shown(families.EXPIRY_LAG) == lag_s


def test_a_policy_change_is_shown_with_the_batch_that_goes_by_it(query: Query) -> None:
    PolicyJournal(query.checkpoint, UID).append(Policy(ttl_ms=20), 0)
    query.progress(1, 1, *query.reports)
    assert (query.shown(families.POLICY_VERSION), query.shown(families.RETENTION_TTL)) == (1, 0.01)
    query.progress(2, 1, *(replace(each, policy_version=2) for each in query.reports))
    assert (query.shown(families.POLICY_VERSION), query.shown(families.RETENTION_TTL)) == (2, 0.02)


def test_all_that_a_query_reported_is_there_when_it_has_ended(query: Query) -> None:
    assert not query.metrics.wait_for_end(RUN, 0)
    query.metrics.handle("ended", RUN)
    assert query.metrics.wait_for_end(RUN, 0)


def test_counters_do_not_fall_back_to_batches_that_were_taken_over(query: Query) -> None:
    """A query is found late: its checkpoint is ahead of progress that is still on the way."""
    one, other = query.reports
    query.log("offsets", 5, batchTimestampMs=0, batchWatermarkMs=0)
    reports = query.metrics.operator(UID, POLICY, query.checkpoint)
    reports.begin_with([replace(one, input=50, batch_id=5), other], 5)
    query.progress(4, 1, replace(one, input=40, batch_id=4))
    assert query.shown(families.INPUT_ROWS) == 50
    query.progress(6, 1, replace(one, input=60, batch_id=6))
    assert query.shown(families.INPUT_ROWS) == 60


def test_a_checkpoint_that_was_made_anew_starts_from_zero(query: Query) -> None:
    query.progress(1, 1, *(replace(each, input=5) for each in query.reports))
    assert query.shown(families.INPUT_ROWS) == 10
    query.metrics.handle("started", RUN)
    assert query.shown(families.INPUT_ROWS) == 0


def test_a_query_without_operators_is_not_looked_for_without_end(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    monkeypatch.setattr(session_metrics, "started_query", lambda _, run_id: looks.append(run_id))
    query.metrics.handle("started", "other")
    for _ in range(100):
        query.metrics.handle("", "")
    assert len(looks) == 21


def test_counters_do_not_fall_back_when_the_last_batch_runs_again(query: Query) -> None:
    one, other = query.reports
    query.log("offsets", 5, batchTimestampMs=0, batchWatermarkMs=0)
    reports = query.metrics.operator(UID, POLICY, query.checkpoint)
    reports.begin_with([replace(one, input=50, batch_id=5), other], 5)
    query.metrics.show(reports)
    query.log("commits", 4, nextBatchWatermarkMs=0)  # that of batch 5 was taken back
    query.metrics.handle("started", RUN)
    assert query.shown(families.INPUT_ROWS) == 50
    query.progress(5, 1, replace(one, input=51, batch_id=5))
    assert query.shown(families.INPUT_ROWS) == 51


def test_of_state_in_a_sidecar_the_driver_does_not_say_what_is_overdue(query: Query) -> None:
    """The sidecar sweeps between batches: what was due after the last one says nothing."""
    layout = replace(read_layout(query.checkpoint, UID), backend="heap")
    write_layout(query.checkpoint, UID, layout)
    query.log("commits", 1, nextBatchWatermarkMs=7_000)
    query.progress(1, 1, *(replace(each, next_end_ms=5_000) for each in query.reports))
    assert query.shown(families.LIVE_KEYS) == 0
    assert query.shown(families.EXPIRY_LAG) is None
    assert query.shown(families.SWEPT) is None
