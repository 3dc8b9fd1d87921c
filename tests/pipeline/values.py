"""One input with a column of every type, for tests that compare with Spark's own operators."""

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.pipeline.streams import TIMESTAMP

ORIGIN = datetime(2024, 3, 1, 12, tzinfo=UTC)

# Column name to type and values; names begin with what they are good for: key or value.
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "k_string": (pa.string(), ["a", "", "é\U0001f600", "a\x00b", "x" * 40, None]),
    "k_binary": (pa.binary(), [b"", b"\x00", b"\xff" * 33, None]),
    "k_byte": (pa.int8(), [-128, 0, 127, None]),
    "k_short": (pa.int16(), [-32768, -1, 300, None]),
    "k_int": (pa.int32(), [-(2**31), 0, 2**31 - 1, None]),
    "k_long": (pa.int64(), [-(2**63), 0, 2**63 - 1, 2**40, None]),
    "k_boolean": (pa.bool_(), [True, False, None]),
    "k_date": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None]),
    "k_timestamp": (
        TIMESTAMP,
        [datetime(1900, 1, 1, tzinfo=UTC), ORIGIN, ORIGIN + timedelta(microseconds=1), None],
    ),
    "k_timestamp_ntz": (
        pa.timestamp("us"),
        [datetime(1900, 1, 1), datetime(2024, 3, 31, 2, 30), None],  # noqa: DTZ001 - has no zone
    ),
}
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "byte": (pa.int8(), [-128, 127, 5, None]),
    "short": (pa.int16(), [-32768, 32767, 2, None]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1, 7, None]),
    "long": (pa.int64(), [2**60, -(2**60), 11, 12, None]),
    "float": (pa.float32(), [0.5, -1.25, 3.0, float("nan"), None]),
    "double": (pa.float64(), [0.1, 1e15, -0.3, 2.5, None]),
    "decimal": (pa.decimal128(10, 2), [Decimal("0.01"), Decimal("-99999999.99"), None]),
    "wide": (pa.decimal128(30, 4), [Decimal("1" * 26 + ".0005"), Decimal("-2.5000"), None]),
    "string": (pa.string(), ["b", "", "\uffff", "\U0001f600", None]),
    "binary": (pa.binary(), [b"", b"\x00", b"\x7f", b"\xff", None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "date": (pa.date32(), [date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31), None]),
    "timestamp": (TIMESTAMP, [ORIGIN, ORIGIN + timedelta(microseconds=7), None]),
    "timestamp_ntz": (pa.timestamp("us"), [datetime(2024, 2, 29), None]),  # noqa: DTZ001
    "nothing": (pa.int32(), [None]),
}
NUMBERS = ("byte", "short", "int", "long", "float", "double", "decimal", "wide", "nothing")
SCHEMA = pa.schema(
    [
        ("event_time", TIMESTAMP),
        *((name, kind) for name, (kind, _) in {**KEYS, **VALUES}.items()),
    ]
)


def make_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Rows of `SCHEMA` within a few minutes, many of them at the same millisecond."""
    chance = random.Random(seed)
    columns = {**KEYS, **VALUES}
    return [
        {
            "event_time": ORIGIN + timedelta(milliseconds=chance.randint(0, count // 3)),
            **{name: chance.choice(values) for name, (_, values) in columns.items()},
        }
        for _ in range(count)
    ]
