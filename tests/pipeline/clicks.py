"""A small stream for tests of how queries behave: users who click, minutes apart."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from idlestate import Policy, retain
from tests.pipeline.streams import TIMESTAMP, Found
from tests.reference import FOREVER_MS, Record, Rule

UID = "clicks"
AT = datetime(2024, 5, 1, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE_MS = 60_000
SCHEMA = pa.schema(
    [
        ("user", pa.string()),
        ("event_time", TIMESTAMP),
        ("amount", pa.int32()),
        ("page", pa.string()),
    ]
)
AGGREGATES = {"n": "count", "total": "sum(amount)", "page": "last(page)"}
RULE = Rule(idle_min_ms=30 * MINUTE_MS, idle_max_ms=45 * MINUTE_MS, remember_ms=FOREVER_MS)
POLICY = Policy(
    idle_min_ms=RULE.idle_min_ms, idle_max_ms=RULE.idle_max_ms, remember_ms=RULE.remember_ms
)
KEYS = ["user"]


def click(user: str | None, minute: float, amount: int = 1) -> dict[str, Any]:
    """A click so many minutes after `AT`."""
    moment = AT + timedelta(minutes=minute)
    return {"user": user, "event_time": moment, "amount": amount, "page": f"{user}-{minute}"}


def hours(first: int, count: int) -> list[list[dict[str, Any]]]:
    """Batches an hour apart: a few users always come, one pauses, others come once."""
    return [
        [
            *(click(user, 60 * hour + at) for at in (0, 20, 40) for user in ("a", "b")),
            *([click("pauses", 60 * hour)] if hour % 2 == 0 else []),
            click(f"once-{hour}", 60 * hour + 7, amount=hour),
        ]
        for hour in range(first, first + count)
    ]


def record(row: Found) -> Record:
    """A click for the reference."""
    t_ms = (row["event_time"] - EPOCH) // timedelta(milliseconds=1)
    return Record((row["user"],), t_ms, row)


def retained(events: DataFrame, **changed: Any) -> DataFrame:
    """The operator of these tests, or one that differs from it."""
    arguments: dict[str, Any] = {
        "key": KEYS,
        "event_time": "event_time",
        "delay": "10m",
        "aggregates": AGGREGATES,
        "policy": POLICY,
        "uid": UID,
    }
    return retain(events, **(arguments | changed))
