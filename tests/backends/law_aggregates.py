"""Columns of every type for the law of batches, and aggregates of them."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

INF, NAN = float("inf"), float("nan")
STAMPS = [datetime(2024, 1, day, 10, 0, 0, us, tzinfo=UTC) for day in (1, 2) for us in (0, 1500)]
DAYS = [date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)]
TIMESTAMP = pa.timestamp("us", "UTC")

# Value columns: each record draws one small number, every column derives its value from it.
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [None, -128, 127, 0, 1]),
    "i16": (pa.int16(), [7, None, -300, 300]),
    "i32": (pa.int32(), [None, 2**31 - 1, -(2**31), 5, 5]),
    "i64": (pa.int64(), [0, 1, None, 2**60, -(2**60), 3, -7]),
    "f32": (pa.float32(), [0.5, None, -0.25, NAN, 1024.0]),
    "f64": (pa.float64(), [0.1, None, -0.3, 1e15, 0.0, -0.0, 2.5]),
    "wild": (pa.float64(), [1.0, NAN, None, INF, -INF, 2.0, -1e300, 1.0]),
    "dec": (
        pa.decimal128(10, 2),
        [Decimal("0.01"), None, Decimal("-99999999.99"), Decimal("5.00")],
    ),
    "wide": (pa.decimal128(30, 4), [None, Decimal("1" * 26 + ".0001"), Decimal("-1.5000")]),
    "text": (pa.string(), ["b", None, "", "\uffff", "\U0001f600", "a"]),
    "raw": (pa.binary(), [b"\x00", None, b"", b"\xff", b"\x7f"]),
    "flag": (pa.bool_(), [True, None, False]),
    "day": (pa.date32(), [*DAYS, None]),
    "stamp": (TIMESTAMP, [*STAMPS, None]),
}
VARIANTS = 24
NUMBERS = ("i8", "i16", "i32", "i64", "f32", "f64", "wild", "dec", "wide")
ONE_COLUMN = (
    *("min({0})", "max({0})", "first({0})", "last({0})", "count({0})"),
    *("approx_count_distinct({0})", "count(distinct {0})", "count(distinct {0}, 3)"),
    *("collect_list({0}, 3)", "collect_set({0}, 2)", "top_n({0}, 2)"),
)
TWO_COLUMNS = ("min_by({0}, {1})", "max_by({0}, {1})", "top_n({0}, 3, {1})")
OF_NUMBERS = (
    *("sum({0})", "avg({0})", "stddev({0})", "stddev_pop({0})", "variance({0})", "var_pop({0})"),
    *("approx_percentile({0}, 0.5)", "approx_percentile({0}, 0.9, 10)"),
)
TEXTS = sorted(
    {text.format(name) for name in COLUMNS for text in ONE_COLUMN}
    | {text.format(name) for text in OF_NUMBERS for name in NUMBERS}
    | {"bool_and(flag)", "bool_or(flag)"}
)


@st.composite
def aggregate_texts(draw: st.DrawFn) -> dict[str, str]:
    """A count and a few others, over every type."""
    texts = draw(st.lists(st.sampled_from(TEXTS), max_size=3))
    pairs = draw(
        st.lists(
            st.tuples(
                st.sampled_from(TWO_COLUMNS),
                st.sampled_from(list(COLUMNS)),
                st.sampled_from(list(COLUMNS)),
            ),
            max_size=1,
        )
    )
    texts += [text.format(one, two) for text, one, two in pairs]
    return {"n": "count"} | {f"a{at}": text for at, text in enumerate(texts)}
