"""The contestants: every query counts events per key, lets the first of each through or calls a
function, or joins two inputs, and hands what comes out to a noop sink.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from idlestate import Policy, deduplicate, retain, session, tumbling
from idlestate.retention.policy import TimeDomain
from joins import asof_join, asof_rows, interval_join, regular_join, spark_join
from recipes import WINDOW_MS, Windows
from third_events import with_process, with_state

UID = "bench"
SHARDS = 8
COUNTED = StructType([StructField("key", StringType()), StructField("n", LongType())])
Build = Callable[..., DataFrame]
"""Makes a query of its inputs and the windows."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A query and how it is written."""

    name: str
    text: str
    build: Build
    output_mode: str
    settings: tuple[tuple[str, str], ...] = ()
    """What this query needs besides the settings of all."""
    inputs: int = 1
    """Two: every batch has as many rows of each, half of the rows in all."""


def group_by(events: DataFrame, windows: Windows) -> DataFrame:
    """Spark's own aggregation, in the JVM: forgets nothing."""
    del windows
    return events.groupBy("key").count()


def bare(events: DataFrame, windows: Windows) -> DataFrame:
    """What moving the rows through a shuffle and Python costs, with no state at all."""
    del windows

    def identity(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    return events.select("key").repartition("key").mapInArrow(identity, "key string")


def retain_event(events: DataFrame, windows: Windows) -> DataFrame:
    """Idle windows in event time."""
    policy = Policy(idle_min_ms=windows.min_ms, idle_max_ms=windows.max_ms, min_gap_ms=0)
    return retain(
        events,
        key="key",
        aggregates={"n": "count"},
        uid=UID,
        event_time="event_time",
        policy=policy,
    )


def retain_held(*, in_order: bool) -> Build:
    """Idle windows in event time, behind a delay of a tenth of a batch."""

    def build(events: DataFrame, windows: Windows) -> DataFrame:
        policy = Policy(idle_min_ms=windows.min_ms, idle_max_ms=windows.max_ms, min_gap_ms=0)
        return retain(
            events,
            key="key",
            aggregates={"n": "count"},
            uid=UID,
            event_time="event_time",
            delay=f"{WINDOW_MS // 10}ms",
            policy=policy,
            in_order=in_order,
        )

    return build


def retain_processing(events: DataFrame, windows: Windows) -> DataFrame:
    """Idle windows in processing time."""
    policy = Policy(
        idle_min_ms=windows.min_ms,
        idle_max_ms=windows.max_ms,
        time=TimeDomain.PROCESSING,
        min_gap_ms=0,
    )
    return retain(events, key="key", aggregates={"n": "count"}, uid=UID, policy=policy)


class Nothing(StatefulProcessor):
    """A shard's state, read and written back, and nothing made of it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._value = handle.getValueState("shard", StructType([StructField("value", LongType())]))

    def handleInputRows(  # type: ignore[override]  # noqa: N802 - Spark's name; pandas frames
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        seen = self._value.get()
        self._value.update((len(list(rows)) + (seen[0] if seen else 0),))
        yield pd.DataFrame({"key": [str(key[0])], "n": [0]})

    def close(self) -> None:
        pass


def packed_nothing(events: DataFrame, windows: Windows) -> DataFrame:
    """The way of retain's data, with nothing done on it: what no such operator can be below."""
    del windows

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(len(batch) for batch in batches)
        yield pa.RecordBatch.from_pydict(
            {"shard": pa.array(range(SHARDS), pa.int32()), "rows": [rows] * SHARDS}
        )

    packed = events.select("key").mapInArrow(pack, "shard int, rows long")
    return packed.groupBy("shard").transformWithStateInPandas(Nothing(), COUNTED, "Append", "None")


def retain_in_sidecar(backend: str) -> Build:
    """Idle windows in event time, state in a sidecar that the driver starts."""

    def build(events: DataFrame, windows: Windows) -> DataFrame:
        policy = Policy(idle_min_ms=windows.min_ms, idle_max_ms=windows.max_ms, min_gap_ms=0)
        return retain(
            events,
            key="key",
            aggregates={"n": "count"},
            uid=UID,
            event_time="event_time",
            policy=policy,
            backend=backend,
        )

    return build


class TtlCount(StatefulProcessor):
    """A count per key whose state lives for a TTL after its last write."""

    def __init__(self, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        schema = StructType([StructField("n", LongType())])
        self._count = handle.getValueState("count", schema, self._ttl_ms)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        counted = sum(1 for _ in rows)
        before = self._count.get()
        counted += before[0] if before else 0
        self._count.update((counted,))
        yield Row(key=key[0], n=counted)

    def close(self) -> None:
        pass


def state_with_ttl(events: DataFrame, windows: Windows) -> DataFrame:
    """Spark's stateful operator from Python, row by row, with its own TTL."""
    return events.groupBy("key").transformWithState(
        TtlCount(windows.max_ms), COUNTED, "Update", "ProcessingTime"
    )


def first_of_each(events: DataFrame, windows: Windows) -> DataFrame:
    """The first record of each key within a span, and a row when the span ends."""
    return deduplicate(
        events,
        key="key",
        uid=UID,
        event_time="event_time",
        delay=f"{windows.max_ms}ms",
        policy=Policy(max_lifetime_ms=windows.max_ms),
    )


def drop_duplicates(events: DataFrame, windows: Windows) -> DataFrame:
    """Spark's own: state goes when the watermark is a delay past the first record."""
    marked = events.withWatermark("event_time", f"{windows.max_ms} milliseconds")
    return marked.dropDuplicatesWithinWatermark(["key"])


def retain_by(window: Callable[[str], Any], **more: Any) -> Build:
    """Final counts by window, of the span that the policy's max would be."""

    def build(events: DataFrame, windows: Windows) -> DataFrame:
        span = f"{windows.max_ms}ms"
        return retain(
            events,
            key="key",
            aggregates={"n": "count"},
            uid=UID,
            event_time="event_time",
            window=window(span),
            **more,
        )

    return build


def spark_by(window: Callable[..., Column]) -> Build:
    """The same by Spark's own windows."""

    def build(events: DataFrame, windows: Windows) -> DataFrame:
        marked = events.withWatermark("event_time", "0 seconds")
        span = window("event_time", f"{windows.max_ms} milliseconds")
        return marked.groupBy("key", span).count()

    return build


# An availableNow query with state TTL never ends unless batches without data are off.
_ENDS = (("spark.sql.streaming.noDataMicroBatches.enabled", "false"),)

GROUP_BY = Contestant("groupBy", "groupBy().count(), RocksDB store", group_by, "update")
NOTHING = Contestant("nothing", "packed, no work", packed_nothing, "append")
BARE = Contestant("bare", "shuffle + identity mapInArrow", bare, "append")
RETAIN_EVENT = Contestant("retain-event", "retain, event time", retain_event, "append")
RETAIN_PROCESSING = Contestant(
    "retain-processing", "retain, processing time", retain_processing, "append"
)
RETAIN_DELAYED = Contestant(
    "retain-delayed", "retain, with a delay", retain_held(in_order=False), "append"
)
RETAIN_IN_ORDER = Contestant(
    "retain-in-order", "the same, in_order", retain_held(in_order=True), "append"
)
RETAIN_ROCKSDB = Contestant(
    "retain-rocksdb", "retain, backend: rocksdb", retain_in_sidecar("rocksdb"), "append"
)
RETAIN_HEAP = Contestant(
    "retain-heap", "retain, backend: heap", retain_in_sidecar("heap"), "append"
)
TTL = Contestant("ttl", "transformWithState (Row), TTL", state_with_ttl, "update", _ENDS)
DEDUPLICATE = Contestant("deduplicate", "deduplicate, first", first_of_each, "append")
DROP_DUPLICATES = Contestant(
    "dropDuplicates", "dropDuplicatesWithinWatermark()", drop_duplicates, "append"
)
RETAIN_SESSION = Contestant(
    "retain-session", "retain, session window", retain_by(session), "append"
)
SESSION_WINDOW = Contestant(
    "sessionWindow", "groupBy(session_window())", spark_by(F.session_window), "append"
)
RETAIN_TUMBLING = Contestant(
    "retain-tumbling",
    "retain, tumbling window",
    retain_by(tumbling, fire_after="0s"),
    "append",
)
WINDOW = Contestant("window", "groupBy(window())", spark_by(F.window), "append")
PROCESS = Contestant("process", "process, a function with a timer", with_process, "append")
PROCESS_ROW = Contestant(
    "process-row", "the same on transformWithState (Row)", with_state, "append", _ENDS
)
INTERVAL_JOIN = Contestant("join", "join, an interval", interval_join, "append", inputs=2)
REGULAR_JOIN = Contestant(
    "regular-join", "join with a time to live", regular_join, "append", inputs=2
)
SPARK_JOIN_2, SPARK_JOIN_4 = (
    Contestant(
        f"spark-join-{version}",
        f"Spark's join of streams, state format {version}",
        spark_join,
        "append",
        (("spark.sql.streaming.join.stateFormatVersion", version),),
        inputs=2,
    )
    for version in ("2", "4")
)
ASOF_JOIN = Contestant("join-asof", "join_asof", asof_join, "append", inputs=2)
ASOF_ROW = Contestant(
    "asof-row", "the same on transformWithState (Row)", asof_rows, "append", inputs=2
)

SPARKS = (
    *(GROUP_BY, BARE, NOTHING, TTL, DROP_DUPLICATES, SESSION_WINDOW, WINDOW),
    *(PROCESS_ROW, SPARK_JOIN_2, SPARK_JOIN_4, ASOF_ROW),
)
"""What the others are compared with."""
CONTESTANTS = {
    each.name: each
    for each in (
        *SPARKS,
        *(RETAIN_EVENT, RETAIN_PROCESSING, RETAIN_ROCKSDB, RETAIN_HEAP),
        *(RETAIN_DELAYED, RETAIN_IN_ORDER),
        *(RETAIN_SESSION, RETAIN_TUMBLING, DEDUPLICATE, PROCESS),
        *(INTERVAL_JOIN, REGULAR_JOIN, ASOF_JOIN),
    )
}
