"""Converts columns to lists of Python values, several times faster than `to_pylist`, and back."""

from collections.abc import Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field
from idlestate.errors import RefusedError

_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and last time that Python can represent."""
_FRACTIONS = (float, Decimal, np.floating)


def python_values(field: Field) -> list[Any]:
    """The values of a column, None for nulls; timestamps with a zone are in UTC.

    Raises:
        RefusedError: a time is before year 1 or after year 9999.
    """
    found: list[Any]
    if isinstance(field, np.ndarray):
        found = field.tolist()
        return found
    kind = field.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if not field.null_count:
            found = field.to_numpy().tolist()
            return found
        return _with_nulls(field, field.fill_null(0).to_numpy().tolist())
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_boolean(kind):
        found = field.to_numpy(zero_copy_only=False).tolist()
        return found
    if pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"):
        plain = field.view(pa.int64()).fill_null(0).to_numpy()
        if len(plain) and not (plain.min() >= _FIRST_US and plain.max() <= _LAST_US):
            raise _beyond(field)
        found = plain.view("datetime64[us]").astype(object).tolist()
        if kind.tz:
            found = [each.replace(tzinfo=UTC) for each in found]
        return _with_nulls(field, found)
    if pa.types.is_struct(kind) and len(kind):
        names = [each.name for each in kind]
        fields = zip(*map(python_values, field.flatten()), strict=True)
        found = [dict(zip(names, each, strict=True)) for each in fields]
        return _with_nulls(field, found)
    try:
        found = field.to_pylist()
    except UnicodeDecodeError:
        raise
    except (ValueError, OverflowError):
        raise _beyond(field) from None
    return found


def value_in(kind: pa.DataType, value: Any) -> Any:
    """A value in the form in which a column of this type returns it.

    Raises:
        pa.ArrowException, OverflowError, TypeError, ValueError: it does not fit.
    """
    if value.__class__ is bool and not pa.types.is_boolean(kind):
        raise pa.ArrowTypeError("a bool is not a number")
    found = python_values(pa.array([value], kind))[0]
    if found is None and value is not None:
        raise pa.ArrowTypeError("it would be stored as null")
    if isinstance(value, dict) and isinstance(found, dict) and not found.keys() >= value.keys():
        unknown = ", ".join(sorted(map(str, value.keys() - found.keys())))
        raise pa.ArrowTypeError(f"it has no field {unknown}")
    check_whole(value, found)
    return found


def column_of(values: Sequence[Any] | npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """The values as a column; None is null.

    Raises:
        pa.ArrowException, OverflowError, TypeError, ValueError: one does not fit.
    """
    found = pa.array(values, kind, from_pandas=False)
    if _may_be_cut(values, kind):
        for given, stored in zip(values, python_values(found), strict=True):
            check_whole(given, stored)
    return found


def check_whole(given: Any, stored: Any) -> None:
    """Refuse a value that Arrow stored only in part, because it truncates fractions silently.

    Raises:
        pa.ArrowInvalid: a fraction was passed for a type without fractions.
    """
    if isinstance(given, dict) and isinstance(stored, dict):
        for name, value in stored.items():
            check_whole(given.get(name), value)
    elif isinstance(given, tuple) and isinstance(stored, dict):
        for each, value in zip(given, stored.values(), strict=True):
            check_whole(each, value)
    elif isinstance(given, list | tuple | np.ndarray) and isinstance(stored, list | tuple):
        for each, value in zip(given, stored, strict=True):
            check_whole(each, value)
    elif isinstance(given, _FRACTIONS) and not isinstance(stored, _FRACTIONS) and given != stored:
        raise pa.ArrowInvalid(f"{given!r} would become {stored!r}")


def _may_be_cut(values: Sequence[Any] | npt.NDArray[Any], kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return True
    is_whole = pa.types.is_integer(kind) or pa.types.is_temporal(kind)
    return is_whole and any(issubclass(each, _FRACTIONS) for each in set(map(type, values)))


def _beyond(field: pa.Array) -> RefusedError:
    return RefusedError(
        f"a value of type {field.type} has a time before year 1 or after year 9999, which Python "
        "cannot represent; filter such rows before the operator, or cast the column to string"
    )


def _with_nulls(field: pa.Array, values: list[Any]) -> list[Any]:
    if field.null_count:
        for at in np.flatnonzero(field.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[at] = None
    return values
