"""Rows as records of a file."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs import row_layout
from idlestate.backends.runs.packed_rows import PackedRows
from idlestate.backends.runs.row_layout import RowLayout, extras_of
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.run_codec import run_in_memory
from idlestate.backends.runs.segment import Segment
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.lives import Lives
from idlestate.retention.policy import Policy

POLICY = Policy(ttl_ms=1_000)
TYPES = {"x": pa.int32(), "b": pa.bool_(), "d": pa.decimal128(10, 2), "s": pa.string()}
SPEC = TableSpec(
    (("k", pa.string()),),
    aggregation({"n": "count", **{f"last_{name}": f"last({name})" for name in TYPES}}, TYPES),
)


def values(kind: pa.DataType, count: int) -> pa.Array:
    """Values of a type, each third one missing."""
    made = {"x": int, "b": lambda at: at % 2 == 0, "d": Decimal, "s": lambda at: "s" * at}
    name = next(name for name, each in TYPES.items() if each == kind)
    return pa.array([None if at % 3 == 1 else made[name](at) for at in range(count)], kind)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 7])
def test_rows_that_fill_several_portions_are_read_back_as_given(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(row_layout, "_ROWS_AT_ONCE", 3)
    at = np.arange(count)
    schema = SPEC.schema
    payload = [
        at * 7 if column.is_numpy else values(column.kind, count) for column in schema.columns
    ]
    keys = [pa.array([f"key{number}" for number in range(count)])]
    lives = Lives(at, at + 1, at + 2, at + 3)
    rows = Rows(at * 11, keys, lives, payload)
    packed = PackedRows.of(rows, schema, RowLayout.of(schema, extras_of(rows, schema)))
    segment = Segment.of(packed, POLICY, with_filter=False)
    found = run_in_memory([segment], schema, POLICY, 1).slice(0, count)
    assert found.hashes.tolist() == rows.hashes.tolist()
    assert found.keys == keys
    assert [each.tolist() for each in found.lives.columns[:4]] == [
        each.tolist() for each in lives.columns[:4]
    ]
    assert [list(each) for each in found.payload] == [list(each) for each in payload]


def test_a_row_is_as_wide_as_its_columns() -> None:
    """Padding would be copied by every write and merge."""
    layout = RowLayout.of(SPEC.schema, frozenset({"created", "a1_0?"}))
    longs, decimals, ints, flags = 8, 1, 3, 2
    assert layout.dtype.itemsize == longs * 8 + decimals * 16 + ints * 4 + flags
