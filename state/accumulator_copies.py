"""Copies of accumulators, so that a function that changes them in place leaves stored ones alone.

Tables return the stored objects themselves, and snapshots may hold the same ones. Stored lists are
Python lists, stored structs are tuples. Numbers, strings and tuples of them cannot change in place,
so they are not copied.
"""

from collections.abc import Callable, Sequence
from copy import copy
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
        return _copier_of_structs(fields) if any(fields) else None
    return None


def _copier_of_lists(item: Copier) -> Copier:
    return lambda values: [each if each is None else item(each) for each in values]


def _copier_of_structs(fields: Sequence[Copier | None]) -> Copier:
    def copied(values: Any) -> Any:
        pairs = zip(values, fields, strict=True)
        return tuple(
            [each if each is None or field is None else field(each) for each, field in pairs]
        )

    return copied
