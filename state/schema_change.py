"""Allowed changes of a type with stored values, and the conversion of old values.

Integers and floats may be widened; struct fields may be dropped, reordered, widened, or added
with a default. Everything else is refused with the state, the field and both types.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from idlestate.state.errors import StateMigrationError

Adapt = Callable[[Any], Any]

_INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
_FLOATS = [pa.float32(), pa.float64()]


def adapter(
    place: str, old: pa.DataType, new: pa.DataType, defaults: Mapping[str, Any]
) -> Adapt | None:
    """The function that converts a value of the old type to the new one; None if none is needed.

    Args:
        place: the start of the message of a refusal: the state, then the field.
        old: the stored type.
        new: the declared type.
        defaults: values of fields that the old type lacks.

    Raises:
        StateMigrationError: old values cannot be read as the new type.
    """
    if old == new:
        return None
    for family in (_INTEGERS, _FLOATS):
        if old in family and new in family and family.index(old) < family.index(new):
            return lambda value: value
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return _struct(place, old, new, defaults)
    if pa.types.is_list(old) and pa.types.is_list(new):
        item = adapter(f"{place}, items", old.value_type, new.value_type, defaults)
        return lambda values: [
            value if item is None or value is None else item(value) for value in values
        ]
    raise StateMigrationError(
        f"{place}: stored as {old}, declared as {new}. Declare {old}, or a wider type; to change "
        "what is stored, read it under its old name and write it under a new one"
    )


def _struct(place: str, old: pa.DataType, new: pa.DataType, defaults: Mapping[str, Any]) -> Adapt:
    before = {old.field(at).name: at for at in range(old.num_fields)}
    steps: list[tuple[int | None, Adapt | None, Any]] = []
    for field in new:
        at = before.get(field.name)
        if at is not None:
            change = adapter(f"{place}, field {field.name}", old.field(at).type, field.type, {})
            steps.append((at, change, None))
        elif field.name in defaults:
            steps.append((None, None, defaults[field.name]))
        else:
            raise StateMigrationError(
                f"{place}, field {field.name}: declared as {field.type}, but stored values "
                f"({old}) have no such field. Name what it is for them in the descriptor's defaults"
            )

    def adapt(value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            default
            if at is None
            else value[at]
            if change is None or value[at] is None
            else change(value[at])
            for at, change, default in steps
        )

    return adapt
