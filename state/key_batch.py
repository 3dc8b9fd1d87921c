"""The keys of a batch: the original ones, and their bytes for tables."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Flags, Positions, fixed_width
from idlestate.state.codec import Codec
from idlestate.state.errors import NullValueError, StateTypeError


class KeyBatch:
    """Keys in the order of a batch; a key may occur several times.

    Attributes:
        codec: the codec of one key.
        encoded: the bytes of each key, as encoded by the codec.
    """

    def __init__(self, codec: Codec, encoded: pa.BinaryArray) -> None:
        """A batch of encoded keys."""
        self.codec = codec
        self.encoded = encoded

    @classmethod
    def of(cls, codec: Codec, given: Any) -> "KeyBatch":
        """Keys of an Arrow array, a numpy array or a sequence.

        Raises:
            NullValueError: one of them is None.
            StateTypeError: one is of another type.
        """
        if isinstance(given, KeyBatch):
            return given
        if isinstance(given, pa.ChunkedArray):
            given = given.combine_chunks()
        if not isinstance(given, pa.Array) and not pa.types.is_nested(codec.kind):
            given = _typed(codec, given)
        if isinstance(given, pa.Array):
            if given.null_count:
                raise NullValueError(f"{given.null_count} keys are None: leave them out")
            if (encoded := _in_one_go(codec.kind, given)) is not None:
                return cls(codec, encoded)
            given = given.to_pylist()
        keys = [_as_tuple(key) if isinstance(key, dict) else key for key in given]
        return cls(codec, pa.array(list(map(codec.encode, keys)), pa.binary()))

    def __len__(self) -> int:
        return len(self.encoded)

    @cached_property
    def keys(self) -> list[Any]:
        """The keys as Python objects."""
        if pa.types.is_string(self.codec.kind):
            try:
                found: list[Any] = self.encoded.cast(pa.string()).to_pylist()
            except pa.ArrowInvalid:  # half a surrogate pair, which Java's strings may contain
                pass
            else:
                return found
        return list(map(self.codec.decode, self.encoded.to_pylist()))

    def where(self, flags: Flags) -> "KeyBatch":
        """The keys that are flagged."""
        return KeyBatch(self.codec, self.encoded.filter(pa.array(flags)))

    def take(self, positions: Positions) -> "KeyBatch":
        """The keys at these positions."""
        return KeyBatch(self.codec, self.encoded.take(pa.array(positions)))

    @property
    def codes(self) -> Positions:
        """A number for each key; equal keys have equal numbers."""
        codes = self.encoded.dictionary_encode().indices
        found: Positions = codes.to_numpy(zero_copy_only=False).astype(np.int64)
        return found

    def first_of_each(self) -> Flags:
        """Flags the first position of each distinct key."""
        return _first_of_each(self.codes)


def first_of_each_pair(keys: KeyBatch, others: KeyBatch) -> Flags:
    """Flags the first position of each distinct pair."""
    return _first_of_each(keys.codes * len(keys) + others.codes)


def _first_of_each(codes: Positions) -> Flags:
    flags = np.zeros(len(codes), dtype=np.bool_)
    flags[np.unique(codes, return_index=True)[1]] = True
    return flags


def _as_tuple(value: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(_as_tuple(each) if isinstance(each, dict) else each for each in value.values())


def _typed(codec: Codec, given: Iterable[Any]) -> pa.Array | list[Any]:
    """An Arrow array of the type, if the values can be converted."""
    values = given if isinstance(given, np.ndarray) else list(given)
    whole = not pa.types.is_integer(codec.kind) or isinstance(values, np.ndarray)
    if not whole and not set(map(type, values)) <= {int, type(None)}:
        return list(values)  # Arrow would truncate fractions to integers
    try:
        return pa.array(values, codec.kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # The codec accepts halves of surrogate pairs, and reports other errors.
        return list(values)


def _in_one_go(kind: pa.DataType, array: pa.Array) -> pa.BinaryArray | None:
    """The bytes of an array of keys; None if each key must be encoded separately."""
    if array.type != kind:
        try:
            array = array.cast(kind)
        except pa.ArrowException as error:
            raise StateTypeError(
                f"keys are {array.type}, declared as {kind}: pass keys of the declared type"
            ) from error
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return array.cast(pa.binary())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        plain = array.to_numpy(zero_copy_only=False)
        if pa.types.is_floating(kind):
            # All NaNs are one key.
            plain = np.where(np.isnan(plain), np.array(np.nan, plain.dtype), plain)
        return fixed_width(plain.astype(plain.dtype.newbyteorder(">")))
    return None
