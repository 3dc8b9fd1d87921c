"""The keys of a batch: the original ones, and their bytes for tables."""

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Flags, Positions, fixed_width
from idlestate.state.codec import Codec
from idlestate.state.errors import NullValueError
from idlestate.state.input_conversion import array_or_list, in_type, objects_of


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
            StateTypeError: one has another type.
        """
        if isinstance(given, KeyBatch):
            return given
        encoded = encoded_keys(codec, given)
        if encoded.null_count:
            raise NullValueError(f"{encoded.null_count} keys are None: leave them out")
        return cls(codec, encoded)

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


def encoded_keys(codec: Codec, given: Any) -> pa.BinaryArray:
    """The bytes of each key, null for None.

    Raises:
        StateTypeError: one has another type.
    """
    keys = in_type(codec.kind, array_or_list(given))
    if isinstance(keys, pa.Array):
        if (encoded := _in_one_go(codec.kind, keys)) is not None:
            return encoded
        keys = objects_of(keys)
    return pa.array([None if key is None else codec.encode(key) for key in keys], pa.binary())


def _in_one_go(kind: pa.DataType, array: pa.Array) -> pa.BinaryArray | None:
    """The bytes of an array of keys; None if each key must be encoded separately."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return array.cast(pa.binary())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        plain = array.fill_null(0).to_numpy(zero_copy_only=False)
        if pa.types.is_floating(kind):
            # All NaNs are one key.
            plain = np.where(np.isnan(plain), np.array(np.nan, plain.dtype), plain)
        encoded = fixed_width(plain.astype(plain.dtype.newbyteorder(">")))
        return pc.if_else(array.is_valid(), encoded, None) if array.null_count else encoded
    return None
