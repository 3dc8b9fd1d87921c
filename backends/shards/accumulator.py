"""`Accumulator`: the base class of aggregates that users write."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.errors import RefusedError


class Accumulator(ABC):
    """An aggregate of your own, over Arrow columns.

    A subclass declares the columns of its state and implements four methods, each of which gets
    many rows at once. Use it as `retain(..., aggregates={"x": MyAccumulator("price")})`. Instances
    are created only with names of columns, so define settings as attributes of the class.

    Records are aggregated in any order and in any grouping, so `merge` must not depend on either.
    Null values reach `update`. Columns and states must not be changed in place.

    Attributes:
        state: names and Arrow types of the columns of the state: numbers, decimals, booleans,
            strings, binaries, dates and timestamps. They may be null.
        result_type: the Arrow type of the result: one of the same types, or a list of them.
        columns: names of the input columns that the aggregate reads.
    """

    state: ClassVar[Mapping[str, pa.DataType]]
    result_type: ClassVar[pa.DataType]

    def __init__(self, *columns: str) -> None:
        """Take the names of the input's columns, in the order in which `update` gets them.

        Raises:
            RefusedError: one of them is not text.
        """
        for column in columns:
            if not isinstance(column, str):
                raise RefusedError(
                    f"{type(self).__name__}: {column!r} is not the name of a column; pass a string"
                )
        self.columns = columns

    @abstractmethod
    def init(self) -> Sequence[Any]:
        """The state without records: a Python value per column. Merged, it changes nothing."""

    @abstractmethod
    def update(self, state: list[pa.Array], columns: list[pa.Array]) -> Sequence[Any]:
        """The states after one record each.

        Args:
            state: columns of n rows, each as returned by `init`.
            columns: the input's columns, n rows each: record i is added to state i.

        Returns:
            The columns of the state, n rows each, as Arrow or numpy arrays.
        """

    @abstractmethod
    def merge(
        self, state: list[pa.Array], group: npt.NDArray[np.int64], groups: int
    ) -> Sequence[Any]:
        """The states of groups of states.

        Args:
            state: columns of n rows, n >= groups.
            group: n numbers: the group of each row, ascending from 0 to groups - 1.
            groups: the number of groups; each has at least one row.

        Returns:
            The columns of the state, a row per group, as Arrow or numpy arrays.
        """

    @abstractmethod
    def result(self, state: list[pa.Array]) -> Any:
        """The results of n states: an array of n rows of the result type, Arrow or numpy."""
