"""Rows as callers give them: how many there may be."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from idlestate.sidecar.protocol import input_rows
from idlestate.sidecar.protocol.errors import DoesNotFitError
from idlestate.sidecar.protocol.input_rows import fit_rows, read_rows
from idlestate.sidecar.protocol.transfers import stream_of

WANTED = {"user": pa.string(), "amount": pa.int64()}


def nulls(count: int) -> bytes:
    return stream_of(pa.table({name: pa.nulls(count) for name in WANTED}))


def test_rows_without_bytes_take_no_more_memory_than_those_with_some() -> None:
    data = nulls(50_000_000)
    assert len(data) < 1000
    with pytest.raises(DoesNotFitError, match="more than 8 million rows in one call"):
        read_rows("carts", data)


@pytest.mark.parametrize("batches", [1, 2, 5])
def test_the_most_rows_are_taken_and_one_more_is_not(
    monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    monkeypatch.setattr(input_rows, "MAX_ROWS", 10)

    def given(count: int) -> bytes:
        rows = pa.table({name: pa.nulls(count) for name in WANTED})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=-(-count // batches))
        return bytes(sink.getvalue())

    assert read_rows("carts", given(10)).num_rows == 10
    with pytest.raises(DoesNotFitError, match="send fewer at a time"):
        read_rows("carts", given(11))


def test_no_rows_have_their_columns_all_the_same() -> None:
    assert fit_rows("carts", read_rows("carts", nulls(0)), WANTED).schema == pa.schema(WANTED)


MIDNIGHT, LATER = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 10, tzinfo=UTC)
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("kind", "fits", "does_not"),
    [
        (pa.bool_(), [0, 1, None], [1, 5]),
        (pa.bool_(), [0.0, 1.0], [0.5]),
        (pa.date32(), [MIDNIGHT, None], [MIDNIGHT, LATER]),
        (pa.date32(), [MIDNIGHT.replace(tzinfo=None)], [LATER.replace(tzinfo=None)]),
        (pa.date32(), [MIDNIGHT.replace(tzinfo=EAST)], [MIDNIGHT.astimezone(EAST)]),
        (pa.int8(), [127, None], [128]),
        (pa.int64(), [5.0], [5.5]),
        (pa.timestamp("us", "UTC"), [MIDNIGHT, LATER], ["yesterday"]),
    ],
)
def test_values_that_a_column_cannot_say_are_refused(
    kind: pa.DataType, fits: list[Any], does_not: list[Any]
) -> None:
    found = fit_rows("carts", pa.table({"v": fits}), {"v": kind}).column("v")
    assert found.type == kind
    assert found.null_count == fits.count(None)
    for given in (pa.array(does_not), pa.array(does_not).dictionary_encode()):
        with pytest.raises(DoesNotFitError, match="invalid rows"):
            fit_rows("carts", pa.table({"v": given}), {"v": kind})


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (pa.null(), pa.bool_()),
        (pa.int64(), pa.bool_()),
        (pa.float64(), pa.bool_()),
        (pa.timestamp("us"), pa.date32()),
        (pa.timestamp("us", "UTC"), pa.date32()),
    ],
)
def test_a_column_without_values_fits(count: int, given: pa.DataType, kind: pa.DataType) -> None:
    rows = pa.table({"v": pa.nulls(count, given)})
    assert fit_rows("carts", rows, {"v": kind}).column("v").null_count == count
