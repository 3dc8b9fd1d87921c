"""What may be given to the advisor, and what it says of everything else."""

import csv
import gzip
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from idlestate import advise
from idlestate.errors import RefusedError

START = datetime(2025, 3, 3, tzinfo=UTC)
# Key a pauses for 40 minutes, then everyone for a day.
ROWS = [
    (user, START + timedelta(minutes=minute))
    for user, minute in [("a", 0), ("b", 5), ("a", 10), ("a", 50), ("b", 60), ("b", 1500)]
]
TABLE = pa.table({"user": [user for user, _ in ROWS], "at": pa.array([at for _, at in ROWS])})
TEXTS = [{"user": user, "at": at.isoformat(timespec="milliseconds")} for user, at in ROWS]


def returning(events: Any, **changed: Any) -> list[int]:
    arguments = {"key": "user", "event_time": "at", "windows": ["30m", "2h"]} | changed
    return [each.returning for each in advise(events, **arguments).windows]


def write_parquet(folder: Path) -> Path:
    pq.write_table(TABLE, folder / "log.parquet")
    return folder / "log.parquet"


def write_json(folder: Path) -> Path:
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, TEXTS)))
    return folder / "log.jsonl"


def write_compressed_json(folder: Path) -> Path:
    with gzip.open(folder / "log.json.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, TEXTS)))
    return folder / "log.json.gz"


def write_compressed_csv(folder: Path) -> Path:
    with gzip.open(folder / "log.csv.gz", "wt") as file:
        writer = csv.DictWriter(file, ["user", "at"])
        writer.writeheader()
        writer.writerows(TEXTS)
    return folder / "log.csv.gz"


def write_folder(folder: Path) -> Path:
    inside = folder / "log" / "day=1"
    inside.mkdir(parents=True)
    pq.write_table(TABLE.slice(3), inside / "a.parquet")
    pq.write_table(TABLE.slice(0, 3), inside / "b.parquet")
    (inside / "_done.json").write_text("{}")
    return folder / "log"


@pytest.mark.parametrize(
    "write",
    [write_parquet, write_json, write_compressed_json, write_compressed_csv, write_folder],
)
def test_files_of_every_format_give_the_same(write: Callable[[Path], Path], tmp_path: Path) -> None:
    assert returning(write(tmp_path)) == returning(str(write_parquet(tmp_path))) == [3, 1]


def test_tables_and_frames_give_the_same() -> None:
    assert returning(TABLE) == returning(TABLE.to_pandas()) == returning(pd.DataFrame(TEXTS))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_may_be_of_any_unit_and_without_a_zone(unit: str) -> None:
    times = TABLE.column("at").cast(pa.timestamp(unit))
    assert returning(TABLE.set_column(1, "at", times)) == [3, 1]


def test_days_are_times() -> None:
    events = pa.table({"user": ["a", "a"], "at": [date(2025, 3, 3), date(2025, 3, 4)]})
    assert returning(events, windows=["24h", "25h"]) == [1, 0]


def test_order_of_rows_does_not_matter_without_batches() -> None:
    assert returning(TABLE.take([5, 2, 0, 4, 3, 1])) == [3, 1]


def test_a_time_in_another_zone_is_the_same_moment() -> None:
    events = [
        {"user": "a", "at": "2025-03-03T00:00:00Z"},
        {"user": "a", "at": "2025-03-03T02:00:00+02:00"},
    ]
    assert advise(pa.Table.from_pylist(events), key="user", event_time="at").extent.span_ms == 0


def test_rows_without_a_usable_time_are_rejected() -> None:
    good = ["1970-01-02T00:00:00Z", "2025-03-03T00:00:00Z"]
    bad = [None, "soon", "1969-07-20T20:17:00Z", "1970-01-01T23:59:59.999Z", "2125-03-03T00:00:00Z"]
    events = pa.table({"user": ["a"] * 7, "at": good + bad})
    advice = advise(events, key="user", event_time="at")
    assert (advice.extent.rows, advice.rejected_rows) == (2, 5)


def test_null_is_a_key_unless_it_is_rejected() -> None:
    events = pa.table({"user": [None, "a", None], "at": [START] * 3})
    keys = [
        advise(events, key="user", event_time="at", null_key=word).extent.keys
        for word in ("keep", "reject")
    ]
    assert keys == [2, 1]


def test_keys_of_several_columns_are_told_apart() -> None:
    parts = [("a", None), (None, "a"), ("a", "b"), ("ab", ""), ("a", "b")]
    left, right = zip(*parts, strict=True)
    events = pa.table({"left": left, "right": right, "at": [START] * 5})
    assert advise(events, key=["left", "right"], event_time="at").extent.keys == 4


def test_large_and_negative_integers_are_keys() -> None:
    numbers = [2**63 - 1, -(2**63), 0, 0]
    events = pa.table({"user": pa.array(numbers, pa.int64()), "at": [START] * 4})
    assert advise(events, key="user", event_time="at").extent.keys == 3


def test_one_event_is_a_log() -> None:
    advice = advise(TABLE.slice(0, 1), key="user", event_time="at", key_budget=1)
    (only,) = advice.windows
    assert (only.peak_keys, only.mean_keys, only.returning) == (1, 1.0, 0)
    assert advice.policy is None
    assert advice.halves == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"key": "usr"}, "key column 'usr' not found; available: user, at"),
        ({"event_time": "when"}, "event time column 'when' not found"),
        ({"key": []}, "key is empty"),
        ({"key": None}, "key None is not valid; pass a column"),
        ({"windows": 30}, "windows 30: pass a list"),
        ({"batches": 1.5}, "batches 1.5 is not valid; pass rows per batch"),
        ({"key": ["user", "user"]}, "key column 'user' is listed twice; pass it once"),
        ({"windows": []}, "windows is empty"),
        ({"windows": "30m"}, r"pass a list, such as \['30m'\]"),
        ({"windows": ["30"]}, '"30" has no unit'),
        ({"windows": ["1ms"]}, "use at least 2 ms"),
        ({"windows": ["45m/30m"]}, "idle_max 30m is less than idle_min 45m"),
        ({"windows": [("1m", "2m", "3m")]}, r"pass \(min, max\)"),
        ({"windows": [1.5]}, "windows: 1.5 has no unit"),
        ({"key_budget": 0}, "key_budget 0 is not valid"),
        ({"bytes_per_key": 0}, "bytes_per_key 0 is not valid"),
        ({"bytes_per_key": float("inf")}, "bytes_per_key inf is not valid; pass .* at most 1,000,"),
        ({"bytes_per_key": 1e308}, r"bytes_per_key 1e\+308 is not valid"),
        ({"batches": 0}, "batches 0 is not valid"),
        ({"batches": [2, 2]}, "batches has 4 rows in total, but the log has 6"),
        ({"batches": "0s"}, "a batch of 0s has no events"),
        ({"batches": "soon"}, '"soon" is not a valid duration'),
        ({"delay": "1"}, "has no unit"),
        ({"delay": timedelta(seconds=-1)}, "delay: .* is negative"),
        ({"null_key": "drop"}, "pass 'keep' or 'reject'"),
        ({"event_time": "user"}, "no row has a usable event time in user"),
    ],
)
def test_arguments_that_are_not_valid_are_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        returning(TABLE, **changed)


