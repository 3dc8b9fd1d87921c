"""What is shown of Spark's own stateful operators."""

from typing import Any

from idlestate.metrics import spark_metrics as own
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.spark_metrics import SparkMetrics
from idlestate.timers.clock import FakeClock


def operator(name: str, rows: int, **more: int) -> dict[str, Any]:
    facts = {"operatorName": name, "numRowsTotal": rows, "memoryUsedBytes": rows * 10}
    counts = {"numRowsUpdated": 3, "numRowsRemoved": 2, "numRowsDroppedByWatermark": 1}
    return {**facts, **counts, "allRemovalsTimeMs": 250, "customMetrics": {"x-1": 5}, **more}


def progress(second: int, *operators: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "an-id",
        "name": "counts",
        "timestamp": f"2025-03-03T10:00:{second:02}.500Z",
        "numInputRows": 100,
        "durationMs": {"triggerExecution": 1500},
        "stateOperators": list(operators),
        **more,
    }


def made() -> tuple[Exporter, SparkMetrics]:
    exporter = Exporter(FakeClock())
    return exporter, SparkMetrics(exporter)


def test_sizes_are_the_newest_and_counts_add_up() -> None:
    exporter, metrics = made()
    metrics.take(progress(0, operator("stateStoreSave", 5)), has_ours=False)
    metrics.take(progress(10, operator("stateStoreSave", 7)), has_ours=False)
    shown, at, query = exporter.samples(), ("counts", "0:stateStoreSave"), ("counts",)
    assert shown[own.STATE_ROWS] == {at: 7}
    assert shown[own.STATE_MEMORY] == {at: 70}
    assert shown[own.ROWS_UPDATED] == {at: 6}
    assert shown[own.ROWS_REMOVED] == {at: 4}
    assert shown[own.ROWS_DROPPED] == {at: 2}
    assert shown[own.REMOVAL_SECONDS] == {at: 0.5}
    assert shown[own.INPUT_ROWS] == {query: 200}
    assert shown[own.BATCH_SECONDS] == {query: 3.0}
    assert shown[own.LAST_BATCH_SECONDS] == {query: 1.5}
    assert shown[own.BATCH_INTERVAL] == {query: 10.0}


def test_a_query_without_a_name_has_its_id() -> None:
    exporter, metrics = made()
    metrics.take(progress(0, name=None), has_ours=False)
    assert set(exporter.samples()[own.INPUT_ROWS]) == {("an-id",)}


def test_our_own_operators_are_left_out() -> None:
    exporter, metrics = made()
    every = operator("transformWithStateInPySpark", 16), operator("dedupe", 4)
    metrics.take(progress(0, *every), has_ours=True)
    assert exporter.samples()[own.STATE_ROWS] == {("counts", "1:dedupe"): 4}
    metrics.take(progress(1, *every, name="other"), has_ours=False)
    assert len(exporter.samples()[own.STATE_ROWS]) == 3


def test_queries_that_reported_nothing_for_longest_are_forgotten() -> None:
    exporter, metrics = made()
    for number in range(own.MAX_QUERIES + 2):
        metrics.take(progress(0, name=f"query-{number}"), has_ours=False)
        metrics.take(progress(0, name="steady"), has_ours=False)
    assert len(metrics._queries) == own.MAX_QUERIES
    assert ("steady",) in exporter.samples()[own.INPUT_ROWS]
