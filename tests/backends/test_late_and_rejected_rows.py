"""Rows that change no state: which ones they are, and how they are shown."""

import json
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.late_and_rejected_rows import (
    RejectCode,
    late_and_rejected,
    rows_as_json,
)

LAST_US = 2**63 - 1
FIRST_US = -(2**63) + 1
US = pa.timestamp("us", "UTC")
WATERMARK_MS, LATEST_MS = 50, 1_100


@pytest.mark.parametrize(
    ("time_ms", "reason"),
    [
        (WATERMARK_MS, "late"),
        (WATERMARK_MS + 1, None),
        (LATEST_MS, None),
        (LATEST_MS + 1, "too_far_ahead"),
        (RejectCode.NULL_TIME, "null_time"),
        (RejectCode.NULL_KEY, "null_key"),
    ],
)
@pytest.mark.parametrize("others_ms", [[], [60, 70], [60, 10]])
def test_a_row_is_late_up_to_the_watermark_and_ahead_beyond_the_latest_time(
    time_ms: int, reason: str | None, others_ms: list[int]
) -> None:
    times_ms = np.array([*others_ms, time_ms], dtype=np.int64)
    times = BatchTimes(3, WATERMARK_MS, LATEST_MS - 100)
    found = late_and_rejected(times_ms, times, is_event_time=True, max_ahead_ms=100)
    wanted = {"late": [at for at, each in enumerate(others_ms) if each == 10]}
    if reason is not None:
        wanted[reason] = [*wanted.get(reason, []), len(others_ms)]
    every = {name: rows.tolist() for name, rows in found.items() if len(rows)}
    assert every == {name: rows for name, rows in wanted.items() if rows}


def shown(column: pa.Array) -> list[Any]:
    rows = pa.table({"key": ["a"] * len(column), "at": column})
    text = rows_as_json(rows, {"late": np.arange(len(rows))}, 7, "left")
    assert text is not None
    found = json.loads(text)
    assert all(each[:3] == [7, "late", "left"] for each in found)
    return [json.loads(each[3]) for each in found]


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (LAST_US, "294247-01-10T04:00:54.775807Z"),
        (253402300800_000_000, "10000-01-01T00:00:00.000Z"),
        (253402300799_999_000, "9999-12-31T23:59:59.999Z"),
        (-62135596800_000_001, "0000-12-31T23:59:59.999999Z"),
        (FIRST_US, "-290308-12-21T19:59:05.224193Z"),
    ],
)
def test_a_time_that_python_has_not_is_shown(us: int, text: str) -> None:
    """Such rows are rejected like others, and stop no query."""
    known = datetime(2024, 5, 1, tzinfo=UTC)
    times = pa.array([us, None, 0], US)
    assert [row["at"] for row in shown(times)] == [text, None, "1970-01-01T00:00:00.000Z"]
    parts = pa.StructArray.from_arrays([times, pa.array([1, 2, 3])], ["time", "n"])
    assert shown(parts)[0] == {"key": "a", "at": {"time": text, "n": 1}}
    lists = pa.array([[us], None, []], pa.list_(US))
    assert [row["at"] for row in shown(lists)] == [[text], None, []]
    assert shown(pa.array([known], US))[0]["at"] == "2024-05-01T00:00:00.000Z"


def test_a_day_that_python_has_not_is_shown() -> None:
    days = pa.array([2932896, 2932897, -719163], pa.int32()).cast(pa.date32())
    assert [row["at"] for row in shown(days)] == ["9999-12-31", "10000-01-01", "0000-12-31"]


def test_text_that_is_not_utf_8_is_shown_with_its_bad_bytes_replaced() -> None:
    """As in a malformed line of a file in another encoding."""
    texts = pa.array([b"caf\xe9 {", b"fine", None], pa.binary()).view(pa.string())
    assert [row["at"] for row in shown(texts)] == ["caf\ufffd {", "fine", None]
