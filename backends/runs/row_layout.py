"""The layout of a row in a file: all of its columns are adjacent.

A look-up of a key reads one block of the file, a page and a few cache lines, regardless of the
number of columns. A row is a numpy structure without padding, because merges and stores copy whole
rows: `hash` int64; `created`, `written`, `read`, `armed`, `wakes` int64 milliseconds; the key
columns `k0` ...; the payload columns under their ids (`idlestate.backends.runs.table_schema`).
Booleans take a byte. For a string or binary, the row contains its offset among those of its
segment, in 4 bytes (8 for large types); the value ends at the next row's offset, so there is an
additional row at the end. A nullable column has an additional byte, `<name>?`, which is 1 where
there is a value. Columns without information are omitted from a run: `created` if equal to
`written`, `read` and `armed` if never set, `wakes` if it never occurs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, is_valid
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_schema import Column, TableSchema
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS

Records = npt.NDArray[np.void]
Text: TypeAlias = Callable[[str, pa.DataType, pa.Buffer | None], pa.Array]
"""Reads a column of strings, from its name, its type and the rows with values."""
HASH_BYTES = 8
"""A row begins with its hash."""
_ROWS_AT_ONCE = 1 << 13
"""Records of this many rows are filled or read together: they stay in the processor's cache."""
_OPTIONAL_TIMES = ("created", "read", "armed", "wakes")


def extras_of(rows: Rows, schema: TableSchema) -> frozenset[str]:
    """The optional parts that a layout of these rows must have: times, and nulls."""
    lives = rows.lives
    found = set() if np.array_equal(lives.created_at_ms, lives.written_at_ms) else {"created"}
    for name, times in (("read", lives.read_at_ms), ("armed", lives.armed_at_ms)):
        found |= {name} if (times != NEVER_MS).any() else set()
    if lives.wakes_at_ms is not None and (lives.wakes_at_ms != FOREVER_MS).any():
        found.add("wakes")
    ids = [f"k{at}" for at in range(len(rows.keys))] + [column.id for column in schema.columns]
    for name, field in zip(ids, [*rows.keys, *rows.payload], strict=True):
        found |= {f"{name}?"} if has_nulls(field) else set()
    return frozenset(found)


def has_nulls(field: Field) -> bool:
    """Whether any value is missing."""
    return not isinstance(field, np.ndarray) and field.null_count > 0


