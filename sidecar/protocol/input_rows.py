"""Rows of callers, converted to the operator's types."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.shards.table_spec import TableSpec
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DoesNotFitError
from idlestate.sidecar.protocol.transfers import stream_of

MAX_ROWS = 8 << 20
"""Limit of one call: columns of nulls are small in transit, but large when processed."""


class ArrowStream(Protocol):
    """Rows of another library that supports Arrow, such as a pandas or polars frame."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """See Arrow's PyCapsule interface."""


Rows: TypeAlias = pa.Table | ArrowStream | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
"""Rows as an Arrow table, a record batch or a data frame, as columns by name, or as dicts, in which
a missing name means null if another dict has it.
"""


def table_of(uid: str, rows: Rows) -> pa.Table:
    """Rows as a table, in their own types.

    Raises:
        DoesNotFitError: they are not rows.
    """
    given: Any = rows
    try:
        if isinstance(given, Mapping):
            return pa.table(dict(given))
        if isinstance(given, Sequence):
            names = dict.fromkeys(name for row in given for name in row.keys())  # noqa: SIM118 - or a text is a row
            return pa.table({name: [row.get(name) for row in given] for name in names})
        return pa.table(given)
    except (pa.ArrowException, AttributeError, OverflowError, TypeError, ValueError) as error:
        raise DoesNotFitError(
            f"operator {uid!r}: rows are not valid: {error}; pass an Arrow table, a data frame, "
            "columns by name, or a list of dicts"
        ) from error


def fit_write(declaration: Declaration, spec: TableSpec, kind: str, rows: pa.Table) -> pa.Table:
    """The columns that a write of this kind needs, in the operator's types.

    Raises:
        DoesNotFitError: see `fit_rows`; or there are columns that the operator does not keep.
    """
    wanted = _wanted_columns(declaration, spec, kind)
    if kind not in ("add", "put"):
        return fit_rows(declaration.uid, rows, wanted)
    unknown = [name for name in rows.column_names if name not in wanted]
    if unknown:
        raise DoesNotFitError(
            f"operator {declaration.uid!r}: unknown column {', '.join(unknown)}; it takes "
            f"{', '.join(wanted)}"
        )
    return fit_rows(declaration.uid, rows, wanted)


def of_today(declaration: Declaration, spec: TableSpec, kind: str, data: bytes) -> bytes:
    """Rows of an accepted write in the columns of the current definition: a column that only a
    later definition reads is null.
    """
    rows = pa.ipc.open_stream(data).read_all()
    wanted = _wanted_columns(declaration, spec, kind)
    if rows.column_names == list(wanted):
        return data
    columns = {
        name: rows.column(name) if name in rows.column_names else pa.nulls(len(rows), each)
        for name, each in wanted.items()
    }
    return stream_of(pa.table(columns))


def _wanted_columns(declaration: Declaration, spec: TableSpec, kind: str) -> dict[str, pa.DataType]:
    if kind in ("add", "put"):
        return {field.name: field.type for field in declaration.inputs()}
    return dict(spec.keys)


def check_count(uid: str, count: int) -> None:
    """Refuse more rows than one call may have.

    Raises:
        DoesNotFitError: there are more.
    """
    if count > MAX_ROWS:
        raise DoesNotFitError(
            f"operator {uid!r}: more than {MAX_ROWS >> 20} million rows in one call; send "
            "fewer at a time"
        )


def read_rows(uid: str, data: bytes) -> pa.Table:
    """Rows of an Arrow stream.

    Raises:
        DoesNotFitError: it is not a stream, or has too many rows.
    """
    try:
        stream = pa.ipc.open_stream(data)
        batches, count = [], 0
        for batch in stream:
            batches.append(batch)
            count += len(batch)
            check_count(uid, count)
        rows = pa.Table.from_batches(batches, stream.schema)
        rows.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unusable(uid, error) from error
    return rows


def fit_rows(uid: str, rows: pa.Table, wanted: Mapping[str, pa.DataType]) -> pa.Table:
    """Rows with only these columns, converted to these types.

    Raises:
        DoesNotFitError: a column is missing or occurs twice, or its type or values cannot be
            converted.
    """
    if not rows.num_columns and not rows.num_rows:  # an empty list has no names
        return pa.schema(wanted).empty_table()
    missing = [name for name in wanted if name not in rows.column_names]
    if missing:
        raise DoesNotFitError(
            f"operator {uid!r}: the rows have no column {', '.join(missing)}; it takes "
            f"{', '.join(f'{name} {kind}' for name, kind in wanted.items())}"
        )
    try:
        given = rows.select(list(wanted))
        fitting = given.cast(pa.schema(wanted))
        for name in wanted:
            _refuse_loss(name, given.column(name), fitting.column(name))
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise _unusable(uid, error) from error
    return fitting


def _refuse_loss(name: str, given: pa.ChunkedArray, fitting: pa.ChunkedArray) -> None:
    """Refuse casts that lose values: Arrow turns numbers into booleans, and times into days."""
    if pa.types.is_dictionary(given.type):
        given = given.cast(given.type.value_type)
    is_day = pa.types.is_date(fitting.type) and pa.types.is_timestamp(given.type)
    is_number = pa.types.is_integer(given.type) or pa.types.is_floating(given.type)
    if not is_day and not (is_number and pa.types.is_boolean(fitting.type)):
        return
    if is_day and given.type.tz is not None:
        given = pc.local_timestamp(given)  # a day depends on the time zone
    if pc.any(pc.not_equal(fitting.cast(given.type), given)).as_py():  # None: there are no values
        raise ValueError(f"column {name} has values that are not {fitting.type}; cast it first")


def _unusable(uid: str, error: Exception) -> DoesNotFitError:
    return DoesNotFitError(f"operator {uid!r}: invalid rows: {error}")
