"""A function as an operator calls it."""

from dataclasses import dataclass

import pyarrow as pa

from idlestate.functions.function import KeyedProcessFunction


@dataclass(frozen=True)
class BoundFunction:
    """A function, what of a record it is given, and what it yields. Travels to tasks.

    Attributes:
        uid: the operator.
        function: the function, not opened.
        columns: the columns of a record, keys among them.
        output: the columns that it yields.
    """

    uid: str
    function: KeyedProcessFunction
    columns: tuple[str, ...]
    output: pa.Schema

    @property
    def name(self) -> str:
        """The function in errors."""
        return type(self.function).__qualname__
