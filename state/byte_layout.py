"""The layout of state in rows of bytes: in RocksDB, and in snapshots of all backends.

Row key, version 1, so that a key group is one contiguous range:

    group          2 bytes, big-endian
    key            length (varint), bytes
    namespace      0 for none, else length + 1 (varint), bytes
    map            0 for a user key that is None, else 1 and its bytes, to the end
    list           8 bytes, big-endian: 0 for the list as merged, else the number of an append

Row value:

    value, map     1 byte: 0 no value, 1 a value, 2 only a timestamp; the timestamp (8 bytes,
                   big-endian, milliseconds) when the state has timestamps; the value's bytes
    list           items as `join_items` writes them, each with the timestamp in front
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Flags, Positions, fixed_width
from idlestate.state.batch_values import Cells, Column, Stored, dtype_of
from idlestate.state.codec import (
    Codec,
    codec_for,
    join_items,
    split_items,
)
from idlestate.state.descriptors import StateKind
from idlestate.state.errors import NullValueError
from idlestate.state.key_batch import KeyBatch, encoded_keys
from idlestate.state.key_codec import key_codec_for

ROW_VERSION = 1

STAMP = struct.Struct(">q")
SEQUENCE = struct.Struct(">Q")
MERGED = SEQUENCE.pack(0)

NO_VALUE, VALUE, STAMP_ONLY = b"\0", b"\1", b"\2"


@dataclass(frozen=True, slots=True)
class ValueLayout:
    """Row values of one state.

    Attributes:
        kind: the kind of state.
        value: codec of the value, element, map value or accumulator.
        user_key: codec of keys inside a map.
        stamped: whether each value has a timestamp.
    """

    kind: StateKind
    value: Codec
    user_key: Codec | None
    stamped: bool

    @classmethod
    def of(
        cls, kind: StateKind, value: pa.DataType, user_key: pa.DataType | None, *, stamped: bool
    ) -> "ValueLayout":
        """The layout of a state of this kind and these types."""
        return cls(kind, codec_for(value), user_key and key_codec_for(user_key), stamped)

    def normal(self, stored: Stored) -> Stored:
        """A value, map value or accumulator as `decode` would return it.

        Raises:
            StateTypeError: it has another type.
        """
        if not self.stamped or stored is None:
            return stored if stored is None else self.value.normal(stored)
        value, stamp = stored
        return (value if value is None else self.value.normal(value), stamp)

    def encode(self, stored: Stored) -> bytes:
        """The row value of a value, map value or accumulator; None is "no value"."""
        if stored is None:
            return NO_VALUE
        if not self.stamped:
            return VALUE + self.value.encode(stored)
        value, stamp = stored
        if value is None:
            return STAMP_ONLY + STAMP.pack(stamp)
        return VALUE + STAMP.pack(stamp) + self.value.encode(value)

    def encode_present(self, stored: Stored) -> bytes:
        """The row value of a required value.

        Raises:
            NullValueError: there is none.
        """
        if stored is None or (self.stamped and stored[0] is None):
            raise NullValueError(
                f"a value of type {self.value.kind} is None: give a value, or remove the entry"
            )
        return self.encode(stored)

    def decode(self, row: bytes) -> Stored:
        """The inverse of `encode`."""
        flag = row[:1]
        if flag == NO_VALUE:
            return None
        if not self.stamped:
            return self.value.decode(row[1:])
        (stamp,) = STAMP.unpack_from(row, 1)
        return (None if flag == STAMP_ONLY else self.value.decode(row[9:]), stamp)

    def encode_many(self, values: Column, has: Flags, stamp_ms: int) -> list[bytes]:
        """The row values of a batch with one timestamp; undefined where there is no value."""
        if not values.dtype.hasobject:
            rows = np.empty(len(values), dtype=self._fixed(values.dtype))
            rows["flag"], rows["value"] = 1, values
            if self.stamped:
                rows["stamp"] = stamp_ms
            return _listed(fixed_width(rows))
        head = VALUE + STAMP.pack(stamp_ms) if self.stamped else VALUE
        encode = self.value.encode
        if has.all():
            return [head + encode(value) for value in values.tolist()]
        each = zip(values.tolist(), has.tolist(), strict=True)
        return [head + encode(value) if there else b"" for value, there in each]

    def decode_many(self, rows: Sequence[bytes | None]) -> Cells:
        """The decoded row values of a batch; None is a missing row."""
        kind = self.value.kind
        dtype = dtype_of(kind)
        if not dtype.hasobject:
            fixed = self._fixed(dtype)
            data = b"".join(_filled(rows, bytes(fixed.itemsize)))
            # Rows without a value are shorter, none is longer.
            if len(data) == len(rows) * fixed.itemsize:
                found = np.frombuffer(data, dtype=fixed)
                there = found["flag"] != 0
                stamps = found["stamp"].astype(np.int64) if self.stamped else None
                return Cells(found["value"].astype(dtype), there, there, stamps)
        stored = [None if row is None else self.decode(row) for row in rows]
        return Cells.of(stored, kind, stamped=self.stamped)

    def _fixed(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of a row value of fixed width."""
        stamp = [("stamp", ">i8")] if self.stamped else []
        return np.dtype([("flag", "u1"), *stamp, ("value", dtype.newbyteorder(">"))])

    def heads(self, rows: Sequence[bytes]) -> tuple[Flags, Positions]:
        """In a state with timestamps: whether each row value has one, and the timestamps."""
        data = b"".join([row[:9] for row in rows])
        if len(data) < 9 * len(rows):  # some are null markers
            data = b"".join([row[:9] if len(row) > 1 else bytes(9) for row in rows])
        found = np.frombuffer(data, dtype=[("flag", "u1"), ("stamp", ">i8")])
        return found["flag"] != 0, found["stamp"].astype(np.int64)

    def encode_each_item(self, values: Column, stamp_ms: int) -> list[bytes]:
        """The row values of many lists of one element, with one timestamp."""
        dtype = values.dtype
        if not dtype.hasobject:
            stamp = [("stamp", ">i8")] if self.stamped else []
            item = np.dtype([*stamp, ("value", dtype.newbyteorder(">"))])
            rows = np.empty(len(values), dtype=[("flag", "u1"), ("size", "u1"), *item.descr])
            rows["flag"], rows["size"], rows["value"] = 1, item.itemsize, values
            if self.stamped:
                rows["stamp"] = stamp_ms
            return _listed(fixed_width(rows))
        stamped = self.stamped
        return [self.encode_items([(each, stamp_ms) if stamped else each]) for each in values]

    def encode_items(self, items: list[Stored]) -> bytes:
        """The row value of list elements."""
        if not self.stamped:
            return join_items(items, self.value.encode)
        encode, pack = self.value.encode, STAMP.pack
        return join_items(items, lambda item: pack(item[1]) + encode(item[0]))

    def decode_items(self, row: bytes) -> list[Stored]:
        """The list elements of a row value."""
        if not self.stamped:
            return split_items(row, self.value.decode)
        decode, unpack = self.value.decode, STAMP.unpack_from
        return split_items(row, lambda data: (decode(data[8:]), unpack(data)[0]))

    def encode_user_key(self, user_key: Any) -> bytes:
        """The part of a row key that names a map entry."""
        if user_key is None:
            return b"\0"
        assert self.user_key is not None
        return b"\1" + self.user_key.encode(user_key)

    def user_keys(self, given: Any) -> KeyBatch:
        """User keys of a batch, encoded as by `encode_user_key`.

        Raises:
            StateTypeError: one has another type.
        """
        assert self.user_key is not None
        codec = replace(
            self.user_key,
            kind=pa.binary(),
            encode=self.encode_user_key,
            decode=self.decode_user_key,
        )
        named = pc.binary_join_element_wise(
            pa.scalar(b"\1"), encoded_keys(self.user_key, given), b""
        )
        return KeyBatch(codec, named.fill_null(b"\0"))

    def decode_user_key(self, rest: bytes) -> Any:
        """The key of a map entry."""
        assert self.user_key is not None
        return None if rest[:1] == b"\0" else self.user_key.decode(rest[1:])


def _listed(array: pa.BinaryArray) -> list[bytes]:
    found: list[bytes] = array.to_pylist()
    return found


def _filled(rows: Iterable[bytes | None], filler: bytes) -> list[bytes]:
    return [filler if row is None else row for row in rows]