@dataclass(frozen=True)
class RowLayout:
    """The columns of the rows of a run."""

    schema: pa.Schema
    """The columns; a nullable field has an additional byte."""

    @classmethod
    def of(cls, schema: TableSchema, extras: frozenset[str]) -> "RowLayout":
        """The layout of rows of a schema, with the optional parts that `extras_of` returned."""
        columns = [(name, pa.int64()) for name in ("hash", "written")]
        columns += [(name, pa.int64()) for name in _OPTIONAL_TIMES if name in extras]
        columns += [(f"k{at}", kind) for at, (_, kind) in enumerate(schema.keys)]
        columns += [(column.id, column.kind) for column in schema.columns]
        return cls(pa.schema([pa.field(n, kind, f"{n}?" in extras) for n, kind in columns]))

    @cached_property
    def extras(self) -> frozenset[str]:
        """Its optional parts."""
        nulls = {f"{field.name}?" for field in self.schema if field.nullable}
        return frozenset(nulls | (set(self.schema.names) & set(_OPTIONAL_TIMES)))

    @cached_property
    def texts(self) -> list[str]:
        """Its string and binary columns."""
        return [field.name for field in self.schema if _is_text(field.type)]

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The numpy type of a row."""
        fields = [(field.name, _stored(field.type)) for field in self.schema]
        fields += [(f"{field.name}?", np.dtype("u1")) for field in self.schema if field.nullable]
        # The hash comes first, because searches read only it. Wide columns are next: they are
        # aligned if the size of a row allows it.
        fields.sort(key=lambda field: (field[0] != "hash", -field[1].itemsize))
        return np.dtype(fields)

    def pack(self, rows: Rows, schema: TableSchema) -> tuple[Records, list[pa.Array]]:
        """Rows as records, and the columns that `texts` names."""
        records = np.empty(len(rows), dtype=self.dtype)
        lives, texts = rows.lives, []
        columns: dict[str, Field] = {
            "hash": rows.hashes,
            "created": lives.created_at_ms,
            "written": lives.written_at_ms,
            "read": lives.read_at_ms,
            "armed": lives.armed_at_ms,
        }
        if "wakes" in self.schema.names:
            columns["wakes"] = np.asarray(lives.with_wakes.wakes_at_ms)
        columns |= {f"k{at}": column for at, column in enumerate(rows.keys)}
        ids = [column.id for column in schema.columns]
        columns |= dict(zip(ids, rows.payload, strict=True))
        sources: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = []
        for field in self.schema:
            column, place = columns[field.name], records[field.name]
            if isinstance(column, np.ndarray):
                sources.append((place, column))
            elif _is_text(field.type):
                sources.append((place, text_offsets(column)[:-1]))
                texts.append(column)
            else:
                values = _values(column, place.dtype)
                if column.null_count:
                    values = np.where(is_valid(column), values, np.zeros(1, dtype=place.dtype))
                sources.append((place, values))
            if field.nullable:
                sources.append((records[f"{field.name}?"], is_valid(column)))
        for begin in range(0, len(records), _ROWS_AT_ONCE):
            stop = begin + _ROWS_AT_ONCE
            for place, values in sources:
                place[begin:stop] = values[begin:stop]
        return records, texts

    def unpack(
        self, records: Records, keys: Sequence[str], payload: Iterable[Column], text: Text
    ) -> Rows:
        """Records as rows.

        Args:
            records: one per row.
            keys: the key columns to read.
            payload: the payload columns to read, with their types in the file.
            text: reads a column of strings.
        """
        columns = list(payload)
        plain = [column.id for column in columns if column.is_numpy]
        copied = _copied(records, ["hash", *self._times, *plain])
        fields: list[Field] = [
            copied[column.id] if column.is_numpy else self._column(records, column.id, text)
            for column in columns
        ]
        lives = _lives(copied, len(records))
        return Rows(copied["hash"], self.columns(records, keys, text), lives, fields)

    def unpack_times(self, records: Records) -> Rows:
        """Records as rows without keys and payload."""
        copied = _copied(records, ["hash", *self._times])
        return Rows(copied["hash"], [], _lives(copied, len(records)), [])

    def columns(self, records: Records, names: Iterable[str], text: Text) -> list[pa.Array]:
        """Some columns of records."""
        return [self._column(records, name, text) for name in names]

    def _column(self, records: Records, name: str, text: Text) -> pa.Array:
        field = self.schema.field(name)
        valid = _bitmap(records[f"{field.name}?"]) if field.nullable else None
        if _is_text(field.type):
            return text(field.name, field.type, valid)
        values = np.ascontiguousarray(records[field.name])
        if pa.types.is_boolean(field.type):
            values = np.packbits(values, bitorder="little")
        data = pa.py_buffer(values.view(np.uint8))
        return pa.Array.from_buffers(field.type, len(records), [valid, data])

    def lives(self, records: Records) -> Lives:
        """The times of records."""
        return _lives(_copied(records, self._times), len(records))

    @cached_property
    def _times(self) -> list[str]:
        return [name for name in ("written", *_OPTIONAL_TIMES) if name in self.schema.names]


def _copied(records: Records, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Columns that always have a value, each contiguous."""
    found = {name: np.empty(len(records), dtype=records.dtype[name]) for name in names}
    for begin in range(0, len(records), _ROWS_AT_ONCE):
        some = records[begin : begin + _ROWS_AT_ONCE]
        for name, column in found.items():
            column[begin : begin + len(some)] = some[name]
    return found


def _lives(times: Mapping[str, npt.NDArray[Any]], rows: int) -> Lives:
    """The times of this many rows, some of which may be omitted."""
    never = np.full(rows, NEVER_MS)
    written = times["written"]
    created = times.get("created", written)
    return Lives(
        created, written, times.get("read", never), times.get("armed", never), times.get("wakes")
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _stored(kind: pa.DataType) -> np.dtype[Any]:
    """The stored form of a column in a row."""
    if _is_text(kind):
        return np.dtype("<i8" if _is_large(kind) else "<i4")
    if pa.types.is_boolean(kind):
        return np.dtype("u1")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return found
    width = kind.bit_width // 8
    return np.dtype(f"<i{width}" if width <= 8 else f"V{width}")


def text_offsets(column: pa.Array) -> npt.NDArray[Any]:
    """Where each string begins, from the first one on, and where the last one ends."""
    offsets = _offsets(column)
    found: npt.NDArray[Any] = offsets - offsets[0]
    return found


def text_bytes(column: pa.Array) -> pa.Buffer:
    """The strings, one after the other."""
    begin, stop = _offsets(column)[[0, -1]].tolist()
    return (column.buffers()[2] or pa.py_buffer(b"")).slice(begin, stop - begin)


def _offsets(column: pa.Array) -> npt.NDArray[Any]:
    places = np.frombuffer(column.buffers()[1], dtype=_stored(column.type))
    return places[column.offset : column.offset + len(column) + 1]


def _values(column: pa.Array, stored: np.dtype[Any]) -> npt.NDArray[Any]:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    values = np.frombuffer(column.buffers()[1], dtype=stored)
    return values[column.offset : column.offset + len(column)]


def _bitmap(present: npt.NDArray[np.uint8]) -> pa.Buffer | None:
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
