"""Metrics of Spark's own stateful queries, from the progress that Spark reports.

They show what grows without retention. Names of Spark's custom metrics contain partitions, so none
of them is exported. Sums begin with this process.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any, Final

from idlestate.metrics.exporter import Exporter
from idlestate.metrics.families import PREFIX, MetricKind, Name
from idlestate.metrics.samples import Labels, Samples

QUERY: Final = "query"
STATE_OPERATOR: Final = "state_operator"
MAX_QUERIES: Final = 1000
"""If there are more, those without a report for the longest time are forgotten."""
_OURS: Final = "transformWithState"
_SERIES = 40
"""The series of one query with a few stateful operators."""


def _of_state(name: str, kind: MetricKind, text: str) -> Name:
    end = "_total" if kind is MetricKind.COUNTER else ""
    return Name(f"{PREFIX}spark_{name}{end}", kind, text, (QUERY, STATE_OPERATOR))


def _of_query(name: str, kind: MetricKind, text: str) -> Name:
    end = "_total" if kind is MetricKind.COUNTER else ""
    return Name(f"{PREFIX}spark_{name}{end}", kind, text, (QUERY,))


STATE_ROWS: Final = _of_state(
    "state_rows", MetricKind.GAUGE, "Rows in the state of a stateful operator of Spark."
)
STATE_MEMORY: Final = _of_state(
    "state_memory_bytes",
    MetricKind.GAUGE,
    "Memory that the state of a stateful operator of Spark takes, in bytes.",
)
ROWS_UPDATED: Final = _of_state(
    "state_rows_updated", MetricKind.COUNTER, "Rows of state that a stateful operator updated."
)
ROWS_REMOVED: Final = _of_state(
    "state_rows_removed", MetricKind.COUNTER, "Rows of state that a stateful operator removed."
)
ROWS_DROPPED: Final = _of_state(
    "rows_dropped_by_watermark",
    MetricKind.COUNTER,
    "Rows that a stateful operator of Spark dropped as late.",
)
REMOVAL_SECONDS: Final = _of_state(
    "state_removal_seconds",
    MetricKind.COUNTER,
    "Time that a stateful operator spent on removing rows of state, summed over its tasks.",
)
INPUT_ROWS: Final = _of_query("input_rows", MetricKind.COUNTER, "Rows read by a query.")
BATCH_SECONDS: Final = _of_query("batch_seconds", MetricKind.COUNTER, "Time spent in batches.")
LAST_BATCH_SECONDS: Final = _of_query(
    "last_batch_seconds", MetricKind.GAUGE, "Duration of the newest batch."
)
BATCH_INTERVAL: Final = _of_query(
    "batch_interval_seconds",
    MetricKind.GAUGE,
    "Time between the starts of the two newest batches; 0 before the second.",
)
OF_SPARK: Final = (
    STATE_ROWS,
    STATE_MEMORY,
    ROWS_UPDATED,
    ROWS_REMOVED,
    ROWS_DROPPED,
    REMOVAL_SECONDS,
    INPUT_ROWS,
    BATCH_SECONDS,
    LAST_BATCH_SECONDS,
    BATCH_INTERVAL,
)


@dataclass(slots=True)
class _Query:
    """What is known about a query."""

    began_s: float = 0.0
    values: dict[Name, dict[Labels, float]] = field(default_factory=dict)

    def set(self, name: Name, labels: Labels, value: float) -> None:
        self.values.setdefault(name, {})[labels] = value

    def add(self, name: Name, labels: Labels, value: float) -> None:
        of = self.values.setdefault(name, {})
        of[labels] = of.get(labels, 0.0) + value


class SparkMetrics:
    """Exports the metrics of the queries of a session; any thread may call it.

    Args:
        exporter: where they are exported.
    """

    def __init__(self, exporter: Exporter) -> None:
        self._cap = exporter.cap
        self._lock = Lock()
        self._queries: dict[str, _Query] = {}
        exporter.add(OF_SPARK, self._samples)

    def take(self, progress: Mapping[str, Any], *, has_ours: bool) -> None:
        """Take a batch's progress.

        Args:
            progress: as in Spark's JSON.
            has_ours: whether the query keeps state of idlestate in Spark. Spark's figures of these
                operators count shards, not keys, so they are left out.
        """
        called = progress.get("name") or progress["id"]
        seconds = progress.get("durationMs", {}).get("triggerExecution", 0) / 1000
        began_s = datetime.fromisoformat(progress["timestamp"]).timestamp()
        with self._lock:
            query = self._queries.pop(called, None) or _Query()
            self._queries[called] = query  # the newest is last
            while len(self._queries) > MAX_QUERIES:
                del self._queries[next(iter(self._queries))]
            labels = (called,)
            query.add(INPUT_ROWS, labels, progress.get("numInputRows", 0))
            query.add(BATCH_SECONDS, labels, seconds)
            query.set(LAST_BATCH_SECONDS, labels, seconds)
            interval_s = began_s - query.began_s if query.began_s else 0.0
            query.set(BATCH_INTERVAL, labels, max(interval_s, 0.0))
            query.began_s = began_s
            for at, operator in enumerate(progress.get("stateOperators", ())):
                name = operator["operatorName"]
                if not (has_ours and name.startswith(_OURS)):
                    _take_operator(query, (called, f"{at}:{name}"), operator)

    def _samples(self, _now_ms: int) -> Samples:
        with self._lock:
            shown = self._cap.admitted(QUERY, self._queries, _SERIES)
            every = [query for called, query in self._queries.items() if called in shown]
            return {
                name: {
                    at: value for each in every for at, value in each.values.get(name, {}).items()
                }
                for name in OF_SPARK
            }


def _take_operator(query: _Query, labels: Labels, operator: Mapping[str, Any]) -> None:
    query.set(STATE_ROWS, labels, operator.get("numRowsTotal", 0))
    query.set(STATE_MEMORY, labels, operator.get("memoryUsedBytes", 0))
    query.add(ROWS_UPDATED, labels, operator.get("numRowsUpdated", 0))
    query.add(ROWS_REMOVED, labels, operator.get("numRowsRemoved", 0))
    query.add(ROWS_DROPPED, labels, operator.get("numRowsDroppedByWatermark", 0))
    query.add(REMOVAL_SECONDS, labels, operator.get("allRemovalsTimeMs", 0) / 1000)
