"""Rows as callers give them, in the types of the operator."""

from collections.abc import Mapping

import pyarrow as pa

from idlestate.backends.sidecar.declaration import Declaration
from idlestate.backends.sidecar.errors import DoesNotFitError
from idlestate.backends.steps import TableSpec

MAX_ROWS = 8 << 20
"""Of one call: columns of nulls take no bytes on their way, and many where they are worked on."""


def wanted_columns(declaration: Declaration, spec: TableSpec, kind: str) -> dict[str, pa.DataType]:
    """The columns that a write of this kind takes, and their types."""
    if kind in ("add", "put"):
        return {field.name: field.type for field in declaration.inputs()}
    return dict(spec.keys)


def read_rows(uid: str, data: bytes, wanted: Mapping[str, pa.DataType]) -> pa.Table:
    """Rows of an Arrow stream with these columns and types.

    Raises:
        DoesNotFitError: it is none, has too many rows, lacks a column, or has another type.
    """
    try:
        stream = pa.ipc.open_stream(data)
        batches, count = [], 0
        for batch in stream:
            batches.append(batch)
            count += len(batch)
            if count > MAX_ROWS:
                raise DoesNotFitError(
                    f"operator {uid!r}: more than {MAX_ROWS >> 20} million rows in one call; send "
                    "fewer at a time"
                )
        rows = pa.Table.from_batches(batches, stream.schema)
        rows.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unusable(uid, error) from error
    return fit_rows(uid, rows, wanted)


def fit_rows(uid: str, rows: pa.Table, wanted: Mapping[str, pa.DataType]) -> pa.Table:
    """These columns and types of rows.

    Raises:
        DoesNotFitError: a column is missing, stands twice, or has another type.
    """
    missing = [name for name in wanted if name not in rows.column_names]
    if missing:
        raise DoesNotFitError(
            f"operator {uid!r}: the rows have no column {', '.join(missing)}; it takes "
            f"{', '.join(f'{name} {kind}' for name, kind in wanted.items())}"
        )
    try:
        return rows.select(list(wanted)).cast(pa.schema(wanted))
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise _unusable(uid, error) from error


def _unusable(uid: str, error: Exception) -> DoesNotFitError:
    return DoesNotFitError(f"operator {uid!r}: rows that cannot be used: {error}")
