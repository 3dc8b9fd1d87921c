"""The columns of a life that hold one state of a function.

| state | columns |
|---|---|
| value, reducing, aggregating | the value, in a column of its type; of a struct one per field |
| list | the bytes of its elements one after the other |
| map | its user keys, then its values, as two lists |

Strings and binaries have an additional column with their lengths (4 bytes each). A state with a
time to live has a column with its stamp or list of stamps (int64 milliseconds). The last column of
a list or map is a marker, which is set if its entries are in a separate table
(`idlestate.backends.shards.state_entries`).

The content that a function sees is a value, a list or a dict, or None if empty; with a time to
live, each value is paired with its stamp. A `Marker` may replace a list or dict.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.fields import Field, is_valid, to_arrow, to_int64
from idlestate.backends.runs.keys import is_key_type
from idlestate.backends.runs.python_values import python_values
from idlestate.backends.runs.table_schema import Column
from idlestate.backends.shards.entry_markers import Marker, items_since
from idlestate.backends.shards.packed_elements import (
    packed,
    packed_types,
    put_extremes,
    unpacked,
)
from idlestate.backends.shards.shard_record import ENTRIES
from idlestate.errors import RefusedError
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]

LIST, MAP = "list", "map"
ONE_VALUE = ("value", "reducing", "aggregating")
WITH_TTL = " with ttl"


@dataclass(frozen=True)
class StateColumns:
    """One state of a function, as definitions and runs store it.

    Attributes:
        name: the name of the state.
        kind: `value`, `list`, `map`, `reducing` or `aggregating`.
        type: the type of the value or element.
        key_type: the type of the user keys of a map.
        stamped: whether it has a time to live.
        id: names its columns in files; unique in the operator.
    """

    name: str
    kind: str
    type: pa.DataType
    key_type: pa.DataType | None
    stamped: bool
    id: int

    @property
    def text(self) -> str:
        """The state in a definition, without its type."""
        return self.kind + WITH_TTL * self.stamped

    @classmethod
    def from_text(cls, name: str, text: str, shown: pa.DataType, number: int) -> "StateColumns":
        """Read it back.

        Args:
            name, text, number: the stored form.
            shown: its `shown_type`.

        Raises:
            ValueError: the text does not describe a state.
        """
        kind, stamped = text.removesuffix(WITH_TTL), text.endswith(WITH_TTL)
        if kind not in (*ONE_VALUE, LIST, MAP):
            raise ValueError(f"{text!r} is not a kind of state")
        if kind == MAP:
            return cls(name, kind, shown.item_type, shown.key_type, stamped, number)
        type_ = shown.value_type if kind == LIST else shown
        return cls(name, kind, type_, None, stamped, number)

    @property
    def shown_type(self) -> pa.DataType:
        """The type of the entire state."""
        if self.kind == MAP:
            return pa.map_(self.key_type, self.type)
        return pa.list_(self.type) if self.kind == LIST else self.type

    @property
    def inputs(self) -> tuple[tuple[str, pa.DataType], ...]:
        """What a definition compares: its type."""
        return ((self.name, self.shown_type),)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns in files."""
        blank = [pa.nulls(1, kind) for kind in self._types()]
        found = [Column(f"s{self.id}_{at}", field) for at, field in enumerate(blank)]
        if self.stamped and self.kind in ONE_VALUE:
            found[-1] = replace(found[-1], may_return=True)
        if self.table is not None:
            found.append(Column(f"s{self.id}_marker", pa.nulls(1, pa.binary())))
        return tuple(found)

    @property
    def table(self) -> str | None:
        """The table with the entries of large lists and maps; None for other states."""
        if self.kind == LIST or (self.key_type is not None and is_key_type(self.key_type)):
            return f"{ENTRIES}{self.id}"
        return None

    def to_fields(self, contents: Sequence[Any]) -> list[Field]:
        """The columns of contents.

        Raises:
            pa.ArrowException, OverflowError, TypeError, ValueError: a content has the wrong type.
        """
        if self.kind in (LIST, MAP):
            markers = [each.cell() if each.__class__ is Marker else None for each in contents]
            if any(markers):
                contents = [None if each.__class__ is Marker else each for each in contents]
            found = [part for values in self._lists(contents) for part in packed(values)]
            return found if self.table is None else [*found, pa.array(markers, pa.binary())]
        stamps = []
        if self.stamped:
            stamps = [pa.array([each and each[1] for each in contents], pa.int64())]
            contents = [each and each[0] for each in contents]
        return [*_flat(pa.array(contents, self.type)), *stamps]

    def contents(self, fields: Sequence[Field], written_at_ms: Sequence[int]) -> list[Any]:
        """The contents from their columns.

        Args:
            fields: the columns.
            written_at_ms: stamps for values written before the state had a time to live.
        """
        parts = iter(fields)
        if self.table is not None:
            markers, plain = to_arrow(fields[-1]), self._in_rows(parts)
            if markers.null_count == len(markers):
                return plain
            return [
                rest if each is None else Marker.of(each)
                for each, rest in zip(markers.to_pylist(), plain, strict=True)
            ]
        if self.kind in (LIST, MAP):
            return self._in_rows(parts)
        values = _joined(parts, self.type)
        if not self.stamped:
            return values
        stamps = python_values(next(parts))
        return [
            None if value is None else (value, otherwise if stamp is None else stamp)
            for value, stamp, otherwise in zip(values, stamps, written_at_ms, strict=True)
        ]

    def _in_rows(self, parts: Iterator[Field]) -> list[Any]:
        """Lists and maps stored in the rows of lives."""
        if self.kind == MAP:
            keys, values = unpacked(parts, self.key_type), self._unpacked(parts)
            return [
                None if k is None or v is None else dict(zip(k, v, strict=True))
                for k, v in zip(keys, values, strict=True)
            ]
        return self._unpacked(parts)

    def shown(self, fields: Sequence[Field]) -> pa.Array:
        """The state as a column of `shown_type`, without stamps; no list or map has a marker."""
        contents = self.contents(fields, [0] * len(fields[0]))
        if self.stamped:
            contents = [_without_stamps(each) for each in contents]
        if self.kind == MAP:
            contents = [None if each is None else list(each.items()) for each in contents]
        return pa.array(contents, self.shown_type)

    def latest_ms(self, fields: Sequence[Field], written_at_ms: Ints) -> Ints:
        """The highest stamp of each content, `NEVER_MS` where there is none.

        Args:
            fields: the columns.
            written_at_ms: stamps for contents that have none.
        """
        there = is_valid(to_arrow(fields[0]))
        if pa.types.is_struct(self.type) and self.kind in ONE_VALUE:
            there &= to_int64(to_arrow(fields[0])) == 1
        found = np.where(there, written_at_ms, NEVER_MS)
        if self.kind in ONE_VALUE:
            if self.stamped:
                stamps = to_arrow(fields[-1])
                found = np.where(there & is_valid(stamps), to_int64(stamps), found)
            return found
        if self.stamped:
            put_extremes(np.maximum, self._stamps(fields), found)
        if self.table is not None:
            markers = to_arrow(fields[-1])
            for row in np.flatnonzero(is_valid(markers)).tolist():
                latest_ms = Marker.of(markers[row].as_py()).latest_ms
                found[row] = latest_ms if self.stamped else written_at_ms[row]
        return found

    def since(
        self, fields: Sequence[Field], written_at_ms: Ints, horizon_ms: int
    ) -> Sequence[Field]:
        """The columns without values whose stamps are up to the horizon; arguments as in
        `latest_ms`.
        """
        if horizon_ms == NEVER_MS:
            return fields
        is_gone = pa.array(self.latest_ms(fields, written_at_ms) <= horizon_ms)
        arrays = map(to_arrow, fields)
        found = [pc.if_else(is_gone, pa.scalar(None, each.type), each) for each in arrays]
        if self.kind in ONE_VALUE:
            return found
        oldest_ms = np.full(len(written_at_ms), FOREVER_MS)
        put_extremes(np.minimum, self._stamps(found), oldest_ms)
        some = pa.array(oldest_ms <= horizon_ms)
        if not some.true_count:
            return found
        contents = self._in_rows(iter([each.filter(some) for each in found]))
        left = self.to_fields([items_since(each, horizon_ms) for each in contents])
        parts = zip(found, left, strict=True)
        return [pc.replace_with_mask(each, some, part) for each, part in parts]

    def _stamps(self, fields: Sequence[Field]) -> Field:
        """The packed stamps of lists or maps stored in the rows of lives."""
        return fields[-1 if self.table is None else -2]

    def _types(self) -> list[pa.DataType]:
        if self.kind in (LIST, MAP):
            parts = packed_types(self.key_type) if self.kind == MAP else []
            return [*parts, *packed_types(self.type), *([pa.binary()] * self.stamped)]
        return [*_flat_types(self.type), *([pa.int64()] * self.stamped)]

    def _lists(self, contents: Sequence[Any]) -> Iterator[pa.ListArray]:
        values: Sequence[Any] = contents
        if self.kind == MAP:
            yield pa.array([each and list(each) for each in contents], pa.list_(self.key_type))
            values = [each and list(each.values()) for each in contents]
        if not self.stamped:
            yield pa.array(values, pa.list_(self.type))
            return
        yield pa.array([each and [v for v, _ in each] for each in values], pa.list_(self.type))
        yield pa.array([each and [at for _, at in each] for each in values], pa.list_(pa.int64()))

    def _unpacked(self, parts: Iterator[Field]) -> list[Any]:
        values = unpacked(parts, self.type)
        if not self.stamped:
            return values
        stamps = unpacked(parts, pa.int64())
        return [v and list(zip(v, at, strict=True)) for v, at in zip(values, stamps, strict=True)]


