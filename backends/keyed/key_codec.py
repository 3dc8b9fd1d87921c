"""Codecs of keys: two keys are the same iff their bytes are, in dicts too.

Python's equality says otherwise of floats: no NaN equals another, and the two zeros are equal. For
Java and for RocksDB a NaN is a NaN, and the zeros are two keys.
"""

import math
from dataclasses import replace
from typing import Final

import pyarrow as pa

from idlestate.backends.keyed.codec import Codec, codec_for


class _MinusZero(float):
    """The zero below zero, equal to itself alone."""

    def __eq__(self, other: object) -> bool:
        return other is self

    def __hash__(self) -> int:
        return 1 << 40


_MINUS_ZERO: Final = _MinusZero(-0.0)
_NAN: Final = math.nan


def key_codec_for(kind: pa.DataType) -> Codec:
    """The codec of a type of keys; floats inside of lists and structs are taken as they are.

    Raises:
        StateMigrationError: there is none; the text names the type.
    """
    codec = codec_for(kind)
    if not pa.types.is_floating(kind):
        return codec
    return replace(
        codec,
        encode=lambda value: codec.encode(_as_key(value)),
        decode=lambda data: _as_key(codec.decode(data)),
        normal=lambda value: _as_key(codec.normal(value)),
    )


def _as_key(value: float) -> float:
    if value != value:  # noqa: PLR0124 - a NaN
        return _NAN
    return _MINUS_ZERO if value == 0 and math.copysign(1, value) < 0 else value
