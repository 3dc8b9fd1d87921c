"""Codecs of keys: two keys are equal iff their bytes are equal, in dicts too.

Python's equality of floats differs: no NaN equals another one, and the two zeros are equal. In Java
and in RocksDB, all NaNs are one key, and the zeros are two keys.
"""

import math
from dataclasses import replace
from typing import Final

import pyarrow as pa

from idlestate.state.codec import Codec, codec_for, struct_codec


class _MinusZero(float):
    """Negative zero, equal only to itself."""

    def __eq__(self, other: object) -> bool:
        return other is self

    def __hash__(self) -> int:
        return 1 << 40


_MINUS_ZERO: Final = _MinusZero(-0.0)
_NAN: Final = math.nan


def key_codec_for(kind: pa.DataType) -> Codec:
    """The codec of a type of keys.

    Raises:
        StateMigrationError: there is none; the text names the type.
    """
    if pa.types.is_struct(kind):
        return struct_codec(kind, [key_codec_for(field.type) for field in kind])
    codec = codec_for(kind)
    if not pa.types.is_floating(kind):
        return codec
    return replace(
        codec,
        encode=lambda value: codec.encode(_as_key(codec.normal(value))),
        decode=lambda data: _as_key(codec.decode(data)),
        normal=lambda value: _as_key(codec.normal(value)),
    )


def _as_key(value: float) -> float:
    if value != value:  # noqa: PLR0124 - a NaN
        return _NAN
    return _MINUS_ZERO if value == 0 and math.copysign(1, value) < 0 else value