def test_a_frame_without_the_column_names_all_it_has() -> None:
    with pytest.raises(RefusedError, match="key column 'usr' not found; available: user, at"):
        returning(pd.DataFrame(TEXTS), key="usr")


def test_columns_of_unusable_types_are_named() -> None:
    with pytest.raises(RefusedError, match="key column 'user' is of type double"):
        returning(pa.table({"user": [1.5], "at": [START]}))
    with pytest.raises(RefusedError, match="event time column 'at' is of type int64"):
        returning(pa.table({"user": ["a"], "at": [1_700_000_000]}))
    with pytest.raises(RefusedError, match="events is a list"):
        returning([1, 2])


def test_a_batch_larger_than_any_log_holds_all_of_it() -> None:
    assert returning(TABLE, batches=10**20) == returning(TABLE, batches=TABLE.num_rows)


def test_too_many_batches_are_refused() -> None:
    log = pa.table({"user": ["a"] * 10_001, "at": [START] * 10_001})
    with pytest.raises(RefusedError, match="10,001 batches are too many"):
        returning(log, batches=1)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no such file or folder"):
        returning(tmp_path / "none")
    with pytest.raises(RefusedError, match="holds no files"):
        returning(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(RefusedError, match=r"holds \.txt; pass a file or folder of one format"):
        returning(tmp_path)
    header = tmp_path / "header.csv"
    header.write_text("user,at\n")
    with pytest.raises(RefusedError, match=r"header\.csv: the log has no rows"):
        returning(header)
    header.write_text("user,at\na,soon\n")
    with pytest.raises(RefusedError, match=r"header\.csv: no row .* at \(1 rejected\); use times"):
        returning(header)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"a\n" + b"\x1b[2J\x00,\x07" * 1_000)
    with pytest.raises(RefusedError, match="cannot be read") as caught:
        returning(binary)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600
    broken = tmp_path / "broken.parquet"
    broken.write_text("x")
    with pytest.raises(RefusedError, match="cannot be read"):
        returning(broken)
