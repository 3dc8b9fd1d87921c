"""Copies of accumulators, so that a function that changes them in place leaves stored ones alone.

Tables return the stored objects themselves, and snapshots may hold the same ones. Numbers, strings
and tuples of them cannot change in place, so they are not copied.
"""

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from typing import Any

import pyarrow as pa

Copier = Callable[[Any], Any]


def copier_of(kind: pa.DataType) -> Copier | None:
    """The function that copies values of a type; None if they cannot change in place."""
    if pa.types.is_list(kind):
        item = copier_of(kind.value_type)
        return copy if item is None else _copier_of_lists(item)
    if pa.types.is_struct(kind):
        fields = [copier_of(field.type) for field in kind]
        return _copier_of_structs(fields) if any(fields) else _flat_struct
    return None


def _copier_of_lists(item: Copier) -> Copier:
    def copied(values: Any) -> Any:
        if type(values) is not list:  # a numpy array, for example
            return deepcopy(values)
        return [each if each is None else item(each) for each in values]

    return copied


def _copier_of_structs(fields: Sequence[Copier | None]) -> Copier:
    def copied(values: Any) -> Any:
        if type(values) is not tuple:
            return deepcopy(values)
        pairs = zip(values, fields, strict=True)
        return tuple(
            [each if each is None or field is None else field(each) for each, field in pairs]
        )

    return copied


def _flat_struct(values: Any) -> Any:
    return values if isinstance(values, tuple) else copy(values)
