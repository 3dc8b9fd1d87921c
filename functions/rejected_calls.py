"""Undoes failing calls of a function, with `on_error="reject"`.

Batches are first processed without this; only a batch with an error is processed again with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from idlestate.functions.errors import FunctionError, at
from idlestate.functions.function_context import Timers
from idlestate.functions.yielded_rows import problem_of


@dataclass(frozen=True, slots=True)
class SavedKey:
    """A key before a call, and the numbers of births, rows and calls at that time."""

    is_open: bool
    ended_at_ms: int | None
    times_ms: tuple[int, int, int, int, int, int]
    contents: list[Any]
    timers: Timers
    wakes_at_ms: int
    births: int
    outputs: int
    calls: int


@dataclass(frozen=True)
class RejectedCalls:
    """Checks what a call yields, and creates what is shown of a failing call.

    Attributes:
        uid: the operator.
        output: the columns to yield.
    """

    uid: str
    output: pa.Schema

    def problem(self, rows: Sequence[Any]) -> str | None:
        """What is wrong with the rows of a call; None if all fit."""
        return next(filter(None, (problem_of(row, self.output) for row in rows)), None)

    def shown(self, error: FunctionError, row: Any) -> dict[str, Any]:
        """The content of a reject row for a call; `row` is the record, None for other calls."""
        record = None if row is None else dict(zip(row._columns, row, strict=True))  # noqa: SLF001
        return {
            "operator": self.uid,
            "method": error.call,
            "key": error.key,
            "time": at(error.at_ms),
            "error": error.said,
            "row": record,
        }
