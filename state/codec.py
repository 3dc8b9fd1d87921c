"""Values as bytes: one small codec for each Arrow type, used by RocksDB and by snapshots.

Version 1 of the layout:

    int8 to int64     big-endian, two's complement, in the type's width
    float32, float64  big-endian IEEE 754
    bool              one byte, 0 or 1
    string, binary    the bytes (strings as UTF-8)
    list<T>           per item: 0 for None, else 1, length (varint), the item
    struct<...>       per field, in order: as an item of a list

A varint has seven bits per byte, lowest first; the high bit is set on all bytes except the last.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from idlestate.state.errors import NullValueError, StateMigrationError, StateTypeError

CODEC_VERSION = 1

_WIDTHS = {pa.int8(): ">b", pa.int16(): ">h", pa.int32(): ">i", pa.int64(): ">q"}
_FLOATS = {pa.float32(): ">f", pa.float64(): ">d"}
_ONE_BYTE = [bytes((number,)) for number in range(128)]


@dataclass(frozen=True, slots=True)
class Codec:
    """Converts values of one type to bytes and back.

    Attributes:
        kind: the type.
        encode: returns the bytes of a value.
        decode: returns the value of bytes.
        normal: returns the value as decoding would; refuses the same values as `encode`.
    """

    kind: pa.DataType
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    normal: Callable[[Any], Any]


def varint(number: int) -> bytes:
    """A number of 0 or more as a varint."""
    if number < 128:
        return _ONE_BYTE[number]
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at this offset, and the offset after it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


def codec_for(kind: pa.DataType) -> Codec:
    """The codec of a type.

    Raises:
        StateMigrationError: the type is not supported; the text names it.
    """
    if layout := _WIDTHS.get(kind) or _FLOATS.get(kind):
        return _packed(kind, struct.Struct(layout))
    if pa.types.is_boolean(kind):
        return _packed(kind, struct.Struct(">?"))
    if pa.types.is_string(kind):
        return Codec(kind, _encode_string, _decode_string, _normal_string)
    if pa.types.is_binary(kind):
        return Codec(kind, _encode_bytes, bytes, lambda value: bytes(_encode_bytes(value)))
    if pa.types.is_list(kind):
        return _list_codec(kind, codec_for(kind.value_type))
    if pa.types.is_struct(kind):
        return struct_codec(kind, [codec_for(field.type) for field in kind])
    raise StateMigrationError(
        f"{kind} has no codec: take integers, floats, booleans, strings, binary, lists or structs"
    )


def join_items(values: Iterable[Any], encode: Callable[[Any], bytes]) -> bytes:
    """Items one after another, each with its length; None is a single zero byte."""
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(b"\0")
            continue
        data = encode(value)
        parts += (b"\1", varint(len(data)), data)
    return b"".join(parts)


def split_items(data: bytes, decode: Callable[[bytes], Any]) -> list[Any]:
    """The inverse of `join_items`."""
    found: list[Any] = []
    at = 0
    while at < len(data):
        present = data[at]
        at += 1
        if not present:
            found.append(None)
            continue
        length, at = read_varint(data, at)
        found.append(decode(data[at : at + length]))
        at += length
    return found


def _present(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        raise NullValueError(f"a value of type {kind} is None: give a value, or remove the entry")
    return value


def wrong_type(value: Any, kind: pa.DataType) -> StateTypeError:
    """The error for a key or value of another type than declared."""
    return StateTypeError(f"{value!r} is not a valid {kind}: pass a value of the declared type")


def _packed(kind: pa.DataType, layout: struct.Struct) -> Codec:
    pack, unpack = layout.pack, layout.unpack

    of_truth = pa.types.is_boolean(kind)

    def encode(value: Any) -> bytes:
        if value is None:
            _present(value, kind)
        try:
            if not of_truth or value in (True, False):
                return pack(value)
        except (struct.error, OverflowError, TypeError, ValueError) as error:
            raise wrong_type(value, kind) from error
        raise wrong_type(value, kind)

    def decode(data: bytes) -> Any:
        return unpack(data)[0]

    if kind in _WIDTHS:
        bound = 1 << 8 * layout.size - 1

        def normal(value: Any) -> Any:
            if type(value) is int and -bound <= value < bound:
                return value
            return decode(encode(value))

        return Codec(kind, encode, decode, normal)
    if plain := {pa.float64(): float, pa.bool_(): bool}.get(kind):
        return Codec(
            kind,
            encode,
            decode,
            lambda value: value if type(value) is plain else decode(encode(value)),
        )
    return Codec(kind, encode, decode, lambda value: decode(encode(value)))


def _encode_string(value: Any) -> bytes:
    if not isinstance(value, str):
        _present(value, pa.string())
        raise wrong_type(value, pa.string())
    return value.encode("utf-8", "surrogatepass")


def _normal_string(value: Any) -> str:
    if type(value) is str:
        return value
    _encode_string(value)
    return str(value)


def _decode_string(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _encode_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        _present(value, pa.binary())
        raise wrong_type(value, pa.binary())
    return value


def _list_codec(kind: pa.DataType, item: Codec) -> Codec:
    def items(values: Any) -> Iterator[Any]:
        if not isinstance(values, str | bytes | Mapping):
            try:
                return iter(values)
            except TypeError:
                pass
        raise wrong_type(_present(values, kind), kind)

    def normal(values: Any) -> list[Any]:
        return [value if value is None else item.normal(value) for value in items(values)]

    return Codec(
        kind,
        lambda values: join_items(items(values), item.encode),
        lambda data: split_items(data, item.decode),
        normal,
    )


def struct_codec(kind: pa.DataType, codecs: Sequence[Codec]) -> Codec:
    """The codec of a struct whose fields have these codecs: tuples, with None for a null field."""
    normals = [codec.normal for codec in codecs]

    def check(value: Any) -> None:
        if not isinstance(value, tuple | list) or len(value) != len(codecs):
            raise wrong_type(_present(value, kind), kind)

    def encode(value: Any) -> bytes:
        check(value)
        return b"".join(
            join_items((item,), codec.encode) for item, codec in zip(value, codecs, strict=True)
        )

    def normal(value: Any) -> tuple[Any, ...]:
        check(value)
        pairs = zip(value, normals, strict=True)
        return tuple([item if item is None else of_field(item) for item, of_field in pairs])

    def decode(data: bytes) -> tuple[Any, ...]:
        raw = split_items(data, bytes)
        return tuple(
            None if item is None else codec.decode(item)
            for item, codec in zip(raw, codecs, strict=True)
        )

    return Codec(kind, encode, decode, normal)
