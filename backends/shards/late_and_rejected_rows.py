"""Late and rejected rows: the rows of a task that change no state, and the reasons."""

import datetime
import json
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]


class RejectCode(IntEnum):
    """Why a row is rejected, for reasons that depend only on the row. A code replaces the event
    time, and is below every event time.

    Spark expressions set it (`row_checks`). Whether a row is late or too far ahead depends on the
    batch, and is decided when rows are packed: with a bound that changes in every batch, Spark
    would compile the expression again each time.
    """

    NULL_TIME = -(2**63) + 1
    TOO_OLD = -(2**63) + 2
    MALFORMED = -(2**63) + 3
    NULL_KEY = -(2**63) + 4

    @property
    def label(self) -> str:
        """The reason in reject rows."""
        return self.name.lower()


def late_and_rejected(
    times_ms: Ints, times: BatchTimes, *, is_event_time: bool, max_ahead_ms: int
) -> dict[str, Ints]:
    """Positions of rejected and late rows by reason; each row has one reason.

    Args:
        times_ms: the event time of each row, or a `RejectCode`.
        times: time and watermark of the batch.
        is_event_time: whether rows are judged by the watermark and the batch's time.
        max_ahead_ms: how far a row may be ahead of the batch's time.
    """
    latest_ms = times.time_ms + max_ahead_ms
    first_ms, last_ms = times_ms.min(initial=FOREVER_MS), times_ms.max(initial=NEVER_MS)
    are_in_time = first_ms > times.watermark_ms and last_ms <= latest_ms
    if first_ms > max(RejectCode) and (are_in_time or not is_event_time):
        return {}
    found: dict[str, Ints] = {}
    is_marked = times_ms <= max(RejectCode)
    for code in RejectCode if is_marked.any() else ():
        found[code.label] = np.flatnonzero(times_ms == code)
    if is_event_time:
        ahead = times_ms > latest_ms
        late = ~(is_marked | ahead) & (times_ms <= times.watermark_ms)
        found["too_far_ahead"] = np.flatnonzero(ahead)
        found["late"] = np.flatnonzero(late)
    return found


def rows_as_json(
    rows: pa.Table, rejected: Mapping[str, Ints], batch_id: int, input_name: str
) -> str | None:
    """Rejected rows as a JSON list of [batch id, reason, input, row]; None if there are none."""
    found = [
        [batch_id, reason, input_name, json.dumps(row, default=_to_text, ensure_ascii=False)]
        for reason, at in rejected.items()
        for row in _dicts(rows.take(pa.array(at)))
    ]
    return json.dumps(found) if found else None


def failed_as_json(failed: Sequence[Mapping[str, Any]], batch_id: int) -> list[str]:
    """Rows on which a function failed, in the same format; None if there are none."""
    found = [
        [batch_id, "function_error", "", json.dumps(each, default=_to_text, ensure_ascii=False)]
        for each in failed
    ]
    return [json.dumps(found)] if found else []


def _dicts(rows: pa.Table) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = rows.to_pylist()
    except (ValueError, OverflowError):  # Python cannot represent some values
        names = rows.column_names
        columns = [map(_value, column) for column in rows.columns]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def _value(scalar: Any) -> Any:
    """A value in Python. A time before year 1 or after year 9999 is text, and bytes that are not
    UTF-8 are replaced.
    """
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.StructScalar):
        return {name: _value(each) for name, each in scalar.items()}
    if isinstance(scalar, pa.ListScalar):
        return [_value(each) for each in scalar.values]
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.as_buffer().to_pybytes().decode(errors="replace")
    except (ValueError, OverflowError):
        is_date = pa.types.is_date(scalar.type)
        text = str(np.datetime64(scalar.value, "D" if is_date else scalar.type.unit))
        return text if is_date else f"{text.removesuffix('000')}Z"


def _to_text(value: object) -> object:
    if isinstance(value, datetime.datetime):
        text = value.isoformat(timespec="milliseconds" if value.microsecond % 1000 == 0 else "auto")
        return text.replace("+00:00", "Z")
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
