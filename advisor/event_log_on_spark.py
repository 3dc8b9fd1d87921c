"""A log on Spark, larger than memory. Only this file needs PySpark; it is imported on use.

The events are shuffled by key and sorted within each partition, once. Each task divides its events
into chunks of complete keys and sorts their gaps, and Spark stores these arrays on its disks. Every
question is a job that answers it for each chunk and adds up the answers. So a task needs memory for
a chunk, or for all events of one key if these are more.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from idlestate.advisor.batches import check_number, watermarks_of
from idlestate.advisor.bisection import first_true
from idlestate.advisor.chunks import SCHEMA, TIME, WIDTH, parts, prepare
from idlestate.advisor.event_columns import (
    Reading,
    check_columns,
    no_usable_row,
    unusable_key,
    unusable_time,
)
from idlestate.advisor.event_log import Extent, Leftovers
from idlestate.advisor.partial_counts import LifeCounts, LogPart
from idlestate.advisor.window_ladder import Window
from idlestate.config.time_kinds import FIRST_EVENT_TIME_MS
from idlestate.errors import RefusedError
from idlestate.retention.rules import Times

Ints = npt.NDArray[np.int64]
Question = Callable[[LogPart], Sequence[Ints]]

_TIMES_AT_ONCE = 1000
_WORD = 1 << 32
_WIDTHS: dict[type[DataType], int] = {
    BooleanType: 1,
    ByteType: 1,
    ShortType: 2,
    IntegerType: 4,
    LongType: 8,
    DateType: 4,
    TimestampType: 8,
    TimestampNTZType: 8,
}
"""Bytes of a key column, as in memory; texts and binaries vary."""


def spark_log(events: DataFrame, reading: Reading) -> tuple["SparkLog", Leftovers]:
    """The log of a batch DataFrame.

    Raises:
        RefusedError: a column is missing or of an unusable type, the DataFrame is a stream, the
            batches are of rows, or no row is left.
    """
    _check(events, reading)
    keys = [f"`{name}`" for name in reading.key]
    t_ms = F.unix_millis(F.col(f"`{reading.event_time}`").try_cast("timestamp"))
    is_good = t_ms.between(FIRST_EVENT_TIME_MS, reading.latest_ms)
    if reading.rejects_null_keys:
        for key in keys:
            is_good &= F.col(key).isNotNull()
    counted = events.agg(F.count(F.lit(1)), F.count_if(is_good)).first()
    assert counted is not None
    rows, good = counted
    if not good:
        raise no_usable_row(reading, rows)
    named = [F.col(key).alias(f"key_{at}") for at, key in enumerate(keys)]
    width = sum((_width(events, name) for name in reading.key), F.lit(0))
    by_key = [f"key_{at}" for at in range(len(keys))]
    ordered = (
        events.where(is_good)
        .select(*named, t_ms.alias(TIME), width.cast("long").alias(WIDTH))
        .repartition(*by_key)
        .sortWithinPartitions(*by_key, TIME)
    )
    chunks = ordered.mapInArrow(prepare, SCHEMA).persist(StorageLevel.DISK_ONLY)
    try:
        log = SparkLog.of(chunks, reading)
        key_bytes = chunks.agg(F.sum(WIDTH)).first()
    except BaseException:
        chunks.unpersist()
        raise
    assert key_bytes is not None
    return log, Leftovers(rejected_rows=rows - good, key_bytes=key_bytes[0])


@dataclass(frozen=True, slots=True, eq=False)
class _TimeBatches:
    """Batches of event time: their numbers since 1970, and the watermark that applies to each."""

    every_ms: int
    numbers: Ints
    watermarks_ms: Times

    def held(self, part: LogPart, windows: Sequence[Window]) -> list[Ints]:
        batch = np.searchsorted(self.numbers, part.sequences.t_ms // self.every_ms)
        return part.in_batches(batch).held(windows, self.watermarks_ms)


@dataclass(frozen=True, slots=True, eq=False)
class SparkLog:
    """A log on Spark, or a stretch of it."""

    _chunks: DataFrame
    _extent: Extent
    _batches: _TimeBatches | None
    _stretch: tuple[int, int] | None = None

    @classmethod
    def of(cls, chunks: DataFrame, reading: Reading) -> "SparkLog":
        """The log of prepared chunks."""
        log = cls(chunks, _measured(chunks, None), None)
        if reading.batches is None:
            return log
        return replace(log, _batches=_time_batches(chunks, reading))

    @property
    def pieces(self) -> int:
        """Few enough for the answers of all tasks to fit into the driver's memory."""
        return 1 << 12

    @property
    def extent(self) -> Extent:
        """How large it is."""
        return self._extent

    def middle_ms(self) -> int:
        """The time of the event in the middle."""
        wanted = self.extent.rows // 2 + 1

        def has_come(times_ms: Sequence[int]) -> list[bool]:
            times = np.array(times_ms)
            (counts,) = self._ask(lambda part: [part.rows_until(times)], [len(times)])
            return [count >= wanted for count in counts.tolist()]

        return first_true(has_come, self.extent.first_ms - 1, self.extent.last_ms, _TIMES_AT_ONCE)

    def between(self, from_ms: int, to_ms: int) -> "SparkLog":
        """Only the events in [from, to), without batches."""
        stretch = (from_ms, to_ms)
        return SparkLog(self._chunks, _measured(self._chunks, stretch), None, stretch)

    def tallies(self, windows: Sequence[Window], sweep_at_ms: int) -> list[LifeCounts]:
        """As `LogPart.tallies`, up to the end of the log."""
        end_ms = self.extent.last_ms

        def count(part: LogPart) -> list[Ints]:
            found = part.tallies(windows, end_ms, sweep_at_ms)
            # As two 64-bit words, because the sum over all parts may need more than 64 bits.
            return [
                np.array(
                    [
                        *(each.created, each.expired, each.returning, each.remembered),
                        *divmod(each.live_ms, _WORD),
                    ]
                )
                for each in found
            ]

        found = [counts.tolist() for counts in self._ask(count, [6] * len(windows))]
        return [
            LifeCounts(created, expired, returning, remembered, high * _WORD + low)
            for created, expired, returning, remembered, high, low in found
        ]

    def live(self, asked: Sequence[tuple[Window, Times]]) -> list[tuple[Ints, Ints]]:
        """As `LogPart.live`."""
        shapes = [stretches.shape for _, stretches in asked for _ in range(2)]
        flat = self._ask(
            lambda part: [counts.ravel() for both in part.live(asked) for counts in both],
            [rows * columns for rows, columns in shapes],
        )
        found = [counts.reshape(shape) for counts, shape in zip(flat, shapes, strict=True)]
        return list(zip(found[::2], found[1::2], strict=True))

    def held(self, windows: Sequence[Window]) -> list[Ints]:
        """How many lives are held after each batch; empty without batches."""
        batches = self._batches
        if batches is None:
            return [np.zeros(0, dtype=np.int64) for _ in windows]
        lengths = [len(batches.numbers)] * len(windows)
        return self._ask(lambda part: batches.held(part, windows), lengths)

    def close(self) -> None:
        """Remove its data from Spark."""
        self._chunks.unpersist()

    def _ask(self, question: Question, lengths: Sequence[int]) -> list[Ints]:
        """The sums of the answers of all parts, which have these lengths."""
        stretch = self._stretch

        def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            total = np.zeros(sum(lengths), dtype=np.int64)
            for part in parts(batches, stretch):
                total += np.concatenate(question(part))
            yield pa.RecordBatch.from_pydict({"sums": [total.tobytes()]})

        rows = _few(self._chunks).mapInArrow(answer, "sums binary").collect()
        total = sum((np.frombuffer(row.sums, dtype=np.int64) for row in rows), np.int64(0))
        return np.split(total, list(accumulate(lengths))[:-1])


