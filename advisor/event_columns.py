"""The key and event-time columns of a table of events, and their allowed types."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from idlestate.advisor.batches import JobBatches
from idlestate.errors import RefusedError
from idlestate.retention.policy import FOREVER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a table of events is read.

    Attributes:
        key: the key columns.
        event_time: the column of event times.
        batches: the batches of a job with these events; None if not requested.
        delay_ms: how late an event may be in the job.
        rejects_null_keys: whether a null in a key column rejects the row; otherwise null is a key.
        latest_ms: later events, and events before 1970-01-02, are rejected, as by default in a job.
    """

    key: tuple[str, ...]
    event_time: str
    batches: JobBatches | None = None
    delay_ms: int = 0
    rejects_null_keys: bool = False
    latest_ms: int = FOREVER_MS

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns to read, each once."""
        return tuple(dict.fromkeys((*self.key, self.event_time)))


def check_columns(names: Sequence[str], reading: Reading) -> None:
    """Raise `RefusedError` unless all columns exist."""
    for what, name in [("key", each) for each in reading.key] + [
        ("event time", reading.event_time)
    ]:
        if name not in names:
            shown = ", ".join(names)
            raise RefusedError(f"{what} column {name!r} not found; available: {shown}")


def check_time_type(kind: pa.DataType, name: str) -> None:
    """Raise `RefusedError` unless a column of this type can hold event times."""
    if not (is_text(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise unusable_time(name, str(kind))


def check_key_type(kind: pa.DataType, name: str) -> None:
    """Raise `RefusedError` unless a column of this type can be a key."""
    is_plain = any(
        check(kind)
        for check in (
            *(is_text, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_integer),
            *(pa.types.is_boolean, pa.types.is_date, pa.types.is_timestamp),
        )
    )
    if not is_plain:
        raise unusable_key(name, str(kind))


def unusable_time(name: str, kind: str) -> RefusedError:
    """The error of a column that cannot hold event times."""
    return RefusedError(
        f"event time column {name!r} is of type {kind}; use timestamps, or ISO 8601 strings such "
        "as 2025-03-03T12:00:00Z"
    )


def no_usable_row(reading: Reading, rows: int) -> RefusedError:
    """The error for a log of this many rows, all of which are rejected."""
    if not rows:
        return RefusedError("the log has no rows; pass one with events")
    keys = f" and a key in {', '.join(reading.key)}" if reading.rejects_null_keys else ""
    return RefusedError(
        f"no row has a usable event time in {reading.event_time}{keys} ({rows:,} rejected); use "
        "timestamps, or ISO 8601 strings such as 2025-03-03T12:00:00Z, from 1970-01-02 until now"
    )


def unusable_key(name: str, kind: str) -> RefusedError:
    """The error of a column that cannot be a key."""
    return RefusedError(
        f"key column {name!r} is of type {kind}; keys are strings, binaries, integers, booleans, "
        "dates or timestamps: cast it first"
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
