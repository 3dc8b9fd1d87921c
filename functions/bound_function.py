"""A user's function, bound to its operator."""

from dataclasses import dataclass

import pyarrow as pa

from idlestate.functions.function import KeyedProcessFunction


@dataclass(frozen=True)
class BoundFunction:
    """A function, the columns of records that it receives, and its output columns.

    Attributes:
        uid: the operator.
        function: the function, not opened.
        inputs: the columns of a record, including keys, per input.
        output: the columns that it yields.
        rejects: whether a record on which it fails is rejected; otherwise the batch stops.
        ttls_ms: times to live by state name; states without one are omitted.
        form: `keyed`: calls receive one key; `batched`: many keys; `both`: many keys, or one key
            where that is faster or identifies the failing record.
    """

    uid: str
    function: KeyedProcessFunction
    inputs: tuple[tuple[str, ...], ...]
    output: pa.Schema
    ttls_ms: tuple[tuple[str, int], ...] = ()
    rejects: bool = False
    form: str = "keyed"

    @property
    def is_batched(self) -> bool:
        """Whether calls receive many keys."""
        return self.form != "keyed"

    @property
    def name(self) -> str:
        """The function's name in errors."""
        return type(self.function).__qualname__