def _check(events: DataFrame, reading: Reading) -> None:
    if events.isStreaming:
        raise RefusedError("events is a stream; pass a batch DataFrame, read with spark.read")
    if reading.batches is not None and not reading.batches.every_ms:
        raise RefusedError(
            "batches: rows of a Spark DataFrame have no order; pass event time per batch, as in 5m"
        )
    check_columns(events.columns, reading)
    kinds = {name: events.select(f"`{name}`").schema[0].dataType for name in reading.columns}
    time = kinds[reading.event_time]
    if not isinstance(time, (StringType, DateType, TimestampType, TimestampNTZType)):
        raise unusable_time(reading.event_time, time.simpleString())
    for name in reading.key:
        if not isinstance(kinds[name], (StringType, BinaryType, *_WIDTHS)):
            raise unusable_key(name, kinds[name].simpleString())


def _width(events: DataFrame, name: str) -> Column:
    """Bytes of a key column, as in memory."""
    column = F.col(f"`{name}`")
    width = _WIDTHS.get(type(events.select(column).schema[0].dataType))
    if width is None:
        return F.lit(4) + F.coalesce(F.octet_length(column), F.lit(0))
    return F.lit(width)


def _few(chunks: DataFrame) -> DataFrame:
    """As many partitions as tasks run at a time, because each sends an answer to the driver."""
    return chunks.coalesce(chunks.sparkSession.sparkContext.defaultParallelism)


def _measured(chunks: DataFrame, stretch: tuple[int, int] | None) -> Extent:
    def measure(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in parts(batches, stretch):
            gaps = part.gaps
            found = (part.rows, len(gaps.firsts), int(gaps.firsts[0]), int(gaps.lasts[-1]))
            yield pa.RecordBatch.from_arrays(
                [pa.array([each], pa.int64()) for each in found], ["rows", "keys", "low", "high"]
            )

    sizes = _few(chunks).mapInArrow(measure, "rows long, keys long, low long, high long")
    rows, keys, low, high = zip(*sizes.collect(), strict=True)
    return Extent(sum(rows), sum(keys), min(low), max(high))


def _time_batches(chunks: DataFrame, reading: Reading) -> _TimeBatches:
    assert reading.batches is not None
    every_ms = reading.batches.every_ms

    def highest(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in parts(batches, None):
            t_ms = np.sort(part.sequences.t_ms)
            number = t_ms // every_ms
            last = np.append(number[1:] != number[:-1], True)
            yield pa.RecordBatch.from_arrays(
                [pa.array(number[last]), pa.array(t_ms[last])], ["number", "high"]
            )

    found = chunks.mapInArrow(highest, "number long, high long").groupBy("number").max("high")
    check_number(found.count())
    rows = sorted((row[0], row[1]) for row in found.collect())
    numbers, high = np.array(rows, dtype=np.int64).T
    return _TimeBatches(every_ms, numbers, watermarks_of(high, reading.delay_ms))