def check_type(what: str, kind: pa.DataType, *, is_element: bool) -> None:
    """Refuse a type that no column can hold.

    Raises:
        RefusedError: the type is not supported; the error lists those that are.
    """
    if pa.types.is_struct(kind) and not is_element:
        for field in kind:
            check_type(f"{what}, field {field.name}", field.type, is_element=True)
    elif not (
        pa.types.is_primitive(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
    ) or pa.types.is_null(kind):
        raise RefusedError(
            f"{what} is of type {kind}; use numbers, booleans, strings, binaries, dates, "
            "timestamps or decimals, or of a value a struct of these"
        )


def _without_stamps(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: value for key, (value, _) in content.items()}
    if isinstance(content, list):
        return [value for value, _ in content]
    return content and content[0]


def _flat_types(kind: pa.DataType) -> list[pa.DataType]:
    if not pa.types.is_struct(kind):
        return [kind]
    return [pa.bool_(), *(field.type for field in kind)]


def _flat(values: pa.Array) -> list[Field]:
    """The column; for structs, whether each is present, and a column per field."""
    if not pa.types.is_struct(values.type):
        return [values]
    there = pa.array(values.is_valid().to_pylist(), pa.bool_())
    return [there, *values.flatten()]


def _joined(parts: Iterator[Field], kind: pa.DataType) -> list[Any]:
    if not pa.types.is_struct(kind):
        return python_values(next(parts))
    there = python_values(next(parts))
    columns = [python_values(next(parts)) for _ in kind]
    names = [field.name for field in kind]
    rows = zip(*columns, strict=True) if columns else ((),) * len(there)
    return [
        dict(zip(names, row, strict=True)) if is_there else None
        for is_there, row in zip(there, rows, strict=True)
    ]
