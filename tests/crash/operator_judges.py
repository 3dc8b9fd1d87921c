"""What histories of other operators than `retain` should have left, by their slow references.

Rows of these operators take their turn in order, or are of windows: what comes out does not depend
on how records are divided into batches, but for what is late, and what is shown of a window early.
Both follow from the batches that the history itself planned.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any

from tests.crash.checkpoint_view import Planned
from tests.crash.crash_input import AGGREGATES, DELAY_MS, EVENT_RULE, CrashInput
from tests.crash.deduplicate_judge import judge_deduplicate
from tests.crash.outcome import Difference, compare, compare_counts, facts, planned_batches
from tests.crash.own_job import (
    EARLIEST_MS,
    FIRE_AFTER_MS,
    FIRST_PRICE,
    GAP_MS,
    LATEST_MS,
    LEFT_KEPT_MS,
    RIGHT_KEPT_MS,
    SIZE_MS,
    SLIDE_MS,
    Shop,
    Visits,
)
from tests.function_reference import Model
from tests.reference import Record
from tests.reference_joins import AsOfReference, in_turn
from tests.reference_pipeline import DAY_MS, make_sequence, why_rejected
from tests.reference_stream_joins import JoinedRow, StreamJoinReference
from tests.window_reference import FixedWindows, Sessions, rows_of

AHEAD_MS = 3_600_000
PROBE, VERSION = ("event_time", "amount"), ("at", "price")
WINDOW = ("user", "window_start", "window_end", *AGGREGATES)
Row = Mapping[str, Any]
Plans = Mapping[int, Planned]


@dataclass
class Batch:
    """The records of a batch that are neither rejected nor late, and its watermark."""

    watermark_ms: int
    has_data: bool
    records: list[Record] = field(default_factory=list)


@dataclass
class Arrived:
    """All batches of a history."""

    batches: list[Batch] = field(default_factory=list)
    input: int = 0
    late: int = 0
    highest_ms: int = 0

    @property
    def records(self) -> Iterator[Record]:
        return chain.from_iterable(batch.records for batch in self.batches)


def arrived(
    given: CrashInput,
    plans: Plans,
    inputs: int = 1,
    input_of: Callable[[Record], int] = lambda _: 0,
) -> Arrived:
    """What a history read: of several inputs, the one that is furthest behind is waited for."""
    found = Arrived()
    highest_ms: dict[int, int] = {}
    watermark_ms = 0
    for batch_id, records in enumerate(planned_batches(given, plans)):
        if len(highest_ms) == inputs:
            watermark_ms = max(watermark_ms, min(highest_ms.values()) - DELAY_MS - 1)
        batch = Batch(watermark_ms, bool(records))
        for record in records:
            if why_rejected(record, DAY_MS, plans[batch_id].time_ms + AHEAD_MS):
                continue
            assert record.t_ms is not None
            of = input_of(record)
            highest_ms[of] = max(highest_ms.get(of, 0), record.t_ms)
            if record.t_ms <= watermark_ms:
                found.late += 1
            else:
                batch.records.append(record)
        found.batches.append(batch)
        found.input += len(records)
    found.highest_ms = max(highest_ms.values())
    return found


def judge_function(given: CrashInput, plans: Plans, left: Row) -> list[Difference]:
    came = arrived(given, plans)
    model = Model(Visits(), [Visits.count, Visits.recent], EVENT_RULE)
    for record in make_sequence(came.records):
        assert record.t_ms is not None
        model.record(record.key[0], record.t_ms, SimpleNamespace(**record.values))
    model.sweep(came.highest_ms)
    counts = {key: life["cells"]["count"].value() for key, life in model.lives.items()}
    return [
        compare("rows", Counter(model.rows), facts(left["changes"], ("user", "what", "at_ms"))),
        compare("states", Counter(counts.items()), facts(left["lives"], ("user", "count"))),
        same_counts(left, came.input + given.malformed, came.late, len(counts)),
    ]


def judge_co_function(given: CrashInput, plans: Plans, left: Row) -> list[Difference]:
    came = arrived(given, plans, 2, is_version)
    model = Model(Shop(), [Shop.count, Shop.recent], EVENT_RULE)
    for record in sorted(came.records, key=co_turn):
        assert record.t_ms is not None
        amount = record.values["amount"]
        method = "process_element2" if is_version(record) else "process_element1"
        row = SimpleNamespace(_method=method, amount=amount, price=amount)
        model.record(record.key[0], record.t_ms, row)
    model.sweep(came.highest_ms)
    counts = {key: state_of(life["cells"]["count"]) for key, life in model.lives.items()}
    return [
        compare("rows", Counter(model.rows), facts(left["changes"], ("user", "what", "at_ms"))),
        compare("states", Counter(counts.items()), facts(left["lives"], ("user", "count"))),
        same_counts(left, came.input, came.late, len(counts)),
    ]


def co_turn(record: Record) -> tuple[Any, ...]:
    """Rows with small amounts before prices of the same time."""
    return record.t_ms, is_version(record), record.values["amount"]


def state_of(cell: Any) -> Any:
    """What is kept of a value; None for the default."""
    return cell.items[0][1] if cell.items else None


def judge_join(
    given: CrashInput,
    plans: Plans,
    left: Row,
    between: tuple[int, int] | None = (EARLIEST_MS, LATEST_MS),
    spans_ms: tuple[int | None, int | None] = (None, None),
) -> list[Difference]:
    came = arrived(given, plans, 2, is_version)
    reference = StreamJoinReference("full", between, spans_ms)
    for batch in came.batches:
        for record in batch.records:
            assert record.t_ms is not None
            value = record.t_ms, record.values["amount"]
            reference.take(int(is_version(record)), JoinedRow(record.key, record.t_ms, value))
        reference.sweep(batch.watermark_ms)
    none = (None, None)
    rows = Counter((*key, *(one or none), *(two or none)) for key, one, two in reference.found)
    live = sum(map(len, reference.rows))
    return [
        compare("rows", rows, facts(left["changes"], ("user", *PROBE, *VERSION))),
        same_counts(left, came.input, came.late, live),
    ]


def judge_join_asof(given: CrashInput, plans: Plans, left: Row) -> list[Difference]:
    came = arrived(given, plans, 2, is_version)
    reference = AsOfReference(EVENT_RULE, PROBE, VERSION, "left")
    for record in in_turn(map(of_join, came.records), VERSION, "price"):
        reference.take(record)
    reference.sweep(came.highest_ms)
    names = ("user", *PROBE, *VERSION)
    rows = ({"user": row["key"][0], **row} for row in reference.found)
    prices = {key[0]: reference.newest[key]["price"] for key in reference.lives}
    return [
        compare("rows", facts(rows, names), facts(left["changes"], names)),
        compare("states", Counter(prices.items()), facts(left["lives"], ("user", "price"))),
        same_counts(left, came.input, came.late, len(prices)),
    ]


def is_version(record: Record) -> bool:
    return bool(record.values["amount"] >= FIRST_PRICE)


def of_join(record: Record) -> Record:
    """A row as a version or as a probe, which only reads."""
    if is_version(record):
        values = {"at": record.t_ms, "price": record.values["amount"]}
        return Record(record.key, record.t_ms, values)
    return Record(record.key, record.t_ms, record.values, read=True)


def judge_sessions(given: CrashInput, plans: Plans, left: Row) -> list[Difference]:
    came = arrived(given, plans)
    sessions = Sessions(GAP_MS)
    for record in make_sequence(came.records):
        sessions.take(record)
    is_over = [span.end_ms + 1 <= came.highest_ms for span in sessions.open]
    spans = rows_of(sessions.open, AGGREGATES)
    closed = [span for span, over in zip(spans, is_over, strict=True) if over]
    still = [span for span, over in zip(spans, is_over, strict=True) if not over]
    newest = {(row["user"], row["window_start"]): row for row in updates_of(left)}
    shown = (newest.get((*span["key"], span["window_start"]), span) for span in still)
    return [
        *same_windows(given, came, left, closed, still),
        compare("last updates", facts(named(still), WINDOW), facts(named(shown), WINDOW)),
    ]


def judge_hopping(given: CrashInput, plans: Plans, left: Row) -> list[Difference]:
    came = arrived(given, plans)
    wanted = FixedWindows(hops, AGGREGATES)
    ever: set[Any] = set()
    shown: list[Row] = []
    for batch_id, batch in enumerate(came.batches):
        for record in batch.records:
            wanted.take(record)
        wanted.close(batch.watermark_ms)
        # A batch without data shows no window for the first time.
        reached_ms = batch.watermark_ms + DELAY_MS - FIRE_AFTER_MS if batch.has_data else 0
        for at, span in wanted.open.items():
            if span.end_ms - 1 <= reached_ms and (at not in ever or at in wanted.touched):
                shown.append({**span.row(AGGREGATES), "batch_id": batch_id})
                ever.add(at)
        wanted.touched.clear()
    names = (*WINDOW, "batch_id")
    return [
        *same_windows(
            given, came, left, wanted.closed, rows_of([*wanted.open.values()], AGGREGATES)
        ),
        compare("early results", facts(named(shown), names), facts(updates_of(left), names)),
    ]


def hops(t_ms: int) -> Iterator[tuple[int, int]]:
    """The windows of a time."""
    last_ms = t_ms - t_ms % SLIDE_MS
    for start_ms in range(last_ms - SIZE_MS + SLIDE_MS, last_ms + 1, SLIDE_MS):
        yield start_ms, start_ms + SIZE_MS


JUDGES = {
    "process": judge_function,
    "join": judge_join,
    "session": judge_sessions,
    "deduplicate_first": partial(judge_deduplicate, keep="first"),
    "deduplicate_last": partial(judge_deduplicate, keep="last"),
    "equi_join": partial(judge_join, between=None, spans_ms=(LEFT_KEPT_MS, RIGHT_KEPT_MS)),
    "join_asof": judge_join_asof,
    "hopping": judge_hopping,
    "co_process": judge_co_function,
}
"""By operator: a history's input, its plans and what it left, to what is wrong."""


def same_windows(
    given: CrashInput, came: Arrived, left: Row, closed: Sequence[Row], still: Sequence[Row]
) -> list[Difference]:
    """Final results, open windows, counts; and a batch updates a window once."""
    ends = [row for row in left["changes"] if row["change"] == "expire"]
    updates = facts(updates_of(left), ("user", "window_start", "window_end", "batch_id"))
    lives = ("user", "created_at", *AGGREGATES)
    return [
        compare("final results", facts(named(closed), WINDOW), facts(ends, WINDOW)),
        compare("updates of a window in a batch", Counter(set(updates)), updates),
        compare("states", facts(named(still), lives), facts(left["lives"], lives)),
        same_counts(left, came.input + given.malformed, came.late, len(still)),
    ]


def same_counts(left: Row, input_: int, late: int, live: int) -> Difference:
    return compare_counts({"input": input_, "late": late, "live": live}, left["counts"])


def updates_of(left: Row) -> list[Row]:
    """Update rows in order of batches."""
    updates = [row for row in left["changes"] if row["change"] == "update"]
    return sorted(updates, key=lambda row: row["batch_id"])


def named(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows of a reference, with the key as a column."""
    return ({"user": row["key"][0], **row} if "key" in row else row for row in rows)
