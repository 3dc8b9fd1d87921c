"""Checks values of states against their Arrow type, and converts them to their stored form.

A value must be the same whether it was written a record or a day ago, so it is converted to the
form in which it is read back: an int in a float state becomes a float.
"""

import copy
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from idlestate.backends.runs.python_values import value_in
from idlestate.errors import RefusedError
from idlestate.state.descriptors import ValueStateDescriptor

Fit = Callable[[Any], Any]


def plain_class(kind: pa.DataType) -> type | None:
    """The class whose values all fit the type unchanged; None if there is none."""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return bytes
    if pa.types.is_boolean(kind):
        return bool
    return float if pa.types.is_float64(kind) else None


def fit_to(kind: pa.DataType, what: str) -> Fit:
    """The function that converts a value to the form in which it is read back.

    Args:
        kind: the type of the state.
        what: the state, for errors.
    """

    def fit(value: Any) -> Any:
        try:
            found = value_in(kind, value)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise RefusedError(
                f"{what} is of type {kind}, {value!r} does not fit: {error}"
            ) from None
        if found is None:
            raise RefusedError(f"{what} does not take None; use clear() or remove()")
        return found

    def fit_int(value: Any) -> Any:
        if value.__class__ is int and low <= value <= high:
            return value
        return fit(value)

    def fit_text(value: Any) -> Any:
        # Not every Python string can be stored.
        return value if value.__class__ is str and value.isascii() else fit(value)

    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return fit_text
    if not pa.types.is_signed_integer(kind):
        return fit
    high = 2 ** (kind.bit_width - 1) - 1
    low = -high - 1
    return fit_int


def default_of(descriptor: ValueStateDescriptor) -> Any:
    """The default of a state in the form of a value that is read back; None without one."""
    given = descriptor.default
    return None if given is None else value_in(descriptor.value_type, given)


def copier(kind: pa.DataType) -> Fit | None:
    """The function that copies values of a type; None if they cannot change in place."""
    return copy.deepcopy if pa.types.is_nested(kind) else None
