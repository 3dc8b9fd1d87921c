"""The keys of a batch: as they were given, and as the bytes that tables know them by."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.state.codec import Codec
from idlestate.state.errors import NullValueError, StateTypeError

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class KeyBatch:
    """Keys in the order of a batch, a key perhaps more than once.

    Attributes:
        codec: of one key.
        encoded: the bytes of each key, as the codec makes them.
    """

    def __init__(self, codec: Codec, encoded: pa.BinaryArray) -> None:
        """Keys that are encoded already."""
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
        """The keys as Python has them."""
        if pa.types.is_string(self.codec.kind):
            try:
                found: list[Any] = self.encoded.cast(pa.string()).to_pylist()
            except pa.ArrowInvalid:  # half a surrogate pair, which Java's strings may hold
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
        """A number for each key, equal for equal ones."""
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
    """An Arrow array where the values make one of the type."""
    values = given if isinstance(given, np.ndarray) else list(given)
    whole = not pa.types.is_integer(codec.kind) or isinstance(values, np.ndarray)
    if not whole and not set(map(type, values)) <= {int, type(None)}:
        return list(values)  # Arrow cuts fractions off to make an integer
    try:
        return pa.array(values, codec.kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # The codec knows halves of surrogate pairs, and says what is wrong with others.
        return list(values)


def _in_one_go(kind: pa.DataType, array: pa.Array) -> pa.BinaryArray | None:
    """The bytes of an array of keys, None where each has to be encoded for itself."""
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


def fixed_width(items: npt.NDArray[Any]) -> pa.BinaryArray:
    """Items of one width as their bytes."""
    offsets = np.arange(len(items) + 1, dtype=np.int32) * np.int32(items.dtype.itemsize)
    data = pa.py_buffer(np.ascontiguousarray(items).tobytes())
    return pa.Array.from_buffers(pa.binary(), len(items), [None, pa.py_buffer(offsets), data])


def layout_of(array: pa.BinaryArray) -> tuple[npt.NDArray[np.uint8], Positions, Positions]:
    """Bytes of an array with eight more behind them, and where each item starts and how long it is.

    The spare bytes let every item be read in words of eight.
    """
    _, at, data = array.buffers()
    ends = np.frombuffer(at, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    first, last = (int(ends[0]), int(ends[-1])) if len(array) else (0, 0)
    padded = np.zeros(last - first + 8, dtype=np.uint8)
    if last > first:
        padded[: last - first] = np.frombuffer(data, dtype=np.uint8)[first:last]
    starts = ends[:-1].astype(np.int64) - first
    return padded, starts, np.diff(ends).astype(np.int64)


def slices(data: npt.NDArray[np.uint8], starts: Positions, sizes: Positions) -> pa.BinaryArray:
    """Bytes that begin at these places, of these lengths."""
    ends = np.concatenate(([0], np.cumsum(sizes)))
    at = np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])
    offsets = pa.py_buffer(ends.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, offsets, pa.py_buffer(data[at])])


def order_of(array: pa.BinaryArray) -> pa.Array:
    """The positions of the items in the order of their bytes; equal ones keep theirs."""
    return pc.array_sort_indices(array)
