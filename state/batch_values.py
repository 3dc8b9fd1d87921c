"""The values of a batch of keys, as columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Flags, Positions, spread
from idlestate.state.codec import Codec
from idlestate.state.input_conversion import are_normal, array_or_list, in_type, objects_of

Column = npt.NDArray[Any]

Stored = Any
"""A stored value: the value alone, or `(value, timestamp)` in a state with timestamps."""


def dtype_of(kind: pa.DataType) -> np.dtype[Any]:
    """The numpy type for values of an Arrow type: itself if its width is fixed, else object."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return found
    return np.dtype(object)


def as_objects(values: Iterable[Any], count: int) -> Column:
    """Values as a column of objects; lists among them stay lists."""
    return np.fromiter(values, dtype=object, count=count)


def as_column(codec: Codec, given: Any) -> tuple[Column, Flags]:
    """Values of a batch as a column, and flags for those that are not None.

    Raises:
        StateTypeError: one has another type.
    """
    kind, dtype, given = codec.kind, dtype_of(codec.kind), array_or_list(given)
    if not dtype.hasobject:
        given = in_type(kind, given)
        if isinstance(given, list):
            return _one_by_one(codec, given)
        if not given.null_count:
            return given.to_numpy(zero_copy_only=False), np.ones(len(given), dtype=np.bool_)
        has = given.is_valid().to_numpy(zero_copy_only=False)
        return given.fill_null(kind_zero(kind)).to_numpy(zero_copy_only=False), has
    if isinstance(given, pa.Array):
        given = in_type(kind, given)
    values = objects_of(given) if isinstance(given, pa.Array) else given
    has = np.fromiter((each is not None for each in values), dtype=np.bool_, count=len(values))
    if not are_normal(kind, values):
        values = [each if each is None else codec.normal(each) for each in values]
    return as_objects(values, len(values)), has


def kind_zero(kind: pa.DataType) -> pa.Scalar:
    """The placeholder for missing values."""
    return pa.scalar(False if pa.types.is_boolean(kind) else 0, kind)


def _one_by_one(codec: Codec, given: list[Any]) -> tuple[Column, Flags]:
    """Convert each value with the codec, whose error names the wrong one."""
    has = np.fromiter((each is not None for each in given), dtype=np.bool_, count=len(given))
    column = np.zeros(len(given), dtype=dtype_of(codec.kind))
    for at in np.flatnonzero(has).tolist():
        column[at] = codec.decode(codec.encode(given[at]))
    return column, has


@dataclass(frozen=True, slots=True)
class Cells:
    """The stored values of the keys of a batch.

    Attributes:
        values: the values; undefined where `has` is false.
        has: whether there is a value.
        there: whether something is stored: a value, or an entry without a value.
        stamps: the timestamps in milliseconds; None in a state without timestamps.
    """

    values: Column
    has: Flags
    there: Flags
    stamps: Positions | None

    @classmethod
    def of(cls, stored: Sequence[Stored], kind: pa.DataType, *, stamped: bool) -> "Cells":
        """Cells of the results of single reads."""
        count, dtype = len(stored), dtype_of(kind)
        there = np.fromiter((each is not None for each in stored), np.bool_, count)
        stamps, values = None, list(stored)
        if stamped:
            stamps = np.fromiter((0 if each is None else each[1] for each in stored), "i8", count)
            values = [None if each is None else each[0] for each in stored]
        has = np.fromiter((each is not None for each in values), np.bool_, count)
        if dtype.hasobject:
            return cls(as_objects(values, count), has, there, stamps)
        filled = np.fromiter((0 if each is None else each for each in values), dtype, count)
        return cls(filled, has, there, stamps)

    def __len__(self) -> int:
        return len(self.there)

    @property
    def stamps_there(self) -> Positions:
        """The timestamps of what is stored, in a state with timestamps."""
        assert self.stamps is not None
        return self.stamps[self.there]

    def where(self, flags: Flags) -> "Cells":
        """The cells that are flagged."""
        stamps = None if self.stamps is None else self.stamps[flags]
        return Cells(self.values[flags], self.has[flags], self.there[flags], stamps)

    def take(self, positions: Positions) -> "Cells":
        """The cells at these positions."""
        stamps = None if self.stamps is None else self.stamps[positions]
        return Cells(self.values[positions], self.has[positions], self.there[positions], stamps)

    def then(self, others: "Cells") -> "Cells":
        """These cells followed by others of the same state."""
        stamps = None
        if self.stamps is not None and others.stamps is not None:
            stamps = np.concatenate((self.stamps, others.stamps))
        return Cells(
            np.concatenate((self.values, others.values)),
            np.concatenate((self.has, others.has)),
            np.concatenate((self.there, others.there)),
            stamps,
        )

    def visible(self, kind: pa.DataType, hidden: Flags | None = None) -> pa.Array:
        """The values as an Arrow array; null for missing and hidden ones."""
        has = self.has if hidden is None else self.has & ~hidden
        if not self.values.dtype.hasobject:
            return pa.array(self.values, kind, mask=None if has.all() else ~has)
        return pa.array(self.objects(has), kind)

    def objects(self, has: Flags | None = None) -> list[Any]:
        """The values as Python objects, None for missing ones."""
        has = self.has if has is None else has
        values: list[Any] = self.values.tolist()
        if has.all():
            return values
        return [value if each else None for value, each in zip(values, has.tolist(), strict=True)]

    def stored(self) -> list[Stored]:
        """The results of single reads; None for an entry without a value or timestamp."""
        if self.stamps is None:
            return self.objects()
        return [
            (value, stamp) if there else None
            for value, stamp, there in zip(
                self.objects(), self.stamps.tolist(), self.there.tolist(), strict=True
            )
        ]


@dataclass(frozen=True, slots=True)
class Lists:
    """The list of each key of a batch.

    Attributes:
        there: whether a key has a list.
        sizes: the number of elements of each list.
        items: all elements, in the order of the keys.
    """

    there: Flags
    sizes: Positions
    items: Cells

    @classmethod
    def of(
        cls, lists: Sequence[list[Stored] | None], kind: pa.DataType, *, stamped: bool
    ) -> "Lists":
        """The lists of single reads."""
        there = np.fromiter((each is not None for each in lists), np.bool_, len(lists))
        sizes = np.fromiter((len(each or ()) for each in lists), np.int64, len(lists))
        flat = [item for each in lists if each for item in each]
        return cls(there, sizes, Cells.of(flat, kind, stamped=stamped))

    def mixed(self, flags: Flags, others: "Lists") -> "Lists":
        """These lists, replaced by others where a flag is set."""
        order = np.argsort(np.argsort(flags, kind="stable"), kind="stable")
        sizes = np.concatenate((self.sizes, others.sizes))
        begins = np.cumsum(sizes) - sizes
        items = self.items.then(others.items).take(spread(begins[order], sizes[order]))
        return Lists(np.concatenate((self.there, others.there))[order], sizes[order], items)

    def visible(self, kind: pa.DataType, there: Flags) -> pa.Array:
        """The lists as an Arrow array, null for missing ones."""
        offsets = np.concatenate(([0], np.cumsum(self.sizes))).astype(np.int32)
        mask = None if there.all() else pa.array(~there)
        values = self.items.visible(kind)
        return pa.ListArray.from_arrays(pa.array(offsets), values, pa.list_(kind), mask=mask)
